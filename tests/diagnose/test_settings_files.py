"""Settings files of packages: what they cannot read or use is named, what they can is not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpuforge.diagnose.checks import settings_files
from gpuforge.diagnose.run import run_checks
from gpuforge.diagnose.settings_text import settings_in
from gpuforge.diagnose.table_paths import table_path

from .environments import Environment, make_wheel

WRONG = [
    (("keras", "3.12"), ".keras/keras.json", '{"backend": "theano"}', "backend=theano"),
    (("keras", "3.12"), ".keras/keras.json", '{"floatx": "double"}', "floatx=double"),
    (("dask", "2025.1"), ".config/dask/jobqueue.yaml", "temporary-directory\n", "text"),
    (("dask", "2025.1"), ".config/dask/a.yaml", "# mine\n- a: 1\n- b\n", "a list"),
    (("dask", "2025.1"), ".config/dask/a.json", "a", "text"),
    (("matplotlib", "3.9"), ".config/matplotlib/matplotlibrc", "backend : Qt4Agg # old\n",
     "backend=Qt4Agg"),
    (("matplotlib", "3.9"), ".config/matplotlib/matplotlibrc", b"# f\xfcr\n", "utf-8"),
    (("pip", "24"), ".config/pip/pip.conf", "index-url = https://a\n", "no section headers"),
    (("pip", "24"), ".config/pip/pip.conf", "[global]\ntimeout = 60s\n", "timeout=60s"),
    (("pip", "24"), ".config/pip/pip.conf", "[global]\ncert = /gone.pem\n", "a file that does not"),
    (("botocore", "1.35"), ".aws/credentials", "aws_access_key_id = A\n", "no section headers"),
    (("streamlit", "1.40"), ".streamlit/config.toml", "[server\nport = 1\n", "Expected ']'"),
    (("jupyter-core", "5"), ".jupyter/jupyter_server_config.json", "{}}", "Extra data"),
    (("accelerate", "1"), ".cache/huggingface/accelerate/default_config.yaml",
     "a: 1\n\tb: 2\n", "a tab indents"),
    (("google-auth", "2"), ".config/gcloud/application_default_credentials.json", "x", "Expecting"),
]  # fmt: skip
RIGHT = [
    (("keras", "3.12"), ".keras/keras.json", "broken, which Keras ignores"),
    (("keras", "2.15"), ".keras/keras.json", '{"backend": "theano"}'),
    (("torch", "2.5"), ".keras/keras.json", '{"backend": "theano"}'),
    (("dask", "2025.1"), ".config/dask/a.yaml", "---\n# mine\na:\n  b: |\n\tc: d\n"),
    (("dask", "2025.1"), ".config/dask/a.yaml", "{a: 1,\n b: 2}\n"),
    (("dask", "2025.1"), ".config/dask/a.json", "{'a': 1}"),
    (("dask", "2025.1"), ".config/dask/notes.txt", "anything"),
    (("conda", "24"), ".condarc", "channels:\n- conda-forge\nchannel_priority: strict\n"),
    (("matplotlib", "3.9"), ".config/matplotlib/matplotlibrc", "backend: agg\nlines.color : r\n"),
    (("pip", "24"), ".config/pip/pip.conf",
     "[global]\nextra-index-url =\n  https://a/simple\n  https://b/simple\ntimeout = 60\n"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def home(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder: Path = environment.prefix.parent / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    rows = json.loads(Path(settings_files.__file__).with_suffix(".json").read_text())["file"]
    named = {
        one.split(":-")[0] for row in rows for path in row["files"] for one in path.split("${")
    }
    for name in {*named, "PIP_TIMEOUT", "PIP_CERT", "PIP_CONFIG_FILE", "MPLBACKEND"} - {
        "VIRTUAL_ENV"
    }:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KERAS_BACKEND", "")
    return folder


def named(
    environment: Environment, home: Path, package: tuple[str, str], place: str, text: str | bytes
) -> list[str]:
    name, version = package
    if name != "pip":
        environment.add(make_wheel(environment.prefix.parent, name, version))
    path = home / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    found = run_checks("settings_files").having("error", "warning", "unknown")
    return [one.message for one in found if str(home) in one.message]


@pytest.mark.parametrize(("package", "place", "text", "fault"), WRONG)
def test_what_a_package_cannot_read_or_use_is_named(
    environment: Environment, home: Path, package: tuple[str, str], place: str, text: str | bytes,
    fault: str,
) -> None:  # fmt: skip
    (message,) = named(environment, home, package, place, text)
    assert str(home / place) in message
    assert fault in message


@pytest.mark.parametrize(("package", "place", "text"), RIGHT)
def test_what_a_package_can_use_or_does_not_read_is_not(
    environment: Environment, home: Path, package: tuple[str, str], place: str, text: str
) -> None:
    assert named(environment, home, package, place, text) == []


def test_a_variable_comes_before_the_file(
    environment: Environment, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    theano = '{"backend": "theano"}'
    assert named(environment, home, ("keras", "3.12"), ".keras/keras.json", theano) == []


def test_a_variable_keeps_pip_from_reading_the_file(
    environment: Environment, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert named(environment, home, ("pip", "24"), ".pip/pip.conf", "broken") == []


def test_a_password_is_not_shown(environment: Environment, home: Path) -> None:
    text = "[global]\nproxy = a\nindex-url = x https://me:secret@host/simple\n"
    (message,) = named(environment, home, ("pip", "24"), ".pip/pip.conf", text)
    assert "secret" not in message


def test_a_path_of_a_table_takes_the_innermost_default() -> None:
    text = "${A:-${B:-~/b}/a}/c"
    assert table_path(text, {"A": "/a"}) == "/a/c"
    assert table_path(text, {"B": "/b"}) == "/b/a/c"
    assert table_path(text, {"HOME": "/"}) == str(Path.home() / "b/a/c")
    assert table_path("${A:-x}", {"A": "${A:-x}"}) == "${A:-x}"


def test_every_row_has_a_source_and_a_format_that_can_be_read() -> None:
    rows = json.loads(Path(settings_files.__file__).with_suffix(".json").read_text())["file"]
    for row in rows:
        assert row["source"]
        assert row["packages"]
        assert row["files"]
        assert row.get("ignored") or row["fails"]
        assert settings_in(b"{}" if row["format"] == "json" else b"", row["format"]) == {}
