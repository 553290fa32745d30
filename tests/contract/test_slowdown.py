"""A device that slows down is noticed: real calls through a session, at a speed that the test sets.

The clock is the test's own, so the verdict does not hang on what else the machine does.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import gpuforge as gf

from ..runtime.conftest import places

WITHIN = 200
"""Calls after the change by which the choice must be right again."""
X = np.linspace(0, 1, 50)


class Clock:
    """A clock that moves when the test's devices work, and otherwise by 0.1 µs a look."""

    def __init__(self) -> None:
        self.now = 0.0
        self.numpy_seconds = self.device_seconds = 0.0

    def __call__(self) -> float:
        self.now += 1e-7
        return self.now


CLOCK = Clock()


def work(x: Any) -> Any:
    """Return twice `x`; on NumPy it takes as long as the clock is told."""
    if not hasattr(x, "_recorder"):
        CLOCK.now += CLOCK.numpy_seconds
    return x * 2


@pytest.fixture
def timed(null_device: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hold a session on the test's clock, with a null device whose results take their time."""
    held, device = null_device
    parts = ("offload", "execution.pipeline", "evaluation.engine", "evaluation.opening", "session")
    for name in parts:
        monkeypatch.setattr(import_module(f"gpuforge.runtime.{name}"), "perf_counter", CLOCK)
    monkeypatch.setattr(held.account, "elapsed", CLOCK)
    real = device.get

    def get(array: Any) -> Any:
        CLOCK.now += CLOCK.device_seconds
        return real(array)

    monkeypatch.setattr(device, "get", get)
    return held


def settle(placed: Any, calls: int) -> str:
    """Make `calls` calls and return where the last twenty ran, if all ran at one place."""
    for _ in range(calls - 20):
        placed(X)
    before = places(placed)
    for _ in range(20):
        placed(X)
    ran = {name for name, count in places(placed).items() if count > before.get(name, 0)}
    return ran.pop() if len(ran) == 1 else f"several: {sorted(ran)}"


CHANGES = {
    "the device slows down": ((4e-3, 1e-3), (4e-3, 40e-3), "null:gpu:0", "numpy"),
    "the device slows down a little": ((4e-3, 2e-3), (4e-3, 8e-3), "null:gpu:0", "numpy"),
    "a device of short calls slows down": ((3e-4, 1e-4), (3e-4, 2e-3), "null:gpu:0", "numpy"),
    "NumPy loses its threads": ((1e-3, 2e-3), (9e-3, 2e-3), "numpy", "null:gpu:0"),
    "both slow down, the device more": ((4e-3, 1e-3), (8e-3, 30e-3), "null:gpu:0", "numpy"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_choice_is_right_again_within_200_calls(change: str, timed: Any) -> None:
    (numpy, device), later, first, last = CHANGES[change]
    CLOCK.numpy_seconds, CLOCK.device_seconds = numpy, device
    timed.find("null")
    placed = gf.offload(work)
    assert settle(placed, 400) == first
    CLOCK.numpy_seconds, CLOCK.device_seconds = later
    assert settle(placed, WITHIN) == last
