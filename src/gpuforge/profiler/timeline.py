"""Selecting the spans that a viewer can show, and arranging them on rows without overlap."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuforge.profiler.model import NO_PARENT, Profile, Spans
from gpuforge.profiler.names import line

MOST_ROWS = 256
"""Most rows of one lane."""
CLOCK_NS = 1000
"""By how much a span may outlast its parent and still be inside it, because the clock is read at
different moments."""


def longest(spans: Spans, limit: int) -> list[int]:
    """Return the indices of the `limit` longest spans and their ancestors, in order."""
    if len(spans) <= limit:
        return list(range(len(spans)))
    found: set[int] = set()
    for index in heapq.nlargest(limit, range(len(spans)), key=spans.duration.__getitem__):
        while index != NO_PARENT and index not in found:
            found.add(index)
            index = spans.parent[index]
    return sorted(found)


class Bar(NamedTuple):
    """A span on its row; spans of a row nest or follow each other."""

    span: int
    start_ns: int
    end_ns: int


@dataclass
class Row:
    """Spans of one lane, in order, parents first."""

    lane: int
    bars: list[Bar] = field(default_factory=list)
    opened: list[Bar] = field(default_factory=list, repr=False)

    def takes(self, start_ns: int, parent: int) -> bool:
        """Return whether a span that starts then would be inside nothing or inside its parent."""
        while self.opened and self.opened[-1].end_ns <= start_ns:
            self.opened.pop()
        return not self.opened or self.opened[-1].span == parent


def rows(spans: Spans, chosen: Iterable[int]) -> list[Row]:
    """Return the rows of `chosen` spans, grouped by lane.

    A thread with nested calls has one row. Spans of one lane that overlap without nesting, such as
    those of asyncio tasks, are put on several rows; those beyond `MOST_ROWS` are left out.
    """
    found: dict[int, list[Row]] = {}
    place: dict[int, Row] = {}
    for index in sorted(chosen, key=lambda i: (spans.start[i], i)):
        lane, parent = spans.lane[index], spans.parent[index]
        if parent == NO_PARENT or spans.lane[parent] != lane:
            parent = NO_PARENT
        of_lane = found.setdefault(lane, [])
        row, end = _row(spans, index, parent, place.get(parent), of_lane)
        if row is None:
            continue
        bar = Bar(index, spans.start[index], end)
        row.bars.append(bar)
        row.opened.append(bar)
        place[index] = row
    return [row for lane in sorted(found) for row in found[lane]]


def _row(
    spans: Spans, index: int, parent: int, above: Row | None, of_lane: list[Row]
) -> tuple[Row | None, int]:
    """Return the row of a span (None if all are taken) and where the span ends on it."""
    start = spans.start[index]
    end = start + spans.duration[index]
    if above is not None and above.takes(start, parent) and above.opened:
        around = above.opened[-1].end_ns
        if end <= around + CLOCK_NS:
            return above, min(end, around)
    for row in of_lane:
        if row.takes(start, NO_PARENT) and not row.opened:
            return row, end
    if len(of_lane) == MOST_ROWS:
        return None, end
    of_lane.append(Row(spans.lane[index]))
    return of_lane[-1], end


def row_names(profile: Profile, found: list[Row]) -> list[str]:
    """Return a name for each row: that of its lane, with a number from the second row on."""
    result: list[str] = []
    number, before = 0, -1
    for row in found:
        number = number + 1 if row.lane == before else 1
        before = row.lane
        name = line(profile.lanes[row.lane].name)
        result.append(name if number == 1 else f"{name} ({number})")
    return result
