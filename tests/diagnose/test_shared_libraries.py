"""Compiled modules are read as files; what the system lacks of what they need is named."""

from __future__ import annotations

import importlib.machinery
import os
import sysconfig
from pathlib import Path

import pytest

from gpuforge.diagnose.checks import shared_libraries
from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.run import run_checks
from gpuforge.diagnose.shared_library import Needs, needs_of

from .environments import Environment, make_wheel

SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
COMPILED = [
    path
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob(f"lib-dynload/*{SUFFIX}"))
    if b"libc.so.6" in path.read_bytes()
]
pytestmark = pytest.mark.skipif(
    not COMPILED or not Path(shared_libraries.CACHE).exists(), reason="needs ELF modules and glibc"
)


def found(environment: Environment, content: bytes) -> tuple[Finding, ...]:
    """Return what is found of a package with one compiled module."""
    name = f"mine/a{SUFFIX}"
    folder = environment.prefix.parent
    environment.add(make_wheel(folder, "mine", "1.0", files={"mine/__init__.py": "", name: ""}))
    (environment.packages / name).write_bytes(content)
    return run_checks("shared_libraries").having("error", "warning")


def test_what_a_module_needs_is_read() -> None:
    needs = needs_of(str(COMPILED[0]))
    assert "libc.so.6" in needs.libraries
    assert all(name.startswith("GLIBC_") for name in needs.interfaces["libc.so.6"])


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9])
def test_a_damaged_module_needs_nothing(share: float, tmp_path: Path) -> None:
    content = COMPILED[0].read_bytes()
    path = tmp_path / "a.so"
    path.write_bytes(content[: int(len(content) * share)])
    assert isinstance(needs_of(str(path)), Needs)


def test_a_whole_module_is_not_named(environment: Environment) -> None:
    assert found(environment, COMPILED[0].read_bytes()) == ()


def test_a_missing_library_is_named(environment: Environment) -> None:
    content = COMPILED[0].read_bytes().replace(b"libc.so.6", b"libq.so.6")
    (finding,) = found(environment, content)
    assert finding.cause == "library_missing"
    assert "mine 1.0 needs libq.so.6" in finding.message


def test_an_older_c_library_is_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared_libraries._holds.cache_clear()
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.1")
    findings = found(environment, COMPILED[0].read_bytes())
    shared_libraries._holds.cache_clear()
    assert {finding.cause for finding in findings} == {"glibc_too_old"}


def test_a_library_that_pythons_own_modules_find_first_is_named(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = {path: needs_of(str(path)).interfaces for path in COMPILED}
    some = (name for one in needs.values() for name in one if not name.startswith(("libc.", "ld-")))
    name = next(some, "")
    if not name:
        pytest.skip("this Python's modules need no library but that of C")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / name).write_bytes(b"another version")
    assert run_checks("shared_libraries").having("error") == ()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "other"))
    messages = [one.message for one in run_checks("shared_libraries").having("error")]
    assert any("of Python needs" in one and name in one for one in messages), messages
