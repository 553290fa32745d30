"""Modules of projects: compiled for another Python, or hidden by a package."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel

PYTHON_2 = b"\x03\xf3\r\n\0\0\0\0"


def named() -> list[str]:
    return [f.message for f in run_checks("project_modules").having("error", "warning", "unknown")]


@pytest.fixture
def project(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder: Path = environment.prefix.parent / "project"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def test_a_compiled_module_of_another_python_without_source_is_named(project: Path) -> None:
    (project / "helpers.pyc").write_bytes(PYTHON_2)
    (message,) = named()
    assert "helpers.pyc was compiled for Python 2" in message


def test_a_compiled_module_beside_its_source_or_of_this_python_is_not(project: Path) -> None:
    (project / "helpers.pyc").write_bytes(PYTHON_2)
    (project / "helpers.py").touch()
    (project / "mine.pyc").write_bytes(importlib.util.MAGIC_NUMBER + bytes(12))
    assert not named()


def test_an_extension_of_another_python_is_named_once_there_is_no_other(project: Path) -> None:
    (project / "fast.cpython-36m-x86_64-linux-gnu.so").touch()
    (message,) = named()
    assert "Python 3.6" in message
    (project / "fast.abi3.so").touch()
    assert not named()


def test_a_package_of_compiled_modules_of_another_python_is_named(
    environment: Environment,
) -> None:
    wheel = make_wheel(environment.prefix.parent, "closed", "1", files={"closed/core.pyc": ""})
    environment.add(wheel)
    (environment.packages / "closed" / "core.pyc").write_bytes(PYTHON_2)
    assert "core.pyc" in named()[0]


def test_a_module_of_a_project_that_a_package_hides_is_named(
    environment: Environment, project: Path
) -> None:
    environment.add(
        make_wheel(environment.prefix.parent, "other", "1", files={"utils/__init__.py": ""})
    )
    (project / "utils").mkdir()
    assert not named()
    (project / "utils" / "mine.py").touch()
    (message,) = named()
    assert message.startswith("import utils finds ")
    (project / "utils" / "__init__.py").touch()  # then the project's comes first
    assert not named()


def test_a_project_of_a_path_file_comes_after_the_packages(
    environment: Environment, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH")
    os.chdir(environment.prefix)
    (environment.packages / "mine.pth").write_text(f"{project}\n")
    (project / "config.py").touch()
    (project / "tests").mkdir()
    assert not named()
    environment.add(
        make_wheel(environment.prefix.parent, "other", "1", files={"config.py": "", "tests.py": ""})
    )
    (message,) = named()
    assert message.startswith("import config finds ")


@pytest.fixture
def tests_of_a_package(environment: Environment, project: Path) -> Path:
    files = {"other/__init__.py": "", "tests/__init__.py": ""}
    environment.add(make_wheel(environment.prefix.parent, "other", "1", files=files))
    (project / "tests").mkdir()
    (project / "tests" / "__init__.py").touch()
    return project


def test_tests_that_a_package_hides_are_named_if_a_user_put_them_on_the_path(
    environment: Environment, tests_of_a_package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH")
    os.chdir(environment.prefix)
    (environment.packages / "mine.pth").write_text(f"{tests_of_a_package}\n")
    (message,) = named()
    assert message.startswith(f"import tests finds {environment.packages}")
    os.chdir(tests_of_a_package)  # where they come first
    assert not named()


@pytest.mark.parametrize("name", ["__editable__.mine-1.0.pth", "easy-install.pth", "listed.pth"])
def test_tests_of_an_editable_project_are_run_in_its_folder(
    name: str,
    environment: Environment,
    tests_of_a_package: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONPATH")
    os.chdir(environment.prefix)
    wheel = make_wheel(environment.prefix.parent, "mine", "1.0", files={"listed.pth": ""})
    environment.add(wheel)
    (environment.packages / name).write_text(f"{tests_of_a_package}\n")
    assert not named()
