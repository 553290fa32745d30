"""The time of each lane by label, from measured spans only."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from gpuforge.profiler.model import DEVICE, LABELS, NO_PARENT, Profile, Spans, once


class Breakdown(NamedTuple):
    """The wall time of one lane.

    Attributes
    ----------
    lane : its index in the profile
    wall_ns : time from the start of its first span to the end of its last one
    label_ns : time of each of `LABELS`, in their order
    bytes : bytes that its spans moved
    unexplained_ns : time that no span covers
    """

    lane: int
    wall_ns: int
    label_ns: tuple[int, ...]
    bytes: int
    unexplained_ns: int


@once
def own_ns(profile: Profile) -> array[int]:
    """Return each span's own time: its duration minus that of its direct children, at least 0.

    Children on another lane run concurrently and are not subtracted.
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
        if value < 0:  # because of merged spans or clocks read by several threads
            own[index] = 0
    return own


def _overhang(spans: Spans, index: int, parent: int) -> int:
    """Return by how much a span outlasts its parent, as one begun in a generator may."""
    if spans.count[index] > 1 or spans.count[parent] > 1:  # merged spans have no real end
        return 0
    end = spans.start[index] + spans.duration[index]
    return max(end - spans.start[parent] - spans.duration[parent], 0)


@once
def breakdown(profile: Profile) -> list[Breakdown]:
    """Return the breakdown of each lane with spans, in the order of the lanes."""
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
    """Return the total time of each of `LABELS` over all lanes."""
    assert len(LABELS) == DEVICE + 1
    return tuple(sum(part.label_ns[label] for part in parts) for label in range(len(LABELS)))
