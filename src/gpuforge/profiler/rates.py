"""Peak rates of links, memory and arithmetic, measured or from a data sheet."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuforge.facts import Absent
from gpuforge.profiler.gpus import gpu_of
from gpuforge.profiler.model import Profile
from gpuforge.units import significant

LINKS = ("to device", "from device")
UNITS = {**dict.fromkeys((*LINKS, "memory"), "GB/s"), "float32": "GFLOP/s", "float64": "GFLOP/s"}
"""The quantities that have a peak, and their units in reports."""
MOST = 1e18
"""Higher values are invalid."""


class Rate(NamedTuple):
    """A peak rate in bytes or operations per second, and its source."""

    per_second: float
    source: str


def rate(profile: Profile, backend: str, what: str) -> Rate | Absent:
    """Return a peak of a backend from the header, or why it is unknown.

    Parameters
    ----------
    what
        A key of `UNITS`: ``to device`` and ``from device`` are the link's peaks, ``float32`` and
        ``float64`` those of matrix products.
    """
    entry = _entry(profile.said("peaks").get(backend), what)
    found = _valid(entry)
    if found is None and what == "memory":
        found = _valid(gpu_of(profile.header, backend).get("memory_bandwidth"))
    if found is not None:
        return found
    reason = _entry(entry, "unknown") or profile.said("unknown").get("peaks")
    return Absent(str(reason or "the recording does not hold it"))


def told(profile: Profile) -> list[tuple[str, str, str, str]]:
    """Return the peaks in the header as text: backend, quantity, rate and source."""
    return [
        (backend, what, f"{significant(found.per_second / 1e9)} {unit}", found.source)
        for backend in map(str, profile.said("peaks"))
        for what, unit in UNITS.items()
        if not isinstance(found := rate(profile, backend, what), Absent)
    ]


def _entry(table: Any, name: str) -> Any:
    return table.get(name) if isinstance(table, dict) else None


def _valid(told: Any) -> Rate | None:
    value = _entry(told, "per_second")
    sound = isinstance(value, int | float) and 0 < value < MOST
    return Rate(float(value), str(_entry(told, "source") or "")) if sound else None
