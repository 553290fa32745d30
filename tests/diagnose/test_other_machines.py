"""Packages that were compiled for another machine, in the environment or on PYTHONPATH."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from gpuforge.diagnose.run import run_checks
from gpuforge.diagnose.shared_library import machine_of

from .environments import Environment, make_wheel

AARCH64, X86_64 = 183, 62
PYTHON = f"cp3{sys.version_info[1]}"
OWN, OTHER = (
    f"cpython-3{sys.version_info[1]}-{triplet}"
    for triplet in (sys.implementation._multiarch, "sparc64-linux-gnu")  # type: ignore[attr-defined]
)

pytestmark = pytest.mark.skipif(not machine_of("/proc/self/exe"), reason="needs ELF and /proc")


def elf(machine: int) -> str:
    return "\x7fELF\2\1\1".ljust(16, "\0") + "\3\0" + chr(machine) + "\0" * 100


def elves(*machines: int) -> dict[str, bytes]:
    return {f"fast/_{n}.abi3.so": elf(one).encode("latin-1") for n, one in enumerate(machines)}


def add(environment: Environment, machines: tuple[int, ...], tag: str) -> None:
    libraries = elves(*machines)
    files = {"fast/__init__.py": "", **dict.fromkeys(libraries, "")}
    environment.add(make_wheel(environment.prefix.parent, "fast", "1", files=files))
    for path, content in libraries.items():
        (environment.packages / path).write_bytes(content)
    wheel = environment.packages / "fast-1.dist-info" / "WHEEL"
    wheel.write_text(f"Wheel-Version: 1.0\nTag: {tag}\n")


def named() -> list[str]:
    return [f.message for f in run_checks("package_files").having("error", "warning", "unknown")]


@pytest.mark.parametrize(("machines", "tag", "faults"), [
    ((AARCH64, AARCH64), "cp37-abi3-manylinux_2_28_aarch64", 1),
    ((AARCH64, X86_64), "cp37-abi3-manylinux_2_28_x86_64", 0),  # it brings what each machine needs
    ((X86_64,), "cp37-abi3-manylinux_2_28_x86_64", 0),
    ((AARCH64,), "py3-none-any", 0),
])  # fmt: skip
def test_libraries_for_another_machine_are_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, machines: tuple[int, ...], tag: str,
    faults: int,
) -> None:  # fmt: skip
    own = "gpuforge.diagnose.checks.package_files.machine_of"
    monkeypatch.setattr(own, lambda p: "x86_64" if p == "/proc/self/exe" else machine_of(p))
    add(environment, machines, tag)
    found = named()
    assert len(found) == faults
    assert faults == 0 or found == ["fast 1 was compiled for aarch64, not x86_64"]


def test_packages_for_another_machine_in_the_current_folder_are_a_warning(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"fast/_a.{OTHER}.so"
    wheel = make_wheel(environment.prefix.parent, "fast", "1", files={name: ""})
    for state, folder in (("error", tmp_path / "path"), ("warning", tmp_path / "build")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        (folder / "fast-1.dist-info/WHEEL").write_text("Tag: cp3-cp3-manylinux_2_28_sparc64\n")
        monkeypatch.setenv("PYTHONPATH", str(folder if state == "error" else ""))
        monkeypatch.chdir(folder if state == "warning" else tmp_path)
        (finding,) = run_checks("package_files").having("error", "warning")
        assert finding.state == state


def test_packages_on_the_search_path_for_another_machine_are_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder, ending in {own: OWN, other: OTHER}.items():
        (tmp_path / f"{folder.name}-wheels").mkdir()
        files = {"mine/__init__.py": "", f"mine/_fast.{ending}.so": ""}
        wheel = make_wheel(tmp_path / f"{folder.name}-wheels", "mine", "2", files=files)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        (folder / "mine-2.dist-info" / "WHEEL").write_text(f"Tag: {PYTHON}-{PYTHON}-linux\n")
    monkeypatch.setenv("PYTHONPATH", str(own))
    assert named() == []
    monkeypatch.setenv("PYTHONPATH", str(other))
    (message,) = named()
    assert message.startswith(f"mine 2 in {other} was compiled for sparc64-linux-gnu, not")
