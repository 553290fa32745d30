"""Environments that tests break and repair."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .environments import Environment


@pytest.fixture(scope="session")
def base_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with nothing but pip, made once."""
    prefix = tmp_path_factory.mktemp("base") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(prefix)], check=True)
    return prefix


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of wheels that is the only package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "pip-cache"))
    return folder


@pytest.fixture
def environment(
    base_environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Environment:
    """Return a fresh environment, activated."""
    found = Environment(base_environment, tmp_path / "venv")
    monkeypatch.setenv("VIRTUAL_ENV", str(found.prefix))
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    return found
