"""Caches without which packages fail: those that cannot be written are named."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from gpuforge.diagnose.run import run_checks

from .environments import Environment, make_wheel

CACHED = "from numba import njit\n@njit(cache=True)\ndef f(x):\n    return x\n"
VARIABLES = ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_HOME", "HF_HOME",
             "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TORCH_HOME", "NLTK_DATA")  # fmt: skip


@pytest.fixture
def home(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder: Path = environment.prefix.parent / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return folder


def named() -> list[str]:
    return [f.message for f in run_checks("cache_folders").having("error", "warning", "unknown")]


def add(environment: Environment, name: str, *requires: str, module: str = "") -> None:
    files = {f"{name}/__init__.py": module}
    environment.add(make_wheel(environment.prefix.parent, name, "1", requires, files))


def test_numba_that_can_write_no_cache_is_named(
    environment: Environment, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(environment, "numba")
    add(environment, "vectors", "numba>=0.50", module=CACHED)
    home.chmod(0o555)
    assert named() == []  # the folder of the package can be written
    (environment.packages / "vectors").chmod(0o555)
    (message,) = named()
    assert "numba can write its cache neither beside" in message
    assert "vectors/__init__.py" in message
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(environment.prefix))
    assert named() == []
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    home.chmod(0o755)
    assert named() == []


def test_a_package_that_does_not_cache_or_need_numba_is_not_named(
    environment: Environment, home: Path
) -> None:
    add(environment, "numba")
    add(environment, "plain", "numba", module=CACHED.replace("cache=True", ""))
    add(environment, "other", "numbagg", module=CACHED)
    for place in (home, environment.packages / "plain", environment.packages / "other"):
        place.chmod(0o555)
    assert named() == []


@pytest.mark.parametrize(
    ("package", "folder"),
    [("triton", ".triton"), ("cupy-cuda12x", ".cupy"), ("huggingface-hub", ".cache/huggingface"),
     ("torch", ".cache/torch"), ("jupyter-core", ".local/share/jupyter")],
)  # fmt: skip
def test_a_cache_that_another_user_owns_is_named(
    environment: Environment, home: Path, package: str, folder: str
) -> None:
    environment.add(make_wheel(environment.prefix.parent, package, "1"))
    assert named() == []
    (home / folder).mkdir(parents=True)
    (home / folder).chmod(0o555)
    (message,) = named()
    assert message.startswith(f"{package} cannot write its cache {home / folder}")


def test_a_home_folder_is_named_elsewhere(environment: Environment, home: Path) -> None:
    add(environment, "triton")
    home.chmod(0o555)
    assert named() == []


def test_an_archive_without_its_end_and_a_link_to_nothing_are_named(
    environment: Environment, home: Path
) -> None:
    for package in ("torch", "huggingface-hub", "nltk"):
        environment.add(make_wheel(environment.prefix.parent, package, "1"))
    snapshot = home / ".cache/huggingface/hub/models--a--b/snapshots/0123"
    weights = home / ".cache/torch/hub/checkpoints"
    for folder in (snapshot, weights, snapshot.parents[1] / "blobs"):
        folder.mkdir(parents=True)
    blob = snapshot.parents[1] / "blobs" / "f00"
    blob.write_text("{}")
    (snapshot / "config.json").symlink_to("../../blobs/f00")
    with zipfile.ZipFile(weights / "a.pth", "w") as archive:
        archive.writestr("a/data.pkl", "weights" * 20_000)
    (weights / "old.pth").write_bytes(b"\x80\x02 a pickle")
    (weights / "b.pth.0123.partial").write_bytes(b"PK\x03\x04")
    assert named() == []
    blob.unlink()
    whole = (weights / "a.pth").read_bytes()
    (weights / "a.pth").write_bytes(whole[:-60])
    (link, cut) = named()
    assert f"{snapshot}/config.json of huggingface-hub is a link to what does not exist" in link
    assert f"{weights}/a.pth of torch is cut off" in cut
    (weights / "b.pt").write_bytes(b"")
    assert f"{weights}/b.pt of torch is cut off, so loading it fails" in named()


def test_a_lock_that_nobody_holds_any_more_is_named(environment: Environment, home: Path) -> None:
    environment.add(make_wheel(environment.prefix.parent, "matplotlib", "3.11.2"))
    lock = home / ".cache/matplotlib/fontlist-v3.11.0.json.matplotlib-lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert named() == []
    os.utime(lock, (1e9, 1e9))
    (message,) = named()
    assert f"{lock} of matplotlib is a lock" in message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_pipes_and_links_that_cannot_be_followed_are_left_alone(
    environment: Environment, home: Path
) -> None:
    for package in ("torch", "huggingface-hub"):
        environment.add(make_wheel(environment.prefix.parent, package, "1"))
    snapshot = home / ".cache/huggingface/hub/models--a--b/snapshots/0123"
    weights = home / ".cache/torch/hub/checkpoints"
    for folder in (snapshot, weights):
        folder.mkdir(parents=True)
    (snapshot / "itself").symlink_to("itself")
    os.mkfifo(weights / "pipe.pth")
    assert named() == []
