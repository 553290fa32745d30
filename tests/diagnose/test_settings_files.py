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
    (("jupyter-client", "8"), ".local/share/jupyter/kernels/lab/kernel.json", '{"argv": [],}',
     "the kernel does not start"),
    (("accelerate", "1"), ".cache/huggingface/accelerate/default_config.yaml",
     "a: 1\n\tb: 2\n", "a tab indents"),
    (("jupyter-server", "2"), ".jupyter/jupyter_server_config.json",
     '{"ServerApp": {"jpserver_extensions": {"cite2c.handlers": true}}}', "cite2c.handlers is"),
    (("nbclassic", "1"), ".jupyter/jupyter_notebook_config.d/a.json",
     '{"NotebookApp": {"nbserver_extensions": {"gone": true}}}', "gone is enabled"),
    (("matplotlib", "3.9"), ".config/matplotlib/stylelib/lab.mplstyle", b"# caf\xe9\n", "utf-8"),
    (("ipython", "9"), ".ipython/profile_default/ipython_config.py",
     "c.InteractiveShellApp.extensions = [\n    'autoreload',\n    'gone.part',\n]\n",
     "gone.part is"),
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
    (("jupyter-server", "2"), ".jupyter/jupyter_server_config.json",
     '{"ServerApp": {"port": 8, "jpserver_extensions":'
     ' {"jupyter_server.x": true, "cite2c": false, "email": true}}}'),
    (("matplotlib", "3.9"), ".config/matplotlib/stylelib/lab.mplstyle", "lines.color : r\n"),
    (("ipython", "9"), ".ipython/profile_default/ipython_config.py",
     "c.InteractiveShellApp.extensions = ['storemagic', 'email']\n# c.A.extensions = ['gone']\n"),
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


def test_a_key_that_matplotlib_does_not_know_is_named(environment: Environment, home: Path) -> None:
    modules = {"matplotlib/__init__.py": "_deprecated_map = {'old.key': 1}\n",
               "matplotlib/rcsetup.py": "_validators = {\n    'text.usetex': None,\n}"}  # fmt: skip
    environment.add(make_wheel(environment.prefix.parent, "matplotlib", "3.9", files=modules))
    path = home / ".config/matplotlib/matplotlibrc"
    path.parent.mkdir(parents=True)
    path.write_text("#verbose.level: silent\ntext.usetex : True\nold.key : 1\n")
    assert run_checks("settings_files").having("error", "warning") == ()
    path.write_text("text.usetex : True\ntext.latex.unicode : True\n")
    (finding,) = run_checks("settings_files").having("error", "warning")
    assert finding.message == f"{path} sets keys that matplotlib does not know: text.latex.unicode"


OPTIONS = [
    ("pyproject.toml", '[tool.pytest.ini_options]\ntestpaths = ["t"]\naddopts = "--cov=a -q"\n'),
    ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = [\n  '-q',  # quiet\n  '--cov',\n]\n"),
    ("pytest.ini", "[pytest]\naddopts =\n    -q\n    --no-cov\nmarkers =\n    slow\n"),
    ("setup.cfg", "[metadata]\nname = mine\n[tool:pytest]\naddopts = -n 4 --cov=mine\n"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "text"), OPTIONS)
def test_an_option_of_pytest_whose_plugin_is_missing_is_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, place: str, text: str
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-q")
    folder: Path = environment.prefix.parent
    (folder / place).write_text(text)
    assert run_checks("settings_files").having("error", "warning") == ()
    environment.add(make_wheel(folder, "pytest", "8"))
    (finding,) = run_checks("settings_files").having("error", "warning")
    assert f"{folder / place}: addopts=" in finding.message
    assert "which is not installed" in finding.message
    for name in ("pytest-cov", "pytest-xdist"):
        environment.add(make_wheel(folder, name, "5"))
    assert run_checks("settings_files").having("error", "warning") == ()


@pytest.mark.parametrize("text", [
    "[tool.other]\naddopts = '--cov'\n[tool.pytest.ini_options]\nmarkers = ['cov: --cov']\n",
    "[tool.pytest.ini_options]\naddopts = '-q'  # --cov\n# addopts = '--cov'\n[tool.a]\n",
    "[tool.pytest.ini_options]\naddopts = [\n  # '--cov',\n  '-m', 'not cov',\n]\n",
    b"[tool.pytest.ini_options]\naddopts = '--cov \xfc'\n",
])  # fmt: skip
def test_other_options_of_pytest_and_comments_are_not_named(
    environment: Environment, text: str | bytes
) -> None:
    folder: Path = environment.prefix.parent
    environment.add(make_wheel(folder, "pytest", "8"))
    (folder / "pyproject.toml").write_bytes(text.encode() if isinstance(text, str) else text)
    found = run_checks("settings_files").having("error", "warning")
    assert [one for one in found if "addopts" in one.message] == []


def test_pytest_reads_only_the_first_file_with_a_section(environment: Environment) -> None:
    folder: Path = environment.prefix.parent
    environment.add(make_wheel(folder, "pytest", "8"))
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (folder / "tox.ini").write_text("[pytest]\naddopts = --cov\n")
    assert run_checks("settings_files").having("error", "warning") == ()


def test_a_module_of_an_editable_project_may_be_enabled(
    environment: Environment, home: Path
) -> None:
    text = '{"ServerApp": {"jpserver_extensions": {"mine": true}}}'
    (environment.packages / "__editable___mine_1_finder.py").write_text("")
    assert named(environment, home, ("jupyter-server", "2"),
                 ".jupyter/jupyter_server_config.json", text) == []  # fmt: skip


def test_an_extension_in_the_folder_of_ipython_is_not_missed(
    environment: Environment, home: Path
) -> None:
    place, text = ".ipython/profile_default/ipython_config.py", "c.A.extensions = ['mine']\n"
    (home / ".ipython/extensions").mkdir(parents=True)
    (home / ".ipython/extensions/mine.py").touch()
    assert named(environment, home, ("ipython", "9"), place, text) == []
    (home / ".ipython/extensions/mine.py").unlink()
    assert named(environment, home, ("ipython", "9"), place, text)


def test_a_byte_order_mark_that_keeps_pytest_from_starting_is_named(
    environment: Environment, tmp_path: Path
) -> None:
    environment.add(make_wheel(tmp_path, "pytest", "9"))
    path = Path("pyproject.toml")
    path.write_text("[project]\nname = 'a'\n", encoding="utf-8")
    assert not run_checks("settings_files").having("error")
    path.write_text("[tool.pytest.ini_options]\naddopts = '-q'\n", encoding="utf-8-sig")
    found = [one.message for one in run_checks().having("error") if one.check == "settings_files"]
    assert found and "begins with a byte order mark" in found[0]
