"""Memory peaks: the highest readings of each device, and during spans of each name."""

from __future__ import annotations

import heapq
from typing import NamedTuple

from gpuforge.profiler.model import Profile
from gpuforge.profiler.paths import paths_of_spans

MOST_BYTES = 1 << 60
"""Higher readings are invalid."""


class Peak(NamedTuple):
    """The highest reading of a memory.

    Attributes
    ----------
    path : the names of the span during which it was reached and its ancestors; empty for a device
    where : the device, or ``host``
    what : the name of the reading
    bytes : its value
    """

    path: tuple[str, ...]
    where: str
    what: str
    bytes: int


def peaks(profile: Profile, n: int) -> list[Peak]:
    """Return the peak of each series of bytes, and the `n` highest of spans, one per name.

    A span is left out if a span inside it reached the same peak.
    """
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
    inner = {(value, spans.parent[index]) for value, index in highest.values()}
    innermost = [pair for pair in highest.values() if pair not in inner]
    for value, index in heapq.nlargest(n, innermost):
        path = paths_of_spans(profile)[1][index].names
        found.append(Peak(path, "host", "memory", value))  # spans hold the process's memory only
    return found
