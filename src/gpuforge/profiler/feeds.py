"""Which operation comes after which, and what is moved between them."""

from __future__ import annotations

import heapq
from array import array
from collections import defaultdict
from typing import NamedTuple

from gpuforge.profiler.model import NO_PARENT, TRANSFER, Profile


class Feed(NamedTuple):
    """An operation and the one that comes next inside the same span.

    Attributes
    ----------
    first, then : their names
    times : how often
    bytes : moved between them
    """

    first: str
    then: str
    times: int
    bytes: int


def feeds(profile: Profile, n: int) -> list[Feed]:
    """Return the `n` pairs that come most often, from the order of the spans.

    Merged spans have no order and are left out. Data is not followed: that one operation uses what
    the one before it made is likely, not known.
    """
    spans = profile.spans
    before = array("q", [NO_PARENT]) * len(spans)
    moved = array("q", [0]) * len(spans)
    outermost: dict[int, tuple[int, int]] = {}
    found: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for index, parent in enumerate(spans.parent):
        if spans.count[index] > 1:
            continue
        lane, inside = spans.lane[index], parent != NO_PARENT
        inside = inside and spans.lane[parent] == lane
        last, nbytes = (before[parent], moved[parent]) if inside else outermost.get(lane, (-1, 0))
        if spans.label[index] == TRANSFER:
            nbytes += spans.bytes[index]
        else:
            if last != NO_PARENT:
                row = found[spans.name[last], spans.name[index]]
                row[0] += 1
                row[1] += nbytes
            last, nbytes = index, 0
        if inside:
            before[parent], moved[parent] = last, nbytes
        else:
            outermost[lane] = last, nbytes
    return [
        Feed(spans.names[first], spans.names[then], times, nbytes)
        for (first, then), (times, nbytes) in heapq.nlargest(
            n, found.items(), key=lambda item: (item[1], [-name for name in item[0]])
        )
    ]
