"""Caches of kernels: set where unset, in the user's cache folder, never instead of a user's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuforge.runtime.startup import caches

VARIABLES = (
    "CUDA_MODULE_LOADING", "CUPY_CACHE_DIR", "TRITON_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR",
)  # fmt: skip


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every library is installed, and an NVIDIA driver is there."""
    monkeypatch.setattr(caches, "is_installed", lambda name: True)
    monkeypatch.setattr(caches, "NVIDIA_SIGNS", (os.devnull,))


def test_what_the_user_set_is_left_alone(installed: None, tmp_path: Path) -> None:
    environ = dict.fromkeys(VARIABLES, "mine")
    assert caches.prepare(tmp_path, environ) == {}
    assert environ == dict.fromkeys(VARIABLES, "mine")
    assert {one.reason for one in caches.plan(tmp_path, environ)} == {"already set"}


def test_an_empty_variable_is_a_choice_too(installed: None, tmp_path: Path) -> None:
    assert caches.prepare(tmp_path, dict.fromkeys(VARIABLES, "")) == {}


def test_a_library_that_keeps_its_kernels_is_left_alone(installed: None, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    made = caches.prepare(tmp_path / "cache", environ)
    assert set(made) == {"CUDA_MODULE_LOADING", "JAX_COMPILATION_CACHE_DIR"}
    assert made["CUDA_MODULE_LOADING"] == "LAZY"
    assert Path(made["JAX_COMPILATION_CACHE_DIR"]).is_relative_to(tmp_path / "cache")
    assert environ == {"HOME": str(tmp_path), **made}
    assert not (tmp_path / "cache").exists(), "the library makes its folder"


def test_one_whose_folder_cannot_be_written_gets_one(installed: None, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environ = {"HOME": str(tmp_path / "file" / "home")}
    made = caches.prepare(tmp_path, environ)
    assert made["CUPY_CACHE_DIR"] == str(tmp_path / "cupy")
    assert made["TRITON_CACHE_DIR"] == str(tmp_path / "triton")


def test_nothing_is_set_for_what_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(caches, "is_installed", lambda name: False)
    monkeypatch.setattr(caches, "NVIDIA_SIGNS", ("/no/such/file",))
    assert caches.prepare(tmp_path, {}) == {}
    reasons = {one.variable: one.reason for one in caches.plan(tmp_path, {})}
    assert reasons["CUPY_CACHE_DIR"] == "cupy is not installed"
    assert "no NVIDIA driver" in reasons["CUDA_MODULE_LOADING"]


def test_a_folder_that_cannot_be_written_is_not_set(installed: None, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "JAX_COMPILATION_CACHE_DIR" not in caches.prepare(tmp_path / "file" / "cache", {})


PROGRAM = """
import os, sys
import jax, jax.numpy as jnp
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.jit(lambda x: jnp.sin(x) @ x.T)(jnp.ones((7, 7))).block_until_ready()
print(os.environ["JAX_COMPILATION_CACHE_DIR"])
"""


def test_jax_keeps_its_programs_there_from_one_run_to_the_next(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "gpuforge", "run", "program.py"]

    def once() -> tuple[str, str]:
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
        )
        return done.stdout.strip(), done.stderr

    folder, said = once()
    assert "environment variables set for this run" in said or "gpuforge: " in said
    kept = {path: path.stat().st_mtime_ns for path in Path(folder).glob("*-cache")}
    assert kept
    assert once()[0] == folder
    assert {path: path.stat().st_mtime_ns for path in Path(folder).glob("*-cache")} == kept


def test_the_setting_turns_it_off(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        f"import os; print([name for name in {VARIABLES} if name in os.environ])"
    )
    done = subprocess.run(
        [sys.executable, "-m", "gpuforge", "run", "program.py"], cwd=tmp_path, capture_output=True,
        text=True, check=True, env={**os.environ, "GPUFORGE_KERNEL_CACHES": "off"},
    )  # fmt: skip
    assert done.stdout == "[]\n"
