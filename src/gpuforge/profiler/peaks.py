"""The highest memory that was read: of each device, and during the spans of each name."""

from __future__ import annotations

import heapq
from typing import NamedTuple

from gpuforge.profiler.model import NO_PARENT, Profile

MOST_BYTES = 1 << 60
"""A reading above is none of a memory."""


class Peak(NamedTuple):
    """A highest reading.

    Attributes
    ----------
    path : the span during which it was reached, and those around it; empty for a whole device
    where : the device or backend
    what : the name of the reading
    bytes : its value
    """

    path: tuple[str, ...]
    where: str
    what: str
    bytes: int


def peaks(profile: Profile, n: int) -> list[Peak]:
    """Return the peak of each series of bytes, and the `n` highest of spans, one for each name."""
    spans = profile.spans
    found = [
        Peak((), series.device, series.name, int(max(known)))
        for series in profile.series
        if series.unit == "bytes" and (known := [v for v in series.values if 0 <= v < MOST_BYTES])
    ]
    highest: dict[int, tuple[int, int]] = {}
    for index, said in spans.attributes.items():
        value, name = said.get("memory_peak_bytes"), spans.name[index]
        if isinstance(value, int) and highest.get(name, (0, 0))[0] < value < MOST_BYTES:
            highest[name] = value, index
    for value, index in heapq.nlargest(n, highest.values()):
        backend = str(spans.attributes[index].get("backend", ""))
        found.append(Peak(_path(profile, index), backend, "memory", value))
    return found


def _path(profile: Profile, index: int) -> tuple[str, ...]:
    spans, found = profile.spans, []
    while index != NO_PARENT:
        found.append(spans.names[spans.name[index]])
        index = spans.parent[index]
    return tuple(reversed(found))
