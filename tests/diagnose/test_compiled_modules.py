"""Compiled modules beside their sources that a failed write left cut short."""

from __future__ import annotations

import os
import py_compile
from pathlib import Path

import pytest

from gpuforge.diagnose.checks import compiled_modules
from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel

SOURCE = "".join(f"def f{n}():\n    return 'text {n}'\n" for n in range(50))


@pytest.fixture
def compiled(environment: Environment) -> Path:
    """Return the compiled module of a package."""
    files = {"mine/__init__.py": "", "mine/part.py": SOURCE}
    environment.add(make_wheel(environment.prefix.parent, "mine", "1", files=files))
    return Path(str(py_compile.compile(str(environment.packages / "mine" / "part.py"))))


def named() -> list[str]:
    report = run_checks("compiled_modules")
    return [f.message for f in report.having("error", "warning", "unknown")]


def test_a_compiled_module_that_was_cut_is_named(compiled: Path) -> None:
    assert not named()
    content = compiled.read_bytes()
    compiled.write_bytes(content[: compiled_modules.BLOCK * 2])
    (message,) = named()
    assert message == f"{compiled} is damaged, so importing it fails"


def test_an_index_of_numba_that_was_cut_is_named(compiled: Path, environment: Environment) -> None:
    index = compiled.with_name("part.f-2.py311.nbi")
    index.write_bytes(b"")
    assert not named()  # where nothing reads it
    environment.add(make_wheel(environment.prefix.parent, "numba", "0.60"))
    assert named() == [f"{index} is damaged, so calling its function fails"]
    index.write_bytes(b"\x80\x05" + b"x" * (compiled_modules.BLOCK - 3) + b".")
    assert not named()


def test_one_that_python_does_not_use_is_not(compiled: Path, environment: Environment) -> None:
    compiled.write_bytes(compiled.read_bytes()[: compiled_modules.BLOCK * 2])
    source = environment.packages / "mine" / "part.py"
    source.write_text(SOURCE + "x = 1\n")  # then Python writes it anew
    assert not named()


def test_one_that_is_whole_may_end_at_a_block(
    compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_modules, "BLOCK", compiled.stat().st_size)
    assert not named()


def test_a_pipe_in_place_of_one_is_not_read(compiled: Path) -> None:
    compiled.unlink()
    os.mkfifo(compiled)
    assert not named()


def test_folders_that_are_not_read_are_not_called_right(
    compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_modules, "AT_MOST", -1.0)
    (found,) = [one for one in run_checks().findings if one.check == "compiled_modules"]
    assert found.state == "skipped"
    assert found.message.endswith("'gpuforge doctor compiled_modules' reads all")
    (found,) = run_checks("compiled_modules").findings
    assert (found.state, found.message) == ("ok", "no compiled module is damaged")
