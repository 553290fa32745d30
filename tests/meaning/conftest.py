"""One home and one gpuforge session for all patterns of a mode: starting each anew takes long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def own_home(shared_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, folder in (("HOME", ""), ("XDG_CACHE_HOME", "cache"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(name, str(shared_home / folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(shared_home / "data"))
    # All patterns share a session: none may wait for a decision because there were many before.
    monkeypatch.setattr("gpuforge.runtime.record.MANY", 10**9)
    return shared_home


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    yield
