"""Folders of a project that are imported in place of a package that is not installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuforge.diagnose.checks import namespace_folders
from gpuforge.diagnose.guarded_imports import missing_attribute
from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel

GUARDED = """
try:
    import coverage
except ImportError:
    have = False
else:
    have = True
if have:
    class Tracer(coverage.types.Tracer):
        pass
"""
HARMLESS = [
    GUARDED.replace("class Tracer(coverage.types.Tracer):", "def f(): return coverage.types"),
    GUARDED.replace("except ImportError", "except OSError"),
    GUARDED.replace("coverage.types.Tracer", "coverage.__name__"),
    GUARDED.replace("if have:", "if TYPE_CHECKING:"),
    GUARDED.replace("import coverage", "from coverage import types"),
    "try:\n    import coverage\n    coverage.types\nexcept Exception:\n    pass\n",
    "import other\nother.coverage\n",
    "try:\n",
]


def named() -> list[str]:
    report = run_checks("namespace_folders").having("error", "warning", "unknown")
    return [one.message for one in report]


@pytest.fixture
def folder(environment: Environment) -> Path:
    files = {"numba/__init__.py": "", "numba/misc/coverage_support.py": GUARDED}
    environment.add(make_wheel(environment.prefix.parent, "numba", "0.68.1", files=files))
    place: Path = environment.prefix.parent / "coverage"
    place.mkdir()
    return place


def test_a_folder_that_numba_takes_for_a_package_is_named(folder: Path) -> None:
    (message,) = named()
    assert message.startswith(f"{folder} is imported as the module coverage")
    assert "importing numba fails" in message


def test_a_folder_that_is_a_package_or_hides_none_is_not(
    environment: Environment, folder: Path
) -> None:
    environment.add(make_wheel(environment.prefix.parent, "coverage", "7"))
    assert named() == []


def test_a_package_of_that_name_is_not_named(folder: Path) -> None:
    (folder / "__init__.py").touch()
    assert named() == []


def test_another_version_that_does_not_look_at_it_is_not_named(
    environment: Environment, folder: Path
) -> None:
    (environment.packages / "numba/misc/coverage_support.py").unlink()
    assert named() == []


def test_what_a_guarded_import_leads_to_is_found() -> None:
    assert missing_attribute(GUARDED.encode(), "coverage") == "types"
    aliased = (
        "try:\n    import pyarrow as pa\n    v = pa.__version__\nexcept ImportError:\n    pass\n"
    )
    assert missing_attribute(aliased.encode(), "pyarrow") == "__version__"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_does_not_fail_is_not_found(text: str) -> None:
    assert missing_attribute(text.encode(), "coverage") == ""


def test_every_row_names_a_file_of_its_own() -> None:
    rows = json.loads(Path(namespace_folders.__file__).with_suffix(".json").read_text())["module"]
    assert len({(row["module"], row["file"]) for row in rows}) == len(rows)
    assert all(row["source"] and row["fails"] and row["file"].endswith(".py") for row in rows)
