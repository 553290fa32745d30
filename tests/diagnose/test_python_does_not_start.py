"""What keeps Python, or a package, from starting for this user: variables and permissions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpuforge
from gpuforge.changes.environment import PythonEnvironment
from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel

SOURCE = Path(gpuforge.__file__).parent.parent
START = (
    f"import sys; sys.path.insert(0, {str(SOURCE)!r}); from gpuforge.__main__ import main;"
    " sys.argv = ['gpuforge', 'doctor', *sys.argv[1:]]; sys.exit(main())"
)


def doctor(environment: Environment, check: str, *flags: str, **variables: str) -> str:
    environ = {**os.environ, "VIRTUAL_ENV": str(environment.prefix), **variables}
    environ.pop("PYTHONSAFEPATH", None)
    command = [sys.executable, *flags, "-c", START, check]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, cwd="/")
    return done.stdout + done.stderr


def test_a_folder_without_a_python_in_pythonhome_is_named(environment: Environment) -> None:
    told = doctor(environment, "python_environment", "-I", PYTHONHOME="/home")
    assert "PYTHONHOME makes Python use the standard library of another Python, in /home" in told


def test_the_inside_of_a_package_on_the_path_is_named(environment: Environment) -> None:
    package = environment.packages / "torch"
    package.mkdir()
    for name in ("__init__", "__future__", "types", "random", "mine"):
        (package / f"{name}.py").write_text("raise ImportError('hidden')\n")
    for flags in (("-I",), ()):  # a script that imports nothing else first starts as well
        told = doctor(environment, "shadowing_modules", *flags, PYTHONPATH=str(package))
        assert f"PYTHONPATH holds the inside of the package torch, {package}" in told
        assert "__future__, random, types hide the modules" in told


def test_the_inside_of_a_package_that_hides_nothing_is_not(environment: Environment) -> None:
    package = environment.packages / "plain"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "mine.py").touch()
    told = doctor(environment, "shadowing_modules", PYTHONPATH=str(package))
    assert "no installed module is hidden" in told


def test_a_backport_among_packages_on_the_path_is_named(
    environment: Environment, tmp_path: Path
) -> None:
    task = tmp_path / "task"
    (task / "typing-3.7.4.3.dist-info").mkdir(parents=True)
    (task / "six-1.dist-info").mkdir()
    (task / "typing.py").write_text("raise ImportError('old')\n")
    told = doctor(environment, "shadowing_modules", "-I", PYTHONPATH=str(task))
    assert f"{task}/typing.py hides the module typing of the standard library" in told


def test_a_python_that_this_user_may_not_reach_is_no_crash(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    barred, real = environment.prefix / "bin", os.stat

    def stat(path: object, *rest: object, **named: object) -> os.stat_result:
        if str(path).startswith(f"{barred}/python"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *rest, **named)  # type: ignore[arg-type, call-overload, no-any-return]

    monkeypatch.setattr(os, "stat", stat)
    assert PythonEnvironment(environment.prefix).python is None


def test_a_package_that_this_user_may_not_read_is_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.add(make_wheel(environment.prefix.parent, "mine", "1.0"))
    info = environment.packages / "mine-1.0.dist-info"
    (info / "METADATA").unlink()
    real = os.access
    monkeypatch.setattr("os.access", lambda path, mode: path != info and real(path, mode))
    (finding,) = run_checks("package_files").having("error")
    assert finding.message == "mine 1.0 cannot be used: this user may not read it"


def test_a_folder_of_a_package_that_this_user_may_not_read_is_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.add(make_wheel(environment.prefix.parent, "mine", "1.0"))
    folder, real = environment.packages / "mine", os.access
    monkeypatch.setattr("os.access", lambda path, mode: path != folder and real(path, mode))
    (finding,) = run_checks("package_files").having("error")
    assert finding.cause == "package_unreadable" and finding.evidence == (str(folder),)
