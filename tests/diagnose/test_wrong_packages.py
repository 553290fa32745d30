"""Packages that only have the name of what people want."""

from __future__ import annotations

import pytest

from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel


def named(environment: Environment, *packages: tuple[str, str, dict[str, str]]) -> list[str]:
    for name, version, files in packages:
        environment.add(make_wheel(environment.prefix.parent, name, version, files=files))
    return [f.message for f in run_checks("wrong_packages").having("error", "warning", "unknown")]


TORCH = ("torch", "2.9.0", {"torch/__init__.py": ""})


@pytest.mark.parametrize(
    ("name", "version"), [("clip", "0.2.0"), ("apex", "0.9.10.dev0"), ("whisper", "1.1.10")]
)
def test_the_wrong_package_beside_what_shows_it_is_named(
    name: str, version: str, environment: Environment
) -> None:
    (message,) = named(environment, (name, version, {f"{name}/__init__.py": ""}), TORCH)
    assert message.startswith(f"{name} from PyPI is ")


def test_the_wanted_package_of_the_same_name_is_not_named(environment: Environment) -> None:
    wanted = {"clip/__init__.py": "", "clip/model.py": ""}
    apex = {"apex/__init__.py": "", "apex/amp/__init__.py": ""}
    assert not named(environment, ("clip", "1.0", wanted), ("apex", "0.1", apex), TORCH)


def test_a_package_is_not_named_where_nothing_shows_that_it_is_the_wrong_one(
    environment: Environment,
) -> None:
    assert not named(environment, ("clip", "0.2.0", {"clip/__init__.py": ""}))


def test_what_another_package_requires_is_not_named(environment: Environment) -> None:
    shelf = environment.prefix.parent
    environment.add(make_wheel(shelf, "needs-it", "1.0", ("clip",)))
    assert not named(environment, ("clip", "0.2.0", {"clip/__init__.py": ""}), TORCH)
