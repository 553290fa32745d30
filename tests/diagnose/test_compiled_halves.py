"""Compiled modules of another version, and libraries that two packages hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel

HALF = "_cffi_backend.cpython-311-x86_64-linux-gnu.so"


def half(version: str) -> str:
    return f"\x7fELF\0modules\0{version}\0contiguous buffer expected\0"


def add_cffi(environment: Environment, version: str, of: str) -> Path:
    """Install cffi whose record lists a compiled module of its own size, and put another there."""
    files = {"cffi/__init__.py": "", HALF: half(version)}
    environment.add(make_wheel(environment.prefix.parent, "cffi", version, files=files))
    info = environment.packages / f"cffi-{version}.dist-info"
    record = (info / "RECORD").read_text()
    listed = record.replace(f"{HALF},,", f"{HALF},sha256=x,{len(half(version))}")
    (info / "RECORD").write_text(listed)
    path = environment.packages / HALF
    path.write_text(half(of))
    return path


def named() -> list[str]:
    found = run_checks("package_files").having("error", "warning", "unknown")
    return [f.message for f in found if "cffi" in f.message]


def test_a_compiled_module_of_another_version_is_named(environment: Environment) -> None:
    path = add_cffi(environment, "1.16.0", "1.17.10")
    (message,) = named()
    assert message == "cffi 1.16.0 finds the compiled module of cffi 1.17.10"
    path.write_text(half("1.16.0"))
    assert not named()


@pytest.mark.parametrize("text", [half("1.16.0") + "signed", "\x7fELF\0no number\0"])
def test_a_module_that_was_stripped_or_patched_is_not(text: str, environment: Environment) -> None:
    add_cffi(environment, "1.16.0", "1.16.0").write_text(text)
    assert not named()


def duplicates() -> list[str]:
    found = run_checks("duplicate_packages").having("error", "warning", "unknown")
    return [f.message for f in found]


def add_library(environment: Environment, package: str, path: str, size: int) -> None:
    environment.add(make_wheel(environment.prefix.parent, package, "9", files={path: ""}))
    info = environment.packages / f"{package.replace('-', '_')}-9.dist-info"
    record = (info / "RECORD").read_text()
    (info / "RECORD").write_text(record.replace(f"{path},,", f"{path},sha256=x,{size}"))


def test_a_library_of_two_versions_of_cuda_in_one_place_is_named(environment: Environment) -> None:
    path = "nvidia/nccl/lib/libnccl.so.2"
    add_library(environment, "nvidia-nccl-cu12", path, 100)
    assert not duplicates()
    add_library(environment, "nvidia-nccl-cu13", path, 200)
    (message,) = duplicates()
    assert message.startswith("nvidia-nccl-cu12 and nvidia-nccl-cu13 overwrite each other's files")


def test_libraries_of_two_versions_of_cuda_beside_each_other_are_not(
    environment: Environment,
) -> None:
    add_library(environment, "nvidia-cublas-cu12", "nvidia/cublas/lib/libcublas.so.12", 100)
    add_library(environment, "nvidia-cublas", "nvidia/cu13/lib/libcublas.so.13", 200)
    add_library(environment, "nvidia-nccl-cu12", "nvidia/nccl/lib/libnccl.so.2", 100)
    add_library(environment, "nvidia-nccl-again", "nvidia/nccl/lib/libnccl.so.2", 100)
    assert not duplicates()


def test_packages_of_one_module_that_looks_into_another_ones_path_are_named(
    environment: Environment,
) -> None:
    for package, text in (("faiss-cpu", "# __path__\n"), ("faiss-gpu", "x = m.__path__[0]\n")):
        files = {"faiss/__init__.py": text}
        environment.add(make_wheel(environment.prefix.parent, package, "1", files=files))
        info = next(environment.packages.glob(f"{package.replace('-', '_')}-1.dist-info"))
        record = (info / "RECORD").read_text()
        listed = record.replace("faiss/__init__.py,,", f"faiss/__init__.py,sha256=x,{len(text)}")
        (info / "RECORD").write_text(listed)
    (message,) = duplicates()
    assert message == "faiss-cpu and faiss-gpu overwrite each other's files: all install faiss"
