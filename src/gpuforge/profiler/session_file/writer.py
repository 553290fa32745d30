"""Writing a session file while the program runs."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from operator import sub
from typing import IO, Any, TypeVar

from gpuforge.profiler.model import Lane, Placement, Series
from gpuforge.profiler.session_file.chunk import (
    BESIDE,
    END,
    HEADER,
    REACHED,
    READINGS,
    READINGS_VERSION,
    SPANS,
    VERSION,
    encode,
)
from gpuforge.profiler.session_file.merging import Merging
from gpuforge.profiler.session_path import MAGIC, opened, unwritable
from gpuforge.trace import Span

T = TypeVar("T")
RAW_SPANS = 1_000_000
CHUNK_SPANS = 50_000
OPEN_NS = -1
"""The duration in the file of a span that was open at the flush."""
_MERGED_EVERY = 20
"""Number of flushes after which changed merged rows are written again."""


class Writer:
    """A session file that is being written.

    Parameters
    ----------
    target
        A path, or a file open for writing bytes. A file at the path is replaced if it is a session
        file or empty.
    header
        See `gpuforge.profiler.model.Profile`.
    begin_ns
        ``time.perf_counter_ns()`` at the beginning of the recording.
    raw_spans
        Number of spans that are kept as they are; later ones are merged by call path.

    Raises
    ------
    WorkloadError
        If the file cannot be written, or an existing file is not a session file.

    Notes
    -----
    A forked child writes nothing, because the file belongs to its parent.
    """

    def __init__(
        self, target: str | os.PathLike[str] | IO[bytes], header: Mapping[str, Any], begin_ns: int,
        *, raw_spans: int = RAW_SPANS,
    ) -> None:  # fmt: skip
        self.file = opened(os.fspath(target)) if isinstance(target, str | os.PathLike) else target
        self.begin_ns = begin_ns
        self.merging = Merging(raw_spans)
        self._process = os.getpid()
        self._names: dict[str, int] = {}
        self._lanes: dict[int, int] = {}
        self._open: set[int] = set()
        self._flushes = 0
        self._size = len(MAGIC) + 1
        try:
            self.file.write(MAGIC + bytes([VERSION]))
            self.tell(header)
        except OSError as error:
            with suppress(OSError):
                self.file.close()
            raise unwritable(str(target), error) from None

    def tell(self, header: Mapping[str, Any]) -> None:
        """Write a header that replaces the previous one; some facts are known only at the end."""
        self._put(HEADER, {"header": dict(header)})
        self.file.flush()

    def write(
        self, finished: Sequence[Span], opened: Sequence[Span] = (),
        lanes: Mapping[int, Lane] | None = None, placements: Iterable[Placement] = (),
        series: Iterable[Series] = (), repeated: Sequence[tuple[Span, int]] = (),
    ) -> None:  # fmt: skip
        """Append new data and flush the file.

        Parameters
        ----------
        finished
            Finished spans in any order, or plain tuples with the same fields.
        opened
            All spans that are open now.
        lanes
            Lanes by thread; a thread without a lane is named after its number.
        placements, series
            New placements and readings, with times relative to the beginning.
        repeated
            Spans that each stand for a number of spans.
        """
        if os.getpid() != self._process:
            return
        self._flushes += 1
        raw = self._divide(finished, opened)
        merged = self._divide_repeated(repeated, (*finished, *opened))
        if self._flushes % _MERGED_EVERY == 0:
            merged += self._changed_rows()
        self._put_spans(raw, merged, lanes or {})
        if chosen := [vars(placement) for placement in placements]:
            self._put(BESIDE, {"placements": chosen})
        if read := list(series):
            self._put_readings(read)
        self.file.flush()

    def reached(self, wall_ns: int, cost_ns: int) -> None:
        """Write the time and the cost of the recording so far, which a crash leaves in force."""
        if os.getpid() == self._process:
            self._put(REACHED, {"wall_ns": wall_ns, "cost_ns": cost_ns})

    def close(
        self, wall_ns: int, cost_ns: int, counts: Mapping[str, int], notes: Iterable[str]
    ) -> None:
        """Write the remaining data and the end of the recording."""
        if os.getpid() != self._process:
            return
        self._put_spans([], self._changed_rows(), {})
        told = list(notes)
        if self.merging.merged:
            told.append(
                f"{self.merging.merged:,} spans after the first {self.merging.raw_spans:,} were "
                f"merged by call path into {len(self.merging.rows):,} rows"
            )
        self._put(
            END, {"wall_ns": wall_ns, "cost_ns": cost_ns, "counts": dict(counts), "notes": told}
        )
        self.file.flush()

    def _divide(self, finished: Sequence[Span], opened: Sequence[Span]) -> list[Span]:
        """Return the finished and newly opened spans below the limit; merge the others."""
        limit = self.merging.raw_spans
        raw = [span for span in finished if span[2] <= limit]
        if len(raw) < len(finished):
            self.merging.merge([span for span in finished if span[2] > limit], opened)
        self._open.difference_update([span[2] for span in raw])
        for span in opened:
            if span.number <= limit and span.number not in self._open:
                self._open.add(span.number)
                raw.append(span._replace(end_ns=span.start_ns + OPEN_NS, nbytes=0, attributes=None))
        return raw

    def _divide_repeated(
        self, repeated: Sequence[tuple[Span, int]], around: Sequence[Span]
    ) -> list[tuple[Span, int]]:
        """Return what stands for several spans below the limit; merge the others."""
        limit = self.merging.raw_spans
        over = [(span, count) for span, count in repeated if span.number > limit]
        if over:  # all at once: each time takes all spans around
            spans, counts = zip(*over, strict=True)
            self.merging.merge(spans, around, counts)
        return [(span, count) for span, count in repeated if span.number <= limit]

    def _changed_rows(self) -> list[tuple[Span, int]]:
        return [(row.as_span(), row.count) for row in self.merging.take_changed()]

    def _put_spans(
        self, spans: list[Span], merged: Iterable[tuple[Span, int]], lanes: Mapping[int, Lane]
    ) -> None:
        counts = [1] * len(spans)
        for span, count in merged:
            spans.append(span)
            counts.append(count)
        for start in range(0, len(spans), CHUNK_SPANS):
            part = slice(start, start + CHUNK_SPANS)
            self._put_chunk(spans[part], counts[part], lanes)

    def _put_chunk(
        self, spans: Sequence[Span], counts: Iterable[int], lanes: Mapping[int, Lane]
    ) -> None:
        name, label, number, parent, start, end, thread, nbytes, said = zip(*spans, strict=True)
        places, new_names = _places(self._names, name)
        lane_places, new_lanes = _places(self._lanes, thread)
        columns: dict[str, array[Any]] = {
            "name": array("I", places), "number": array("q", number),
            "parent": array("q", parent), "lane": array("I", lane_places),
            "label": array("B", label), "bytes": array("q", nbytes), "count": array("q", counts),
            "start": array("q", map(sub, start, (self.begin_ns, *start[:-1]))),
            "duration": array("q", map(sub, end, start)),
        }  # fmt: skip
        fields: dict[str, Any] = {
            "names": new_names,
            "lanes": [lanes.get(thread, Lane(f"thread {thread}")) for thread in new_lanes],
        }
        columns["said"], fields["said"] = _said(said)
        try:
            self._put(SPANS, fields, columns)
        except OSError:  # the new names were not written, so the next chunk must repeat them
            for name in new_names:
                del self._names[name]
            for thread in new_lanes:
                del self._lanes[thread]
            raise

    def _put_readings(self, read: Sequence[Series]) -> None:
        """Write the readings of all series concatenated, with times as differences."""
        times = array("q", chain.from_iterable(one.times_ns for one in read))
        values = array("d", chain.from_iterable(one.values for one in read))
        columns = {"time": array("q", map(sub, times, (0, *times[:-1]))), "value": values}
        told = [[one.name, one.unit, one.device, len(one.values)] for one in read]
        self._put(READINGS, {"version": READINGS_VERSION, "series": told}, columns)

    def _put(
        self, kind: bytes, fields: dict[str, Any], columns: Mapping[str, array[Any]] | None = None
    ) -> None:
        left = memoryview(encode(kind, fields, columns or {}))
        size = len(left)
        try:
            while left:
                left = left[self.file.write(left) :]
        except OSError:  # remove the partial chunk, after which nothing could be read
            with suppress(OSError):
                self.file.truncate(self._size)
                self.file.seek(self._size)
            raise
        self._size += size


def _places(known: dict[T, int], values: Sequence[T]) -> tuple[list[int], list[T]]:
    """Return the number of each value, and the values that are new in `known`."""
    new = [value for value in dict.fromkeys(values) if value not in known]
    for value in new:
        known[value] = len(known)
    return list(map(known.__getitem__, values)), new


def _said(abouts: Sequence[dict[str, Any] | None]) -> tuple[array[int], list[dict[str, Any]]]:
    """Return the number of each span's attributes (from 1, 0 for none), and the attributes.

    Identical objects are stored once, such as those shared by all calls of one choice.
    """
    places: dict[int, int] = {}
    said: list[dict[str, Any]] = []
    column = array("I", bytes(4 * len(abouts)))
    for row, about in enumerate(abouts):
        if about:
            place = places.get(id(about))
            if place is None:
                said.append(about)
                place = places[id(about)] = len(said)
            column[row] = place
    return column, said
