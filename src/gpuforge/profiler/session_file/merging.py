"""Merging spans beyond a limit by call path, so that the size of a recording is bounded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from gpuforge.dataclass import dataclass
from gpuforge.trace import Span

MAX_ROWS = 50_000
"""Number of separate call paths; later ones are merged into one row per lane and label."""
OTHER = "(other calls)"


@dataclass(eq=False)
class Row:
    """The merged spans of one call path.

    Attributes
    ----------
    number : a negative number; those of spans are positive
    parent : the number of the row or span around it; 0 for none
    longest_ns : duration of the longest span, whose attributes are kept
    """

    name: str
    label: int
    number: int
    parent: int
    start_ns: int
    thread: int
    count: int = 0
    duration_ns: int = 0
    nbytes: int = 0
    attributes: dict[str, Any] | None = None
    longest_ns: int = -1
    changed: bool = True

    def as_span(self) -> Span:
        """Return the row as one span with the total duration."""
        end_ns = self.start_ns + self.duration_ns
        return Span(
            self.name, self.label, self.number, self.parent, self.start_ns, end_ns, self.thread,
            self.nbytes, self.attributes,
        )  # fmt: skip


class Merging:
    """The merged rows of a recording.

    Parameters
    ----------
    raw_spans
        Spans with numbers up to this one are not merged. Spans are numbered when they begin, so the
        ancestors of such a span are not merged either.
    """

    def __init__(self, raw_spans: int) -> None:
        self.raw_spans = raw_spans
        self.rows: list[Row] = []
        self.merged = 0
        self._by_key: dict[tuple[int, str, int, int], Row] = {}

    def merge(
        self, finished: Sequence[Span], opened: Iterable[Span], counts: Iterable[int] = repeat(1)
    ) -> None:
        """Merge finished spans, each of which stands for a number of spans.

        `opened` are all spans that are open now, and others that may be around the finished ones.
        """
        around = {span[2]: span for span in (*finished, *opened)}
        above: dict[int, int] = {}
        by_key = self._by_key
        for span, each in zip(finished, counts, strict=False):
            name, label, _, parent, start, end, thread, nbytes, attributes = span
            row_above = above.get(parent)
            if row_above is None:
                row_above = above[parent] = self._above(parent, around)
            row = by_key.get((row_above, name, label, thread))
            if row is None:
                row = self._row(name, label, start, thread, row_above)
            took = end - start
            row.count += each
            row.duration_ns += took
            row.nbytes += nbytes
            row.changed = True
            self.merged += each
            if attributes and took // each > row.longest_ns:
                row.longest_ns, row.attributes = took // each, attributes

    def _above(self, number: int, around: dict[int, Span]) -> int:
        """Return the number of the unmerged span or the row that represents span `number`.

        A span that ended before its children, in an earlier flush, is no longer known.
        """
        way = []
        while number > self.raw_spans:
            span = around.get(number)
            if span is None:
                number = 0
                break
            way.append(span)
            number = span[3]
        for name, label, _, _, start, _, thread, _, _ in reversed(way):
            number = self._row(name, label, start, thread, number).number
        return number

    def _row(self, name: str, label: int, start_ns: int, thread: int, parent: int) -> Row:
        row = self._by_key.get((parent, name, label, thread))
        if row is None and len(self.rows) >= MAX_ROWS:
            parent, name = 0, OTHER
            row = self._by_key.get((parent, name, label, thread))
        if row is None:
            row = Row(name, label, -1 - len(self.rows), parent, start_ns, thread)
            self._by_key[parent, name, label, thread] = row
            self.rows.append(row)
        return row

    def take_changed(self) -> list[Row]:
        """Return the rows that changed since the last call."""
        found = [row for row in self.rows if row.changed]
        for row in found:
            row.changed = False
        return found
