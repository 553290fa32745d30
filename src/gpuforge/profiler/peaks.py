"""The highest memory that was read: of each device, and during the spans of each name."""

from __future__ import annotations

import heapq
from typing import NamedTuple

from gpuforge.profiler.model import Profile
from gpuforge.profiler.paths import paths_of_spans

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
    """Return the peak of each series of bytes, and the `n` highest of spans, one for each name.

    A span is left out where one inside it reached the same.
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
        backend = str(spans.attributes[index].get("backend", ""))
        path = paths_of_spans(profile)[1][index].names
        found.append(Peak(path, backend, "memory", value))
    return found
