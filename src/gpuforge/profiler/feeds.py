"""Which operation follows which, and how much is moved between them."""

from __future__ import annotations

import heapq
from array import array
from collections import defaultdict
from collections.abc import Mapping
from operator import itemgetter
from typing import NamedTuple

from gpuforge.profiler.model import HOST, NO_PARENT, TRANSFER, Profile

_STEP = {"function", "operation"}
"""Attributes that make a span a step, whatever its label."""


class Feed(NamedTuple):
    """A step of the user's program and the next one inside the same span.

    Attributes
    ----------
    first, then : names of the steps
    times : number of occurrences
    bytes : bytes moved between them
    """

    first: str
    then: str
    times: int
    bytes: int


def feeds(profile: Profile, n: int) -> list[Feed]:
    """Return the `n` most frequent pairs of successive steps.

    A step is work of the program or a call of an offloaded function, but not gpuforge's own work.
    Merged spans have no order and are left out. Data flow is not traced: that a step uses the
    result of the previous one is possible, and likely if bytes were moved in between. A step that
    an exception ended has no result, see also `_may_feed`.
    """
    spans = profile.spans
    before = array("q", [NO_PARENT]) * len(spans)
    moved = array("q", [0]) * len(spans)
    outermost: dict[int, tuple[int, int]] = {}
    found: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, -len(found)])
    for index, parent in enumerate(spans.parent):
        if spans.count[index] > 1:
            continue
        lane, inside = spans.lane[index], parent != NO_PARENT
        inside = inside and spans.lane[parent] == lane
        last, nbytes = (before[parent], moved[parent]) if inside else outermost.get(lane, (-1, 0))
        if spans.label[index] == TRANSFER:
            nbytes += spans.bytes[index]
        elif spans.label[index] == HOST or not _STEP.isdisjoint(spans.attributes.get(index, ())):
            if last != NO_PARENT:
                row = found[spans.name[last], spans.name[index]]
                row[0] += 1
                row[1] += nbytes
            failed = "error" in spans.attributes.get(index, ())
            last, nbytes = NO_PARENT if failed else index, 0
        if inside:
            before[parent], moved[parent] = last, nbytes
        else:
            outermost[lane] = last, nbytes
    return [
        Feed(spans.names[first], spans.names[then], times, nbytes)
        for (first, then), (times, nbytes, _) in heapq.nlargest(
            n, (item for item in found.items() if _may_feed(*item, found)), key=itemgetter(1)
        )
    ]


def _may_feed(
    pair: tuple[int, int], row: list[int], rows: Mapping[tuple[int, int], list[int]]
) -> bool:
    """Return whether the order means more than a loop that begins again.

    In the order a, b, a, b, only a and b are a pair unless bytes were moved from b to a. Rows hold
    the occurrences, the bytes, and the order of the first occurrence, earlier ones higher.
    """
    back = rows.get(pair[::-1])
    return bool(row[1]) or back is None or row > back
