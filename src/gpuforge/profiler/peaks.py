"""The highest memory that was read: of each device over time, and of the spans that reached it."""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

from gpuforge.profiler.model import NO_PARENT, Profile


class Peak(NamedTuple):
    """The highest reading of a series of bytes.

    Attributes
    ----------
    name, device : of the series
    bytes : the reading
    at_ns : when, since the profile began
    """

    name: str
    device: str
    bytes: int
    at_ns: int


class SpanPeak(NamedTuple):
    """The highest memory during the spans of one name.

    Attributes
    ----------
    path : the names of the spans around the one that reached it, and its own
    bytes : device memory
    backend : where; empty where the span does not say
    """

    path: tuple[str, ...]
    bytes: int
    backend: str


def peaks(profile: Profile) -> list[Peak]:
    """Return the peak of each series of bytes, in the order of the series."""
    found = []
    for series in profile.series:
        readings = [pair for pair in zip(series.values, series.times_ns, strict=False)
                    if math.isfinite(pair[0])]  # fmt: skip
        if series.unit == "bytes" and readings:
            value, at_ns = max(readings)
            found.append(Peak(series.name, series.device, int(value), at_ns))
    return found


def span_peaks(profile: Profile, n: int) -> list[SpanPeak]:
    """Return the `n` highest peaks of spans, one for each name, highest first."""
    spans = profile.spans
    highest: dict[int, tuple[int, int]] = {}
    for index, said in spans.attributes.items():
        value, name = said.get("memory_peak_bytes"), spans.name[index]
        if isinstance(value, int) and value > highest.get(name, (0, 0))[0]:
            highest[name] = value, index
    return [
        SpanPeak(_path(profile, index), value, str(spans.attributes[index].get("backend", "")))
        for value, index in heapq.nlargest(n, highest.values())
    ]


def _path(profile: Profile, index: int) -> tuple[str, ...]:
    spans, found = profile.spans, []
    while index != NO_PARENT:
        found.append(spans.names[spans.name[index]])
        index = spans.parent[index]
    return tuple(reversed(found))
