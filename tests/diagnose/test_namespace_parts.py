"""Parts of a namespace that a plain package of the same name hides."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuforge.diagnose.path_folders import extends_path
from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel


@pytest.fixture
def parts(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a part of ``space`` into the environment, and another one into PYTHONPATH."""
    files = {"space/one/__init__.py": ""}
    environment.add(make_wheel(environment.prefix.parent, "space-one", "1", files=files))
    added: Path = environment.prefix.parent / "added"
    (added / "space" / "two").mkdir(parents=True)
    (added / "space" / "two" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(added))
    os.chdir(environment.prefix)
    return added


def named() -> list[str]:
    return [f.message for f in run_checks("shadowing_modules").having("error", "warning")]


def test_a_part_that_a_plain_package_hides_is_named(environment: Environment, parts: Path) -> None:
    assert not named()
    whole = environment.packages / "space" / "__init__.py"
    whole.touch()
    (message,) = named()
    assert message == f"{whole} hides space.two of {parts / 'space'}"


@pytest.mark.parametrize(
    "text",
    [
        "__path__ = __import__('pkgutil').extend_path(__path__, __name__)",
        "__import__('pkg_resources').declare_namespace(__name__)",
        "import os\n__path__.append(os.environ['MORE'])",
    ],
)
def test_a_package_that_has_parts_hides_none(
    text: str, environment: Environment, parts: Path
) -> None:
    (environment.packages / "space" / "__init__.py").write_text(text)
    assert not named()


def test_a_namespace_that_a_path_file_makes_hides_none(
    environment: Environment, parts: Path
) -> None:
    (environment.packages / "space" / "__init__.py").touch()
    (environment.packages / "space_one-1-nspkg.pth").write_text("import sys\n")
    assert not named()


def test_a_part_without_packages_of_its_own_is_not_missed(
    environment: Environment, parts: Path
) -> None:
    (environment.packages / "space" / "__init__.py").touch()
    (parts / "space" / "two").rename(parts / "space" / "one")
    assert not named()


@pytest.mark.parametrize(
    ("text", "extends"),
    [
        (b"__path__.append('there')", True),
        (b"x = 1\n    __path__ = extend_path(__path__, __name__)", True),
        (b"where = other.__path__[0]", False),
        (b"# __path__[0], not __file__", False),
        (b"", False),
    ],
)
def test_only_its_own_path_lets_a_package_have_parts(text: bytes, extends: bool) -> None:
    assert extends_path(text) == extends
