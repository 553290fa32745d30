"""Memory pressure on a backend's device, and the release of cached memory."""

from __future__ import annotations

from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

from gpuforge import published
from gpuforge.log import logger
from gpuforge.runtime.backends import Backend, device_of

if TYPE_CHECKING:
    from gpuforge.detect.free_memory import FreeMemory

_log = logger("pressure")
_EVERY_SECONDS = 0.05
"""Minimum time between two reads of free memory: some libraries take 10 µs for it."""
_looked_at: dict[str, float] = {}
_levels: dict[str, int] = {}
"""Backend to the last level of its memory pressure: 0, 1 (warning) or 2 (critical)."""


def look(backend: Backend, warning: float, critical: float) -> None:
    """Publish that the used share of a GPU's memory has risen to a higher level, if it has.

    The host's memory is watched elsewhere.
    """
    name, now = backend.name, perf_counter()
    if device_of(name) == "cpu" or now - _looked_at.get(name, -inf) < _EVERY_SECONDS:
        return
    _looked_at[name] = now
    memory = _memory(backend)
    if memory is None or not memory.total_bytes:
        return
    share, before = 1 - memory.free_bytes / memory.total_bytes, _levels.get(name, 0)
    level = _levels[name] = (share >= warning) + (share >= critical)
    if level > before:
        published.pressed(name, warnings=int(before == 0), criticals=int(level == 2))


def release(backend: Backend) -> None:
    """Make a library release its cached memory, and publish how much that was."""
    before = _memory(backend)
    backend.release()
    after = _memory(backend)
    freed = after.free_bytes - before.free_bytes if before and after else 0
    published.pressed(backend.name, released=1, released_bytes=max(freed, 0))


def _memory(backend: Backend) -> FreeMemory | None:
    """Return a backend's free memory; None if unknown, because no call must fail over that."""
    try:
        return backend.memory()
    except Exception as error:  # noqa: BLE001 - a driver may fail in any way
        _log.info("%s does not report its memory use: %r", backend.name, error)
        return None
