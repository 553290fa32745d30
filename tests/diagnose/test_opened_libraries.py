"""Packages that open libraries and programs of the system by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gpuforge.diagnose.checks.opened_libraries as check
from gpuforge.diagnose.library_search import LibrarySearch
from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel

ZBAR = {"pyzbar/__init__.py": ""}


def named(environment: Environment, *wheels: Path) -> list[str]:
    for wheel in wheels:
        environment.add(wheel)
    return [f.message for f in run_checks("opened_libraries").having("error", "warning", "unknown")]


@pytest.fixture(autouse=True)
def system_without_these(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LibrarySearch, "cached", b"\0/usr/lib/libz.so.1\0")
    monkeypatch.setattr("gpuforge.diagnose.library_search.DEFAULT", ())
    monkeypatch.setattr(check, "_has_program", lambda site, name: False)


def test_a_missing_library_is_named(environment: Environment) -> None:
    (message,) = named(environment, make_wheel(environment.prefix.parent, "pyzbar", "0.1.9"))
    assert message.startswith("pyzbar 0.1.9 needs libzbar.so.0")


def test_a_library_of_the_environment_is_enough(environment: Environment) -> None:
    (environment.prefix / "lib" / "libzbar.so.0").touch()
    assert not named(environment, make_wheel(environment.prefix.parent, "pyzbar", "0.1.9"))


def test_a_library_in_the_wheel_or_another_package_is_enough(environment: Environment) -> None:
    shelf = environment.prefix.parent
    bundled = {"soundfile.py": "", "_soundfile_data/libsndfile_x86_64.so": "library"}
    assert not named(
        environment,
        make_wheel(shelf, "soundfile", "0.13.1", files=bundled),
        make_wheel(shelf, "psycopg", "3.2.1"),
        make_wheel(shelf, "psycopg-binary", "3.2.1"),
    )


def test_a_driver_that_a_file_names_is_found(environment: Environment) -> None:
    wheel = make_wheel(environment.prefix.parent, "pyopencl", "2025.1")
    vendors = environment.prefix / "etc" / "OpenCL" / "vendors"
    vendors.mkdir(parents=True)
    (vendors / "pocl.icd").write_text("libpocl.so\n")
    assert not named(environment, wheel)


def test_what_fails_in_use_counts_only_where_nothing_else_requires_it(
    environment: Environment,
) -> None:
    shelf = environment.prefix.parent
    assert len(named(environment, make_wheel(shelf, "pdf2image", "1.17.0"))) == 1
    assert not named(environment, make_wheel(shelf, "mine", "1", ("pdf2image>=1.16",)))


def test_every_row_says_what_fails_how_to_install_it_and_its_source() -> None:
    text = Path(check.__file__).with_name("opened_libraries.json").read_text(encoding="utf-8")
    for row in json.loads(text)["opened"]:
        assert row["fails"] and row["install"] and row["source"].startswith("http"), row
        assert any(row.get(kind) for kind in ("libraries", "programs", "files")), row


def test_a_program_that_a_package_runs_is_looked_for(environment: Environment) -> None:
    (message,) = named(environment, make_wheel(environment.prefix.parent, "graphviz", "0.20.3"))
    assert message.startswith("graphviz 0.20.3 needs the program dot of Graphviz")


def test_a_file_in_the_home_folder_is_looked_for(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (message,) = named(environment, make_wheel(tmp_path, "kaggle", "1.6.17"))
    assert "needs the token kaggle.json in ~/.kaggle" in message
    (tmp_path / ".kaggle").mkdir()
    (tmp_path / ".kaggle/kaggle.json").touch()
    assert not named(environment)
