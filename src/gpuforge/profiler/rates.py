"""How fast links, memories and arithmetic are at most: measured, or told by a data sheet."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuforge.facts import Absent
from gpuforge.profiler.gpus import gpu_of
from gpuforge.profiler.model import Profile

LINKS = ("to device", "from device")
UNITS = {**dict.fromkeys((*LINKS, "memory"), "GB/s"), "float32": "GFLOP/s", "float64": "GFLOP/s"}
"""What there is a peak of -> its unit in reports."""


MOST = 1e18
"""No peak is above."""


class Rate(NamedTuple):
    """A highest rate: bytes or operations per second, and where it comes from."""

    per_second: float
    source: str


def rate(profile: Profile, backend: str, what: str) -> Rate | Absent:
    """Return the peak of a backend that the header holds, or why it holds none.

    Parameters
    ----------
    what
        A key of `UNITS`: ``to device`` and ``from device`` are those of its link, ``float32`` and
        ``float64`` those of products of matrices.
    """
    told = _entry(_entry(profile.header.get("peaks"), backend), what)
    found = _sound(told)
    if found is None and what == "memory":
        gpu = gpu_of(profile.header, backend)
        found = _sound(gpu.get("memory_bandwidth"))
    if found is not None:
        return found
    reason = _entry(told, "unknown") or _entry(profile.header.get("unknown"), "peaks")
    return Absent(str(reason or "the recording does not hold it"))


def backends(profile: Profile) -> list[str]:
    """Return the backends of which the header says something."""
    told = profile.header.get("peaks")
    return list(map(str, told)) if isinstance(told, dict) else []


def _entry(table: Any, name: str) -> Any:
    return table.get(name) if isinstance(table, dict) else None


def _sound(told: Any) -> Rate | None:
    value = _entry(told, "per_second")
    sound = isinstance(value, int | float) and 0 < value < MOST
    return Rate(float(value), str(_entry(told, "source") or "")) if sound else None
