"""Programs in the current folder: what they import and use, and whether that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuforge.diagnose.checks import project_programs
from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel

OWN = "import other\n"


@pytest.fixture
def folder(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a project that has the environment, and a package in it."""
    found = environment.prefix.parent / "app"
    found.mkdir()
    monkeypatch.chdir(found)
    monkeypatch.setenv("XDG_CACHE_HOME", str(found.parent / "cache"))
    monkeypatch.setenv("HOME", str(found.parent / "home"))
    add(environment, "other", {"other/__init__.py": "def now(): pass\n"})
    return found


def add(environment: Environment, name: str, files: dict[str, str]) -> None:
    environment.add(make_wheel(environment.prefix.parent, name, "2.0", files=files))


def named() -> list[str]:
    report = run_checks("project_programs")
    return [f.message for f in report.having("error", "warning", "unknown")]


def test_a_module_or_name_that_an_installed_package_lacks_is_named(folder: Path) -> None:
    (folder / "cut.py").write_text("from other.editor import *\n")
    (folder / "use.py").write_text("from other import then\n")
    (folder / "fits.py").write_text("from other import now\nnow()\n")
    gone, lost = named()
    assert "cut.py needs the module other.editor, which other 2.0 does not have" in gone
    assert "use.py needs other.then, which other 2.0 does not have" in lost


def test_a_module_of_a_package_may_be_named_like_one_of_pythons(folder: Path) -> None:
    (folder / "abc.py").write_text("class Kind: pass\n")
    (folder / "part.py").write_text("from .abc import Kind\nfrom ..string import letters\n")
    assert not named()


def test_what_a_program_imports_only_if_it_can_is_not_missed(folder: Path) -> None:
    guarded = "try:\n    from other.editor import *\nexcept ImportError:\n    pass\n"
    (folder / "cut.py").write_text(OWN + guarded)
    assert not named()


def test_a_folder_without_modules_in_place_of_a_package_is_named(folder: Path) -> None:
    (folder / "train.py").write_text("import runs\nruns.init()\n")
    (folder / "runs" / "one").mkdir(parents=True)
    (message,) = named()
    assert "train.py imports runs, which is not installed: Python takes the folder" in message
    (folder / "runs" / "one" / "part.py").touch()
    assert not named()


def test_a_folder_that_an_uninstalled_package_left_is_named(
    folder: Path, environment: Environment
) -> None:
    (folder / "train.py").write_text("import tensorflow as tf\nprint(tf.constant(1))\n")
    left = environment.packages / "tensorflow"
    (left / "include").mkdir(parents=True)
    (message,) = named()
    assert f"train.py imports tensorflow, which is not installed: Python takes {left}" in (
        message.replace("the folder ", "")
    )
    (left / "__init__.py").touch()
    assert not named()


def test_a_folder_that_was_not_read_to_its_end_may_have_modules(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "train.py").write_text("import runs\n")
    (folder / "runs").mkdir()
    (folder / "runs" / "linked").symlink_to(folder)  # to the modules of another folder
    assert not named()
    (folder / "runs" / "linked").unlink()
    monkeypatch.setattr(project_programs, "ENTRIES", 3)
    assert named()
    for number in range(3):
        (folder / "runs" / f"{number}.png").touch()
    assert not named()


def test_what_the_project_itself_has_is_not_missed(folder: Path) -> None:
    (folder / "train.py").write_text(OWN + "import model, loader, app\n")
    assert named()
    (folder / "__init__.py").touch()
    (folder.parent / "model.py").touch()
    (folder.parent / "src" / "loader").mkdir(parents=True)
    (folder.parent / "src" / "loader" / "__init__.py").touch()
    assert not named()


def test_large_programs_and_many_uses_take_no_time(
    folder: Path, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(environment, "pandas", {"pandas/__init__.py": "def read_excel(): pass\n"})
    uses = "'''\n" + "pd.read_excel('x')\n" * 60 + "'''\npd.read_excel('x')\n"
    (folder / "report.py").write_text("import pandas as pd\n" + uses)
    assert not named()
    (folder / "report.py").write_text("import pandas as pd\nimport other.editor\n" + "#" * 999)
    assert named()
    monkeypatch.setattr(project_programs, "LARGEST", 1000)
    assert not named()


def test_a_missing_module_counts_where_the_environment_is_the_projects(
    folder: Path, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "main.py").write_text("import missing_one\n")
    assert not named()  # it may be for another environment
    (folder / "main.py").write_text(OWN + "import missing_one\n")
    (message,) = named()
    assert message.endswith("main.py imports missing_one, which is not installed")
    monkeypatch.setenv("HOME", str(environment.prefix.parent))
    assert not named()


def test_programs_that_others_run_and_those_of_python_2_are_left_out(folder: Path) -> None:
    for name in ("setup", "conftest", "noxfile", "test_all"):
        (folder / f"{name}.py").write_text(OWN + "import other.editor\n")
    (folder / "old.py").write_text("#!/usr/bin/env python2\nprint 'x'\n")
    assert not named()
    (folder / "old.py").write_text("print 'x'\n")
    assert "syntax of an older Python" in named()[0]


def test_what_a_use_of_a_package_needs_is_named(folder: Path, environment: Environment) -> None:
    add(environment, "pandas", {"pandas/__init__.py": "def read_excel(): pass\n"})
    add(environment, "spacy", {"spacy/__init__.py": "def load(): pass\n"})
    text = "import pandas as pd\nimport spacy\n# pd.read_parquet('x')\npd.read_excel('x')\n"
    (folder / "report.py").write_text(text + "spacy.load('en_core_web_sm')\n")
    excel, model = named()
    assert "report.py uses pandas for reading or writing Excel files, which needs openpyxl" in excel
    assert "the model en_core_web_sm, which needs en_core_web_sm; that is not there" in model
    add(environment, "openpyxl", {"openpyxl/__init__.py": ""})
    add(environment, "en-core-web-sm", {"en_core_web_sm/__init__.py": ""})
    assert not named()


def test_a_use_is_of_a_package_that_the_program_imports_and_does_not_complete(
    folder: Path, environment: Environment
) -> None:
    add(environment, "fastapi", {"fastapi/__init__.py": "def File(): pass\n"})
    add(environment, "spacy", {"spacy/__init__.py": "def load(): pass\n"})
    (folder / "a.py").write_text("from own import File\nopened = File('x')\n")
    tried = "try:\n    spacy.load('en_core_web_sm')\nexcept OSError:\n    spacy.cli.download('x')\n"
    (folder / "b.py").write_text("import spacy, sys\n" + tried)
    assert not named()
    (folder / "a.py").write_text("from fastapi import File\nopened = File('x')\n")
    (message,) = named()
    assert "fastapi for forms and uploaded files, which needs python-multipart" in message


def test_data_that_a_program_uses_but_does_not_get_is_named(
    folder: Path, environment: Environment
) -> None:
    add(
        environment,
        "nltk",
        {"nltk/__init__.py": "def word_tokenize(): pass\ndef download(): pass\n"},
    )
    text = "import nltk\nnltk.word_tokenize('x')\n"
    (folder / "words.py").write_text(text)
    assert "nltk for tokenizing, which needs tokenizers/punkt" in named()[0]
    (folder / "words.py").write_text("import nltk\nnltk.download('punkt_tab')\n" + text)
    assert not named()
    (folder / "words.py").write_text(text)
    (environment.prefix / "nltk_data" / "tokenizers" / "punkt_tab").mkdir(parents=True)
    assert not named()


def test_a_current_folder_that_is_gone_is_no_fault(folder: Path) -> None:
    folder.rmdir()
    assert not named()
    assert said() == [("skipped", "there is no program to read in the current folder")]


def said(*names: str) -> list[tuple[str, str]]:
    found = run_checks(*names).findings
    return [(f.state, f.message) for f in found if f.check == "project_programs"]


def test_what_was_not_read_is_not_called_right(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said() == [("skipped", "there is no program to read in the current folder")]
    for number in range(3):
        (folder / f"fits{number}.py").write_text("from other import now\n")
    monkeypatch.setattr(project_programs, "AT_MOST", 60.0)
    right = ("ok", "the programs read in the current folder import what is there")
    assert said() == [right]
    monkeypatch.setattr(project_programs, "PROGRAMS", 2)
    left = "1 of 3 programs in the current folder are not read"
    assert said() == [("skipped", f"{left}; 'gpuforge doctor project_programs' reads all")]
    assert said("project_programs") == [right]
