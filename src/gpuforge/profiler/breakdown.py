"""What the time of each lane was: its parts by label, which stand for measured spans only."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from gpuforge.profiler.model import DEVICE, LABELS, NO_PARENT, Profile, Spans, once


class Breakdown(NamedTuple):
    """The wall time of one lane.

    Attributes
    ----------
    lane : its place in the profile
    wall_ns : from its first span's start to its last one's end
    label_ns : the time of each of `LABELS`, by its place there
    bytes : moved by its spans
    unexplained_ns : what no span covers
    """

    lane: int
    wall_ns: int
    label_ns: tuple[int, ...]
    bytes: int
    unexplained_ns: int


@once
def own_ns(profile: Profile) -> array[int]:
    """Return for each span its duration less that of the spans directly inside it, at least 0.

    A span of another lane is not inside: it runs beside.
    """
    spans = profile.spans
    own = array("q", spans.duration)
    for index, parent in enumerate(spans.parent):
        left = spans.duration[index]
        while parent != NO_PARENT and spans.lane[parent] == spans.lane[index] and left > 0:
            over = _overhang(spans, index, parent)
            own[parent] -= left - min(over, left)
            left, parent = min(over, left), spans.parent[parent]
    for index, value in enumerate(own):
        if value < 0:  # merged spans, and clocks read by several threads
            own[index] = 0
    return own


def _overhang(spans: Spans, index: int, parent: int) -> int:
    """Return how long a span goes on after the one around it, as one begun in a generator may."""
    if spans.count[index] > 1 or spans.count[parent] > 1:  # merged spans have no place in time
        return 0
    end = spans.start[index] + spans.duration[index]
    return max(end - spans.start[parent] - spans.duration[parent], 0)


@once
def breakdown(profile: Profile) -> list[Breakdown]:
    """Return the parts of each lane that has a span, in the order of the lanes."""
    spans = profile.spans
    size = len(profile.lanes)
    labels = [[0] * len(LABELS) for _ in range(size)]
    covered, moved = [0] * size, [0] * size
    first, last = [-1] * size, [0] * size
    for index, own in enumerate(own_ns(profile)):
        lane = spans.lane[index]
        labels[lane][spans.label[index]] += own
        covered[lane] += own
        moved[lane] += spans.bytes[index]
        start = spans.start[index]
        first[lane] = start if first[lane] < 0 else min(first[lane], start)
        last[lane] = max(last[lane], start + spans.duration[index])
    found = []
    for lane in range(size):
        if first[lane] < 0:
            continue
        wall = last[lane] - first[lane]
        rest = 0 if profile.lanes[lane].kind == "device" else max(wall - covered[lane], 0)
        found.append(Breakdown(lane, wall, tuple(labels[lane]), moved[lane], rest))
    return found


def total_ns(parts: list[Breakdown]) -> tuple[int, ...]:
    """Return the time of each of `LABELS` over all lanes; `LABELS[DEVICE]` is that of devices."""
    assert len(LABELS) == DEVICE + 1
    return tuple(sum(part.label_ns[label] for part in parts) for label in range(len(LABELS)))
