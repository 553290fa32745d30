"""``gpuforge config`` as its user sees it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuforge import settings
from gpuforge.cli.main import main


@pytest.fixture
def config(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> tuple[int, str, str]:
        status = main(["config", *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def test_show_lists_every_setting_with_its_origin(config: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("GPUFORGE_LEARN", "off")
    status, out, err = config("show", "--origin")
    rows = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert status == 0 and err == "" and set(rows) == set(settings.names())
    assert rows["learn"].split()[1:3] == ["false", "GPUFORGE_LEARN"]


def test_json_is_one_document(config: Any) -> None:
    _, out, _ = config("show", "--json")
    document = json.loads(out)
    assert document["schema_version"] == 1
    assert document["settings"]["explore_share"] == {
        "value": settings.Settings().explore_share,
        "origin": "default",
        "meaning": settings.describe("explore_share"),
    }


def test_set_get_unset(config: Any) -> None:
    path = settings.user_file()
    assert config("get", "backends") == (0, "\n", "")
    status, out, err = config("set", "backends", "numpy, jax")
    assert (status, out, err) == (0, "backends = numpy,jax\n", f"wrote {path}\n")
    assert config("get", "backends")[1] == "numpy,jax\n"
    assert "was" in config("set", "backends", "numpy")[1]
    assert config("unset", "backends")[0] == 0
    assert config("get", "backends")[1] == "\n"
    assert "nothing was changed" in config("unset", "backends")[2]


def test_set_reports_as_json(config: Any) -> None:
    document = json.loads(config("set", "cache_seconds", "2 h", "--json")[1])
    assert document["set"] == {"cache_seconds": 7200.0} and document["before"] == {}
    document = json.loads(config("unset", "cache_seconds", "--json")[1])
    assert document["removed"] == {"cache_seconds": "7200.0"}


def test_set_says_when_something_else_goes_before(config: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("GPUFORGE_LEARN", "1")
    assert "learn is overridden by GPUFORGE_LEARN" in config("set", "learn", "off")[2]


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["get", "lern"], "unknown setting 'lern'", "did you mean 'learn'?"),
        (["set", "lern", "1"], "unknown setting 'lern'", "did you mean 'learn'?"),
        (["unset", "lern"], "unknown setting 'lern'", "did you mean 'learn'?"),
        (["set", "learn", "perhaps"], "learn: 'perhaps' is neither true nor false", "use true"),
        (["preset", "labtop"], "unknown preset 'labtop'", "did you mean 'laptop'?"),
        (["shwo"], "invalid choice: 'shwo'", "--help"),
        ([], "required: ACTION", "--help"),
        (["edit"], "no editor is set", "set EDITOR"),
    ],
)
def test_wrong_usage(
    config: Any, monkeypatch: Any, arguments: list[str], message: str, hint: str
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    status, out, err = config(*arguments)
    assert status == 2 and out == ""
    assert message in err and hint in err
    assert not settings.user_file().exists()


def test_a_broken_file_is_shown_mended_and_never_overwritten(config: Any, monkeypatch: Any) -> None:
    path = settings.user_file()
    path.parent.mkdir(parents=True)
    path.write_text("learn = = 1\n")
    for arguments in (["show"], ["get", "learn"], ["set", "learn", "1"], ["preset", "ci"]):
        status, out, err = config(*arguments)
        assert status == 2 and out == "" and f"{path} is not valid TOML" in err
    assert path.read_text() == "learn = = 1\n"
    assert config("path") == (0, f"{path}\n", "")
    mend = "import sys; open(sys.argv[1], 'w').write('learn = false')"
    monkeypatch.setenv("VISUAL", f'"{sys.executable}" -c "{mend}"')
    assert config("edit")[0] == 0
    assert config("get", "learn")[1] == "false\n"


def test_an_unknown_key_in_the_file_can_be_taken_out(config: Any) -> None:
    path = settings.user_file()
    path.parent.mkdir(parents=True)
    path.write_text("lern = 1\nlog = 'info'\n")
    status, _, err = config("set", "learn", "off")
    assert status == 0 and "still has an error" in err and "lern" in err
    assert config("unset", "lern")[0] == 0
    assert path.read_text() == "log = 'info'\nlearn = false\n"


def test_edit_starts_from_a_template_and_checks_what_was_written(
    config: Any, monkeypatch: Any
) -> None:
    spoil = "import sys; open(sys.argv[1], 'a').write('learn = 7')"
    monkeypatch.setenv("EDITOR", f'"{sys.executable}" -c "{spoil}"')
    monkeypatch.delenv("VISUAL", raising=False)
    status, _, err = config("edit")
    assert status == 2 and "learn: 7 is neither true nor false" in err
    assert "# enabled = true" in settings.user_file().read_text()


@pytest.mark.parametrize("editor", ["/no/such/editor", "'unbalanced"])
def test_an_editor_that_does_not_start_is_an_error(
    config: Any, monkeypatch: Any, editor: str
) -> None:
    monkeypatch.setenv("VISUAL", editor)
    status, _, err = config("edit")
    assert status == 2 and "could not be started" in err


def test_an_editor_that_fails_is_a_problem(config: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("VISUAL", f"\"{sys.executable}\" -c 'raise SystemExit(3)'")
    status, _, err = config("edit")
    assert status == 1 and "ended with status 3" in err


def test_preset_keeps_what_it_does_not_name(config: Any) -> None:
    config("set", "device", "cpu")
    config("set", "learn", "true")
    status, out, _ = config("preset", "ci")
    assert status == 0 and "learn = false (was true)" in out
    assert config("get", "device")[1] == "cpu\n"
    assert config("get", "history")[1] == "false\n"


def test_path_names_the_project_file(
    config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert json.loads(config("path", "--json")[1])["project"] is None
    (tmp_path / "gpuforge.toml").write_text("learn = false")
    document = json.loads(config("path", "--json")[1])
    assert document["project"] == str(tmp_path / "gpuforge.toml")


def test_what_a_project_may_not_set_is_said_once_and_harmlessly(
    config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpuforge.toml").write_text('cache_folder = "/tmp/x"\n"\\u001b[2J" = 1\n')
    status, out, err = config("get", "learn")
    assert (status, out) == (0, "true\n")
    assert err.count("may not set it") == 1 and "\x1b" not in err
