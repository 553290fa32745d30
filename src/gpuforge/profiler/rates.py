"""How fast links, memories and arithmetic are at most: measured, or told by a data sheet."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuforge.facts import Absent
from gpuforge.profiler.gpus import gpu_of
from gpuforge.profiler.model import Profile
from gpuforge.units import significant

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
    entry = _entry(profile.said("peaks").get(backend), what)
    found = _sound(entry)
    if found is None and what == "memory":
        found = _sound(gpu_of(profile.header, backend).get("memory_bandwidth"))
    if found is not None:
        return found
    reason = _entry(entry, "unknown") or profile.said("unknown").get("peaks")
    return Absent(str(reason or "the recording does not hold it"))


def told(profile: Profile) -> list[tuple[str, str, str, str]]:
    """Return the peaks that the header holds: backend, what of, rate and source, as text."""
    return [
        (backend, what, f"{significant(found.per_second / 1e9)} {unit}", found.source)
        for backend in map(str, profile.said("peaks"))
        for what, unit in UNITS.items()
        if not isinstance(found := rate(profile, backend, what), Absent)
    ]


def _entry(table: Any, name: str) -> Any:
    return table.get(name) if isinstance(table, dict) else None


def _sound(told: Any) -> Rate | None:
    value = _entry(told, "per_second")
    sound = isinstance(value, int | float) and 0 < value < MOST
    return Rate(float(value), str(_entry(told, "source") or "")) if sound else None
