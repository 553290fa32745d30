"""The memory of a backend's device: when it becomes short, and what is given back of it."""

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
"""It is not read more often: some libraries take 10 µs for it."""
_looked_at: dict[str, float] = {}
_levels: dict[str, int] = {}
"""Backend to the level that its memory was last seen at: 0, 1 from warning on, 2 from critical."""


def look(backend: Backend, warning: float, critical: float) -> None:
    """Show that the share of a GPU's memory in use has risen above a level, if it has.

    The host's memory is watched by whoever watches the host.
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
    """Have a library give back what it keeps for later calls, and show how much that was."""
    before = _memory(backend)
    backend.release()
    after = _memory(backend)
    freed = after.free_bytes - before.free_bytes if before and after else 0
    published.pressed(backend.name, released=1, released_bytes=max(freed, 0))


def _memory(backend: Backend) -> FreeMemory | None:
    """Return how full a backend's memory is; a call must not fail because that is not known."""
    try:
        return backend.memory()
    except Exception as error:  # noqa: BLE001 - a driver may fail in any way
        _log.info("%s does not report its memory use: %r", backend.name, error)
        return None
