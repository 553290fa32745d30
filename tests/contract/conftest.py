"""Every registered backend that is installed, and the null device, each in turn."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import gpuforge as gf
from gpuforge.runtime import backends as registered
from gpuforge.runtime import libraries
from gpuforge.runtime.backends import list_backends
from gpuforge.runtime.evaluation import opening
from gpuforge.runtime.evaluation.opening import open_library

from ..runtime.conftest import warnings_told
from . import null

__all__ = ["warnings_told"]

LISTED = {entry.name: entry for entry in list_backends()}
NAMES = [*LISTED, "null"]


DEVICE = os.environ.get("GPUFORGE_TEST_DEVICE", "")
"""The device that is tested where a library has several: cuda, rocm, mps (`make gpu`)."""


@cache
def opened(name: str) -> Any:
    """Return a device of a backend, opened as a session does: `DEVICE`, or the first."""
    if name == "null":
        return null.NullBackend()
    found = open_library(name)
    wanted = [device for device in found.devices if f":{DEVICE}" in device.name]
    return (wanted or found.devices or found.failures)[0]


@pytest.fixture(params=NAMES)
def backend(request: pytest.FixtureRequest) -> Any:
    """Return each backend that works here; skip by name those that are not installed."""
    name = request.param
    if name in LISTED and not LISTED[name].found:
        pytest.skip(f"{LISTED[name].library} is not installed")
    device = opened(name)
    if not hasattr(device, "put"):
        pytest.skip(f"{LISTED[name].library} does not work here: {device.reason}")
    return device


@pytest.fixture
def library_of(backend: Any) -> str:
    """Return the name under which the backend's library is pinned."""
    return str(backend.name.split(":")[0])


@pytest.fixture
def null_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, null.NullBackend]]:
    """Hold a session whose only device besides NumPy is a null one."""
    real = registered.load
    device = null.NullBackend()

    class Module:
        LIBRARY = "numpy"

        @staticmethod
        def open_devices() -> list[Any]:
            return [device]

    monkeypatch.setattr(registered, "names", lambda *, plugins=False: ("null", "numpy"))
    for place in (registered, __import__("gpuforge.runtime.evaluation.opening", fromlist=["load"])):
        monkeypatch.setattr(place, "load", lambda name: Module if name == "null" else real(name))
    monkeypatch.setattr(libraries, "names", registered.names)
    monkeypatch.setattr(opening, "_tested", {})
    with gf.session(history=False) as held:
        yield held, device
