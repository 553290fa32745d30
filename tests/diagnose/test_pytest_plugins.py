"""Plugins of pytest with arguments that its hooks no longer have are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel

HOOKS = '''
@hookspec(firstresult=True)
def pytest_ignore_collect(
    collection_path: Path, path: "LEGACY_PATH", config: Config
) -> bool | None:
    """Return whether to ignore a file."""

def pytest_configure(config: "Config") -> None:
    """Configure."""
'''
OLD = """
@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(path, config):
    pass
"""
ACCEPTED = [
    OLD.replace("path,", "collection_path,"),
    OLD.replace("path, config", "config, path=None"),
    OLD.replace("tryfirst=True", 'specname="pytest_other"'),
    OLD.replace("@pytest.hookimpl(tryfirst=True)", "@pytest.fixture"),
    OLD.replace("ignore_collect", "xdist_node_down"),
    "\ndef pytest_configure(\n    config: Config[int, str],  # (the first\n):\n    pass\n",
    "if True:\n    def pytest_ignore_collect(path): pass\n",
    "\ndef pytest_ignore_collect(path:\n",
]


@pytest.fixture
def add(environment: Environment, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", raising=False)
    folder: Path = environment.prefix.parent

    def add_both(plugin: str, hooks: str = HOOKS.replace(' path: "LEGACY_PATH",', "")) -> None:
        environment.add(make_wheel(folder, "pytest", "8.1.0", files={"_pytest/hookspec.py": hooks}))
        files = {
            "filtering/plugin.py": plugin,
            "pytest_filter-0.1.2.dist-info/entry_points.txt": "[pytest11]\nf = filtering.plugin\n",
        }
        environment.add(make_wheel(folder, "pytest-filter", "0.1.2", files=files))

    return add_both


def named() -> list[str]:
    return [f.message for f in run_checks("pytest_plugins").having("error", "warning", "unknown")]


def test_a_plugin_with_a_lost_argument_is_named(add, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    add(OLD)
    (message,) = named()
    assert message.startswith("pytest-filter 0.1.2 is incompatible with pytest 8.1.0")
    assert "pytest_ignore_collect wants the argument path" in message
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    assert named() == []


def test_a_plugin_of_a_pytest_that_has_the_argument_is_not(add) -> None:  # type: ignore[no-untyped-def]
    add(OLD, HOOKS)
    assert named() == []


@pytest.mark.parametrize("plugin", ACCEPTED)
def test_what_pytest_accepts_is_not_named(add, plugin: str) -> None:  # type: ignore[no-untyped-def]
    add(plugin)
    assert named() == []


def test_the_conftest_of_the_project_is_read_too(add, environment: Environment) -> None:  # type: ignore[no-untyped-def]
    add("")
    tests = environment.prefix.parent / "tests"
    tests.mkdir()
    (tests / "conftest.py").write_text(OLD)
    (message,) = named()
    assert message.startswith(f"{tests}/conftest.py is incompatible")
