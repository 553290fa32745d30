"""Environments broken as people break them are named; what is repaired there is undone exactly."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuforge.cli.main import main

from .broken import BROKEN, MADE, Broken
from .environments import Environment, a_part_of, make_wheel
from .test_repairs import doctor


def set_up(
    one: Broken, environment: Environment, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = index.parent / "shelf"
    shelf.mkdir()
    for name, version, requires in one.made:
        environment.add(make_wheel(shelf, name, version, requires, one.files.get(name)))
    for name, version, requires in one.offered:
        make_wheel(index, name, version, requires, one.files.get(name))
    names = {"prefix": str(environment.prefix), "beside": str(environment.prefix.parent)}
    for name, value in one.variables.items():
        monkeypatch.setenv(name, value.format(**names))
    if one.breaks:
        one.breaks(environment)
    if one.machine:
        machine = one.machine
        monkeypatch.setattr("gpuforge.diagnose.site.read_machine", lambda probe: machine)


def check_of_pip(environment: Environment) -> set[str]:
    argv = [environment.prefix / "bin" / "python", "-m", "pip", "check"]
    done = subprocess.run(argv, capture_output=True, text=True)
    return {line for line in done.stdout.splitlines() if "No broken" not in line}


def bad_findings(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    return [finding for finding in found if finding["state"] in ("error", "warning")]


@pytest.mark.parametrize("one", MADE, ids=lambda one: one.name)
def test_broken_environment_is_named(
    one: Broken,
    environment: Environment,
    index: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up(one, environment, index, monkeypatch)
    bad = bad_findings(capsys)
    texts = [f"{f['cause']} {f['message']} {' '.join(f['evidence'])}" for f in bad]
    assert any(fault in text for fault in one.at_fault for text in texts), texts


@pytest.mark.parametrize("one", a_part_of(MADE, 5), ids=lambda one: one.name)
def test_no_repair_of_a_broken_environment_harms_it(
    one: Broken,
    environment: Environment,
    index: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up(one, environment, index, monkeypatch)
    checks = [f["check"] for f in bad_findings(capsys) if f["repair"]]
    if not checks:
        return
    before, unmet = environment.hashes(), check_of_pip(environment)
    _, done = doctor(capsys, *dict.fromkeys(checks), "--fix", "--yes")
    assert check_of_pip(environment) <= unmet
    for repair in reversed(done["repairs"]):
        if repair["undo"]:
            assert main(["doctor", "--undo", repair["undo"]]) == 0
    assert environment.hashes() == before


def found_in(capsys: pytest.CaptureFixture[str], cause: str) -> list[dict[str, Any]]:
    main(["doctor", "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    return [finding for finding in findings if finding["cause"] == cause]


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("user_packages_hide_those_of_conda", "shadowing_module"),
        ("easy_install_folder_gone", "search_path_gone"),
        ("editable_project_gone", "source_gone"),
        ("environment_moved", "environment_moved"),
        ("pip_installs_elsewhere", "pip_installs_elsewhere"),
        ("pythonhome_set", "pythonhome_set"),
        ("certificates_named_are_gone", "named_file_gone"),
        ("hook_of_removed_setuptools", "search_path_gone"),
        ("sitecustomize_needs_what_is_gone", "search_path_gone"),
        ("thread_count_is_a_list", "variable_misset"),
        ("backend_of_a_notebook", "variable_misset"),
        ("backport_before_the_standard_library", "shadowing_module"),
        ("made_again_by_another_python", "packages_of_another_python"),
    ],
)
def test_the_step_that_is_advised_settles_it(
    name: str,
    cause: str,
    environment: Environment,
    index: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = next(one for one in MADE if one.name == name)
    set_up(one, environment, index, monkeypatch)
    (finding,) = found_in(capsys, cause)
    (step,) = finding["steps"]
    if variable := re.match(r"Unset (\w+)|Set (\w+)=1", step):
        if variable[1]:
            monkeypatch.delenv(variable[1])
        else:
            monkeypatch.setenv(variable[2], "1")
    elif command := re.search(r"python (-m venv --clear \S+)$|pip (uninstall \S+)$", step):
        words = (command[1] or f"-m pip {command[2]} -y").split()
        python = sys.executable if command[1] else environment.prefix / "bin" / "python"
        subprocess.run([python, *words], check=True, capture_output=True)
    else:
        path = re.search(r"the line in (\S+), or delete the file", step)
        assert path, step
        Path(path[1]).unlink()
    assert found_in(capsys, cause) == []


def test_there_are_enough_environments() -> None:
    assert len({one.name for one in BROKEN}) == len(BROKEN) >= 60
