"""Spans beyond a number are merged by call path, so that a recording stays bounded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

MAX_ROWS = 50_000
"""Call paths kept apart; what comes after them is merged into one row per lane and label."""
OTHER = "(other calls)"
Finished = tuple[str, int, int, int, int, int, int, int, dict[str, Any] | None]
"""A span that has ended: name, label, number, parent, start and end (`time.perf_counter_ns`),
thread, bytes, attributes. Numbers begin at 1 and grow with the start; a parent of 0 is none."""


class Open(NamedTuple):
    """A span that has begun: what is known of it before its end."""

    name: str
    label: int
    number: int
    parent: int
    start_ns: int
    thread: int


class Row:
    """The merged spans of one call path.

    Attributes
    ----------
    number : below 0; that of a span is above
    parent : the number of the row or span around it, 0 where there is none
    longest_ns : of the span whose attributes are kept
    """

    __slots__ = (
        "attributes", "bytes", "changed", "count", "duration_ns", "label", "longest_ns", "name",
        "number", "parent", "start_ns", "thread",
    )  # fmt: skip

    def __init__(
        self, number: int, name: str, label: int, start_ns: int, thread: int, parent: int
    ) -> None:
        self.number, self.parent = number, parent
        self.name, self.label = name, label
        self.thread, self.start_ns = thread, start_ns
        self.count = self.duration_ns = self.bytes = 0
        self.longest_ns = -1
        self.attributes: dict[str, Any] | None = None
        self.changed = True

    def as_span(self) -> Finished:
        """Return the row as one span, whose duration is that of all."""
        return (
            self.name, self.label, self.number, self.parent, self.start_ns,
            self.start_ns + self.duration_ns, self.thread, self.bytes, self.attributes,
        )  # fmt: skip


class Merging:
    """The merged rows of a recording.

    Parameters
    ----------
    raw_spans
        Spans whose number is at most this stay as they are. Numbers are given at the beginning of a
        span, so whatever lies around a span that stays, stays too.
    """

    def __init__(self, raw_spans: int) -> None:
        self.raw_spans = raw_spans
        self.rows: list[Row] = []
        self.merged = 0
        self._by_key: dict[tuple[int, str, int, int], Row] = {}

    def merge(self, finished: Sequence[Finished], opened: Iterable[Open]) -> None:
        """Take in spans that have ended; `opened` are all that stand open."""
        around: dict[int, Finished | Open] = {span[2]: span for span in finished}
        around.update((span.number, span) for span in opened)
        above: dict[int, int] = {}
        by_key = self._by_key
        for name, label, _number, parent, start, end, thread, nbytes, attributes in finished:
            row_above = above.get(parent)
            if row_above is None:
                row_above = above[parent] = self._above(parent, around)
            row = by_key.get((row_above, name, label, thread))
            if row is None:
                row = self._row(name, label, start, thread, row_above)
            took = end - start
            row.count += 1
            row.duration_ns += took
            row.bytes += nbytes
            row.changed = True
            if attributes and took > row.longest_ns:
                row.longest_ns, row.attributes = took, attributes
        self.merged += len(finished)

    def _above(self, number: int, around: dict[int, Finished | Open]) -> int:
        """Return the number of the span that stays, or of the row, that stands for `number`.

        A span that ended before those inside it, in an earlier flush, is not known any more.
        """
        way = []
        while number > self.raw_spans:
            span = around.get(number)
            if span is None:
                number = 0
                break
            way.append(span)
            number = span[3]
        for span in reversed(way):
            thread = span.thread if isinstance(span, Open) else span[6]
            number = self._row(span[0], span[1], span[4], thread, number).number
        return number

    def _row(self, name: str, label: int, start_ns: int, thread: int, parent: int) -> Row:
        row = self._by_key.get((parent, name, label, thread))
        if row is None and len(self.rows) >= MAX_ROWS:
            parent, name = 0, OTHER
            row = self._by_key.get((parent, name, label, thread))
        if row is None:
            row = Row(-1 - len(self.rows), name, label, start_ns, thread, parent)
            self._by_key[parent, name, label, thread] = row
            self.rows.append(row)
        return row

    def take_changed(self) -> list[Row]:
        """Return the rows that took in spans since this was last asked."""
        found = [row for row in self.rows if row.changed]
        for row in found:
            row.changed = False
        return found
