"""``gpuforge env`` as its user meets it: output, exit status, one JSON document, clear errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from machines import GRID, cpu_only, nvidia

from gpuforge.cli.commands.env import arguments
from gpuforge.cli.main import main
from gpuforge.environment import advice
from gpuforge.environment.refresh import newest_releases, refresh_releases
from gpuforge.environment.verify import verify_environment
from gpuforge.errors import EnvironmentMismatch
from gpuforge.facts import Machine


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the command see another machine than this one."""

    def put(machine: Machine) -> None:
        monkeypatch.setattr(arguments, "machine_of", lambda found: machine)
        import gpuforge.cli.commands.env.advise as advise

        monkeypatch.setattr(advise, "machine_of", lambda found: machine)

    put(nvidia())
    return put


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*argv: str) -> tuple[int, str, str]:
        status = main(["env", *argv])
        found = capsys.readouterr()
        return status, found.out, found.err

    return run


def document(out: str) -> dict[str, Any]:
    assert out.count("\n") == 1
    found: dict[str, Any] = json.loads(out)
    assert found["schema_version"] == 1
    return found


def test_list_shows_eight_profiles_the_fittest_first(on: Any, said: Any) -> None:
    status, out, _ = said("list")
    lines = out.splitlines()
    assert (status, len(lines)) == (0, 9)
    scores = [int(line.split()[1]) for line in lines[1:]]
    assert scores == sorted(scores, reverse=True)
    found = document(said("list", "--json")[1])["profiles"]
    assert len(found) == 8
    assert {"name", "score", "met", "reason", "packages", "minimum_memory_bytes"} <= set(found[0])


def test_show_and_recommend(on: Any, said: Any) -> None:
    assert "torchvision" in said("show", "learning")[1]
    assert document(said("show", "nlp", "--json")[1])["packages"]["jax"][0] == "jax"
    status, out, _ = said("recommend")
    assert (status, out.split()[0]) == (0, "deep_learning")
    found = document(said("recommend", "--json")[1])
    assert (found["profile"], found["framework"]) == ("deep_learning", "pytorch")
    assert found["plan"]["cuda_major"] == 13


def test_plan_gives_each_choice_its_reason(on: Any, said: Any) -> None:
    status, out, err = said("plan", "--profile", "lightweight", "--python", "3.12")
    assert (status, err) == (0, "")
    assert "torch==2.15.0" in out
    assert "driver 580.65.06 runs CUDA 13" in out
    found = document(said("plan", "--profile", "nlp", "--framework", "jax", "--json")[1])
    assert all(package["reason"] for package in found["packages"])


def test_a_refused_plan_ends_with_1_and_says_what_would_help(on: Any, said: Any) -> None:
    on(nvidia("8.6", "470.82"))
    status, out, err = said("plan", "--profile", "nlp", "--framework", "jax")
    assert (status, out) == (1, "")
    assert "525.60.13" in err
    assert "--cpu-only" in err
    status, out, _ = said("plan", "--profile", "nlp", "--framework", "jax", "--json")
    assert status == 1
    assert document(out)["refusal"]["change"]["kind"] == "driver"
    assert said("export", "--profile", "nlp", "--framework", "jax")[0] == 1
    assert said("create", "--profile", "nlp", "--framework", "jax", "--yes")[0] == 1
    assert said("plan", "--profile", "nlp", "--framework", "jax", "--cpu-only")[0] == 0


@pytest.mark.parametrize("format_name", advice.format_names())
def test_export_writes_every_format(format_name: str, on: Any, said: Any, tmp_path: Path) -> None:
    flags = ("export", "--profile", "nlp", "--python", "3.12", "--format", format_name)
    status, out, _ = said(*flags)
    assert status == 0
    path = tmp_path / "file"
    assert said(*flags, "-o", str(path))[:2] == (0, "")
    assert path.read_text() == out
    assert document(said(*flags, "--json")[1])["text"] == out
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_export_to_a_place_that_cannot_be_written(on: Any, said: Any, tmp_path: Path) -> None:
    status, _, err = said("export", "--profile", "nlp", "-o", str(tmp_path / "no" / "file"))
    assert (status, "cannot be written" in err) == (2, True)


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (("plan", "--profile", "nlpp"), "did you mean 'nlp'?"),
        (("plan", "--framework", "pytorh"), "did you mean 'pytorch'?"),
        (("plan", "--python", "3"), "3.12"),
        (("plan", "--platform", "linux-46"), "linux-64"),
        (("export", "--format", "dokerfile"), "did you mean 'dockerfile'?"),
        (("plan", "--framework-index", "a b"), "https"),
        (("show", "lightwait"), "lightweight"),
        (("plann",), "--help"),
        ((), "--help"),
        (("plan", "--nonsense"), "--help"),
        (("new", "Not A Name"), "lower-case"),
    ],
)
def test_wrong_usage_ends_with_2_and_a_hint(
    argv: tuple[str, ...], word: str, on: Any, said: Any
) -> None:
    status, out, err = said(*argv)
    assert (status, out) == (2, "")
    assert word in err


def test_nobody_is_asked_without_a_terminal(
    on: Any, said: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    status, _, err = said("create", "--profile", "nlp", "--path", str(tmp_path / "env"))
    assert (status, "--yes" in err) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_a_no_creates_nothing(
    on: Any, said: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdin, "readline", lambda: "n\n", raising=False)
    status, _, err = said("create", "--profile", "nlp", "--path", str(tmp_path / "env"))
    assert (status, "nothing was changed" in err) == (1, True)


def test_verify_and_switch_need_an_environment(on: Any, said: Any, tmp_path: Path) -> None:
    status, _, err = said("verify", "--path", str(tmp_path))
    assert (status, "not a Python environment" in err or "was not created by gpuforge" in err) == (
        1,
        True,
    )
    status, _, err = said("switch", "--framework", "jax", "--path", str(tmp_path))
    assert (status, "not a Python environment" in err or "was not created by gpuforge" in err) == (
        1,
        True,
    )


def test_verification_of_a_python_that_does_not_run_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("")
    with pytest.raises(EnvironmentMismatch, match="does not run"):
        verify_environment(tmp_path)
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/sh\necho it broke >&2\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(EnvironmentMismatch, match="status 3: it broke"):
        verify_environment(tmp_path)


def test_profiles_of_ones_own(
    on: Any, said: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VISUAL", raising=False)
    status, out, _ = said("new", "mine", "--extends", "nlp")
    assert status == 0
    assert Path(out.strip()) == own_home / "config" / "gpuforge" / "profiles" / "mine.toml"
    assert said("new", "mine")[0] == 1
    assert said("show", "mine")[0] == 0
    assert "yours" in said("list")[1]
    assert said("new", "lightweight", "--project", "--extends", "lightweight")[0] == 0
    assert (tmp_path / ".gpuforge" / "profiles" / "lightweight.toml").is_file()
    assert said("plan", "--profile", "lightweight")[0] == 0
    monkeypatch.delenv("EDITOR", raising=False)
    status, _, err = said("edit", "mine")
    assert (status, "mine.toml" in err) == (1, True)
    monkeypatch.setenv("EDITOR", "true")
    assert said("edit", "mine")[0] == 0
    assert said("edit", "nlp")[0] == 1
    assert said("edit", "nlpp")[0] == 2
    Path(out.strip()).write_text("pakages = []")
    status, _, err = said("edit", "mine")
    assert (status, "packages" in err) == (2, True)
    monkeypatch.setenv("EDITOR", "no-such-editor")
    assert said("edit", "mine")[0] == 1


def test_the_settings_reach_the_plan(on: Any, said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    on(cpu_only())
    flags = ("plan", "--profile", "lightweight", "--json")
    assert document(said(*flags)[1])["packages"][0]["index"]
    monkeypatch.setenv("GPUFORGE_FRAMEWORK_INDEX", "default")
    assert document(said(*flags)[1])["packages"][0]["index"] is None
    monkeypatch.setenv("GPUFORGE_PACKAGE_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("GPUFORGE_FIND_LINKS", "/one,/two")
    import argparse

    chosen = arguments.loaded(argparse.Namespace())
    assert chosen.package_index == "http://127.0.0.1:9/simple"
    assert chosen.find_links == ("/one", "/two")


def test_newer_releases_are_kept_and_said(tmp_path: Path) -> None:
    assert newest_releases(tmp_path) == {}
    (tmp_path / "newest-releases.json").write_text(
        '{"asked": "2026-11-20", "newest": {"torch": "2.16.0"}}'
    )
    assert newest_releases(tmp_path) == {"torch": "2.16.0"}
    (tmp_path / "newest-releases.json").write_text("[]")
    assert newest_releases(tmp_path) == {}


def test_an_index_that_does_not_answer_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import date

    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(EnvironmentMismatch, match=r"releases of torch failed.*cannot be reached"):
        refresh_releases(tmp_path, date(2026, 11, 21), index="http://127.0.0.1:9/simple")
    assert not list(tmp_path.iterdir())


def test_the_python_interface() -> None:
    import gpuforge as gf

    best = gf.environment.recommend(GRID["cuda"], framework="jax")
    assert best.plan.framework == "jax"
    plan = gf.environment.plan("nlp", machine=GRID["cuda"], python="3.12")
    assert "torch==2.15.0" in gf.environment.export(plan)


@pytest.mark.parametrize("argv", [("--verbose", "plan"), ("plan", "--verbose")])
def test_verbose_may_stand_before_and_after(on: Any, said: Any, argv: tuple[str, ...]) -> None:
    status, out, err = said(*argv)
    assert status == 0
    assert "gpuforge env" in err
    assert out
