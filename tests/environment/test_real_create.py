"""Real packages of the configured index: created, verified, or ended with a clear error.

Profile ``lightweight`` with JAX, the lightest framework. The table of all three frameworks and of
switching between them is written by ``benchmarks/environments/create.py``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpuforge.environment.installers import find_uv
from gpuforge.environment.place import Place

pytestmark = [
    pytest.mark.create,
    pytest.mark.skipif(not find_uv(), reason="no uv, which keeps this short"),
]
FLAGS = ["--framework", "jax", "--cpu-only", "--yes"]
SECONDS = 300


def command(action: str, *argv: str) -> list[str]:
    return [sys.executable, "-m", "gpuforge", "env", action, *argv]


def run(action: str, *argv: str) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [*command(action, *argv), "--json"], capture_output=True, text=True, timeout=SECONDS
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def nothing_there(path: Path) -> bool:
    return not path.exists() and not Place(path).staging.exists()


def assert_failed(said: str, status: int, path: Path, *words: str) -> None:
    assert status == 1, said
    assert all(word in said for word in words), said
    assert "hint: " in said
    assert "Traceback" not in said
    assert nothing_there(path)


def test_an_environment_is_created_verified_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / ".venv"
    status, found, said = run("create", "--profile", "lightweight", *FLAGS, "--path", str(path))
    assert status == 0, said
    assert found["ok"]
    names = {"packages", "import", "device", "kernel", "convolution", "memory"}
    assert {check["name"] for check in found["checks"] if check["ok"]} == names
    status, verified, said = run("verify", "--path", str(path))
    assert (status, verified["versions"]) == (0, found["versions"]), said
    status, again, said = run("switch", "--framework", "jax", "--yes", "--path", str(path))
    assert (status, again["path"]) == (0, str(path)), said
    assert [entry.name for entry in tmp_path.glob("*venv*")] == [".venv"]


def interrupted(path: Path, after_seconds: float) -> None:
    argv = command("create", "--profile", "lightweight", *FLAGS, "--path", str(path))
    process = subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    give_up = time.monotonic() + SECONDS
    while not (Place(path).staging / "pyvenv.cfg").exists():
        assert process.poll() is None
        assert time.monotonic() < give_up
        time.sleep(0.001)
    time.sleep(after_seconds)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, said
    assert nothing_there(path)


def test_an_interrupted_create_leaves_nothing_and_can_be_run_again(tmp_path: Path) -> None:
    path = tmp_path / ".venv"
    for after_seconds in (0.0, 0.004, 0.01, 0.1):  # while one installer ends and the next begins
        interrupted(path, after_seconds)
    status, found, said = run("create", "--profile", "lightweight", *FLAGS, "--path", str(path))
    assert (status, found["ok"]) == (0, True), said


def test_a_missing_index_ends_in_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / ".venv"
    nowhere = ("--index", "http://127.0.0.1:9/simple")
    status, _, said = run("create", *FLAGS, *nowhere, "--path", str(path))
    assert_failed(said, status, path, "index cannot be reached", "--index")


def test_a_wrong_package_name_ends_in_a_clear_error(tmp_path: Path, own_home: Path) -> None:
    profiles = own_home / "config" / "gpuforge" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "mine.toml").write_text('packages = ["numpy-of-nowhere-at-all"]')
    path = tmp_path / ".venv"
    status, _, said = run("create", "--profile", "mine", *FLAGS, "--path", str(path))
    missing = "package 'numpy-of-nowhere-at-all' was not found on any index"
    assert_failed(said, status, path, missing)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_ends_in_a_clear_error(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(small)])
    if mounted.returncode != 0:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        path = small / ".venv"
        status, _, said = run("create", "--profile", "lightweight", *FLAGS, "--path", str(path))
        assert_failed(said, status, path, "the disk is full")
    finally:
        subprocess.run(["umount", str(small)], check=True)
