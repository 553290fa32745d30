"""The user's file is changed in place, in one step, and nothing in it is lost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuforge import settings, settings_file
from gpuforge.errors import InvalidSettings, UnknownName


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "config.toml"


def test_comments_order_and_unknown_keys_survive(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("# why: slow laptop\nlearn = false  # measured\nmine = 1\n\n[other]\nx = 1\n")
    before = settings_file.change(path, {"learn": "on", "backends": "numpy,torch"})
    assert before == {"learn": "false"}
    text = path.read_text()
    assert "# why: slow laptop\nlearn = true  # measured\nmine = 1\n" in text
    assert tomllib.loads(text) == {
        "learn": True,
        "backends": ["numpy", "torch"],
        "mine": 1,
        "other": {"x": 1},
    }


def test_taking_out_leaves_the_rest(path: Path) -> None:
    settings_file.change(path, {"learn": False, "log": "info"})
    assert settings_file.change(path, {}, remove=("learn",)) == {"learn": "false"}
    assert path.read_text() == 'log = "info"\n'
    assert settings_file.change(path, {}, remove=("learn",)) == {}


@given(
    values=st.fixed_dictionaries(
        {},
        optional={
            "learn": st.booleans(),
            "explore_share": st.floats(0, 1),
            "min_elements": st.integers(0, 2**62),
            "device": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
            "forbid": st.lists(st.sampled_from(["numpy", "torch", "jax"])),
        },
    )
)
def test_what_is_written_is_read_back(values: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.toml"
        settings_file.change(path, values)
        found = tomllib.loads(path.read_text(encoding="utf-8")) if values else {}
    assert {name: settings.parse(name, value) for name, value in found.items()} == {
        name: settings.parse(name, value) for name, value in values.items()
    }


@pytest.mark.parametrize("content", [b"learn = = 1\n", b"\xff\xfe\n", b"[[["])
def test_a_broken_file_is_never_written_over(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(InvalidSettings, match="was not changed"):
        settings_file.change(path, {"learn": True})
    assert path.read_bytes() == content


@pytest.mark.parametrize("values", [{"learn": "perhaps"}, {"log": "info", "explore_share": 7}])
def test_a_wrong_value_writes_nothing(path: Path, values: dict[str, object]) -> None:
    with pytest.raises(InvalidSettings):
        settings_file.change(path, values)
    assert not path.exists()


def test_an_unknown_name_writes_nothing(path: Path) -> None:
    with pytest.raises(UnknownName):
        settings_file.change(path, {"lern": True})
    assert not path.exists()


def test_a_link_stays_a_link_and_keeps_its_mode(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    real = tmp_path / "dotfiles.toml"
    real.write_text("log = 'info'\n")
    real.chmod(0o600)
    path.symlink_to(real)
    settings_file.change(path, {"learn": False})
    assert path.is_symlink()
    assert tomllib.loads(real.read_text()) == {"log": "info", "learn": False}
    assert real.stat().st_mode & 0o777 == 0o600


def test_the_template_sets_nothing_and_lists_everything(path: Path) -> None:
    settings_file.create(path)
    text = path.read_text()
    assert tomllib.loads(text) == {}
    uncommented = "".join(
        line.removeprefix("# ") + "\n" for line in text.splitlines() if " = " in line
    )
    defaults = settings.Settings()
    assert {
        name: settings.parse(name, value) for name, value in tomllib.loads(uncommented).items()
    } == {name: getattr(defaults, name) for name in settings.names()}


def test_the_template_is_not_written_over_a_file(path: Path) -> None:
    settings_file.change(path, {"learn": False})
    settings_file.create(path)
    assert path.read_text() == "learn = false\n"


@pytest.mark.parametrize("name", settings_file.PRESETS)
def test_each_preset_is_valid_and_differs_from_the_defaults(name: str) -> None:
    preset = settings_file.PRESETS[name]
    defaults = settings.Settings()
    assert any(getattr(defaults, key) != settings.parse(key, preset[key]) for key in preset)


SHARED = tempfile.gettempdir()
"""Where others than the owner may look, other than in a test's own folder."""


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """Give a folder that others own; run as somebody who may not write there."""
    with tempfile.TemporaryDirectory(dir=SHARED) as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "config.toml").write_text("learn = false\n")
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        else:
            Path(folder).chmod(0o555)
        yield Path(folder)
        if root:
            os.seteuid(0)
        else:
            Path(folder).chmod(0o755)


def test_a_read_only_folder_is_an_error_that_names_the_file(as_nobody: Path) -> None:
    path = as_nobody / "config.toml"
    with pytest.raises(InvalidSettings, match=f"{path} cannot be written") as error:
        settings_file.change(path, {"learn": True})
    assert "permissions" in error.value.hint
    assert path.read_text() == "learn = false\n"


def test_a_parent_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidSettings, match="cannot be written"):
        settings_file.change(tmp_path / "file" / "config.toml", {"learn": True})


def test_a_write_that_the_disk_refuses_leaves_the_old_file(path: Path) -> None:
    settings_file.change(path, {"learn": False})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, hard))
    try:
        with pytest.raises(InvalidSettings, match="cannot be written"):
            settings_file.change(path, {"log": "info"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == "learn = false\n"
    assert list(path.parent.iterdir()) == [path]


def test_processes_that_write_at_once_lose_nothing(path: Path) -> None:
    values = {"learn": False, "log": "info", "device": "cpu", "min_elements": 7, "history": False}
    code = "import sys; from pathlib import Path; from gpuforge import settings_file as f;"
    code += "f.change(Path(sys.argv[1]), {sys.argv[2]: sys.argv[3]})"
    running = [
        subprocess.Popen([sys.executable, "-c", code, path, name, settings.to_text(value)])
        for name, value in values.items()
    ]
    assert [process.wait() for process in running] == [0] * len(values)
    assert tomllib.loads(path.read_text()) == values
