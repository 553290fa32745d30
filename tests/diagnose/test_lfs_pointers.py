"""Pointers of Git LFS in place of files are named, small files are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'5' * 64}\nsize 11872\n"


@pytest.fixture
def project(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder: Path = environment.prefix.parent / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(path: Path, text: str = POINTER) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found() -> list[tuple[str, str]]:
    report = run_checks("lfs_pointers").having("error", "warning", "unknown")
    return [(one.state, one.message) for one in report]


def test_modules_that_are_pointers_are_named(project: Path) -> None:
    for name in ("nodes.py", "__init__.py", "weights.safetensors"):
        write(project / "custom_nodes" / "mine" / name)
    ((state, message),) = found()
    assert state == "error"
    assert message.startswith(f"{project}/custom_nodes/mine/__init__.py and other files")


def test_data_that_are_pointers_only_give_a_warning(project: Path) -> None:
    write(project / "model" / "weights.bin")
    assert [state for state, _ in found()] == ["warning"]


def test_other_files_and_other_folders_are_not_named(project: Path) -> None:
    write(project / "small.py", "# " + "x" * 200)
    write(project / "about.md")
    write(project / "quoted.py", f"TEXT = '''\\\n{POINTER}'''\n")
    write(project / ".cache" / "a.bin")
    write(project / "venv" / "a.py")
    write(project / "venv" / "pyvenv.cfg", "home = /usr/bin")
    assert found() == []


def test_a_package_of_git_with_pointers_is_named(environment: Environment, project: Path) -> None:
    files = {"mine/__init__.py": "", "mine/weights.npz": POINTER}
    environment.add(make_wheel(environment.prefix.parent, "mine", "1", files=files))
    assert found() == []
    info = environment.packages / "mine-1.dist-info"
    write(info / "direct_url.json", json.dumps({"url": "x", "vcs_info": {"vcs": "git"}}))
    with open(info / "RECORD", "a") as record:
        record.write("mine-1.dist-info/direct_url.json,,\n")
    ((_, message),) = found()
    assert "mine/weights.npz is a pointer of Git LFS" in message
