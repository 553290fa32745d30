"""Metadata that pip refuses, and requirements of projects on the path."""

from __future__ import annotations

from pathlib import Path

from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel


def named(environment: Environment, pip: str, requires: str, version: str = "1.5") -> list[str]:
    shelf = environment.prefix.parent
    for info in environment.packages.glob("pip-*.dist-info"):
        info.rename(info.with_name("other_pip-1.dist-info"))
    environment.add(make_wheel(shelf, "pip", pip, files={"pip/__init__.py": ""}))
    environment.add(make_wheel(shelf, "mine", version, (requires,)))
    return [f.message for f in run_checks("package_metadata").having("error", "warning")]


def test_a_requirement_that_pip_refuses_is_named(environment: Environment) -> None:
    (message,) = named(environment, "24.1", "torch (>=1.7.*)")
    assert message.startswith("pip 24.1 does not accept its requirement 'torch (>=1.7.*)'")


def test_an_older_pip_accepts_it(environment: Environment) -> None:
    assert not named(environment, "24.0", "torch (>=1.7.*)")


def test_ordinary_requirements_and_versions_are_not_named(environment: Environment) -> None:
    assert not named(environment, "25.0", "torch (!=1.7.*,==2.*,>=1)", "1.5.post1")


def test_a_version_that_pip_refuses_is_named(environment: Environment) -> None:
    assert "its version '2004d'" in named(environment, "25.0", "torch", "2004d")[0]


def test_a_project_on_the_path_that_lacks_requirements_is_named(
    environment: Environment, tmp_path: Path
) -> None:
    info = tmp_path / "project" / "mine.egg-info"
    info.mkdir(parents=True)
    (environment.packages / "easy-install.pth").write_text(f"{info.parent}\n")
    (info / "requires.txt").write_text("pip\n\n[extra]\nnot-there\n")
    assert not run_checks("package_metadata").having("error", "warning")
    (info / "requires.txt").write_text("pip\nnot-there>=2\n")
    (finding,) = run_checks("package_metadata").having("error", "warning")
    assert "mine requires not-there>=2; it is not installed" in finding.message


def test_a_package_of_distutils_is_named(environment: Environment) -> None:
    info = environment.packages / "PyYAML-5.1-py3.11.egg-info"
    info.mkdir()
    assert not run_checks("package_metadata").having("error", "warning")
    info.rmdir()
    info.write_text("Name: PyYAML\nVersion: 5.1\n")
    (finding,) = run_checks("package_metadata").having("warning")
    assert finding.message == "pyyaml 5.1 is of distutils: pip cannot upgrade or remove it"
