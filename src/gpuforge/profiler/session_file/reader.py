"""Reading session files, including untrusted and incomplete ones."""

from __future__ import annotations

import math
import os
from array import array
from itertools import accumulate, islice
from pathlib import Path
from typing import IO, Any

from gpuforge.errors import WorkloadError
from gpuforge.profiler.model import LABELS, NO_PARENT, Lane, Placement, Profile, Series
from gpuforge.profiler.session_file.chunk import (
    BESIDE,
    END,
    HEADER,
    REACHED,
    READINGS,
    READINGS_VERSION,
    SPANS,
    VERSION,
)
from gpuforge.profiler.session_file.decoding import Chunk, Damaged, decode
from gpuforge.profiler.session_path import MAGIC
from gpuforge.units import counted

MOST_BYTES = 2 << 30
"""Limit of all decompressed chunks together."""
_LATER = "it contains readings from a newer gpuforge, which are ignored"


def read(source: str | os.PathLike[str] | IO[bytes], *, most_bytes: int = MOST_BYTES) -> Profile:
    """Return the profile in a session file, up to the last complete chunk.

    Parameters
    ----------
    source
        A path, or a file open for reading bytes.
    most_bytes
        Limit of the decompressed data; beyond it the file is read in part, with a note.

    Raises
    ------
    WorkloadError
        If it cannot be read, is not a session file, or is one of a later version.
    """
    if not isinstance(source, str | os.PathLike):
        return _read(source, "the session file", most_bytes)
    path = Path(source)
    try:
        with open(path, "rb") as file:
            return _read(file, repr(str(path)), most_bytes)
    except OSError as error:
        raise WorkloadError(
            f"{str(path)!r} cannot be read: {error.strerror or error}", hint="check the path"
        ) from None


def _read(file: IO[bytes], called: str, most_bytes: int) -> Profile:
    start = file.read(len(MAGIC) + 1)
    if start[: len(MAGIC)] != MAGIC or len(start) <= len(MAGIC):
        raise WorkloadError(
            f"{called} is not a session file, or its beginning is lost",
            hint="record one with 'gpuforge run --save FILE SCRIPT'",
        )
    if not 1 <= start[-1] <= VERSION:
        raise WorkloadError(
            f"{called} is a session file of version {start[-1]}; "
            f"this gpuforge reads versions up to {VERSION}",
            hint="read it with the gpuforge that wrote it",
        )
    reading = _Reading()
    try:
        for chunk in decode(file, most_bytes):
            reading.take(chunk)
    except Damaged as problem:
        reading.profile.notes.append(f"only part of the file could be read: {problem}")
        reading.profile.complete = False
    return reading.finish()


class _Reading:
    """The columns of all chunks read so far; rows are ordered at the end."""

    def __init__(self) -> None:
        self.profile = Profile(complete=False)
        self.columns: dict[str, array[int]] = {}
        self.attributes: dict[int, dict[str, Any]] = {}
        self.series: dict[tuple[str, ...], Series] = {}
        self.last_ns = 0

    def take(self, chunk: Chunk) -> None:
        """Add one chunk; raise `Damaged` if it cannot be understood."""
        try:
            if chunk.kind == HEADER:
                self.profile.header = dict(chunk.fields["header"])
            elif chunk.kind == SPANS:
                self._spans(chunk)
            elif chunk.kind == BESIDE:
                self.profile.placements += map(_placement, chunk.fields["placements"])
            elif chunk.kind == READINGS:
                self._readings(chunk)
            elif chunk.kind == REACHED:
                self._reached(chunk.fields)
            elif chunk.kind == END:
                self._end(chunk.fields)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise Damaged(f"a chunk cannot be parsed: {error!r}") from None

    def _spans(self, chunk: Chunk) -> None:
        columns = chunk.columns
        rows = len(columns["start"])
        if any(len(column) != rows for column in columns.values()):
            raise Damaged("the columns of a chunk differ in length")
        lanes = [Lane(str(n), str(k), int(p)) for n, k, p in chunk.fields["lanes"]]
        names = [str(name) for name in chunk.fields["names"]]
        self.profile.lanes += lanes
        self.profile.spans.names += names
        if rows:
            if max(columns["name"]) >= len(self.profile.spans.names):
                raise Damaged("a span has a name that is not in the file")
            if max(columns["lane"]) >= len(self.profile.lanes):
                raise Damaged("a span has a lane that is not in the file")
            if max(columns.get("said", (0,))) > len(chunk.fields.get("said", ())):
                raise Damaged("a span has an attribute that is not in the file")
            if max(columns["label"]) >= len(LABELS):
                raise Damaged("a span has an unknown label")
        before, start = len(self.columns.get("start", ())), columns["start"]
        for row in range(1, rows):
            start[row] += start[row - 1]
        self.last_ns = max(self.last_ns, max(map(_end, start, columns["duration"]), default=0))
        for name in ("name", "number", "parent", "lane", "label", "start", "duration", "bytes",
                     "count"):  # fmt: skip
            self.columns.setdefault(name, array(columns[name].typecode)).extend(columns[name])
        for row_text, about in chunk.fields.get("attributes", {}).items():  # of version 1
            self.attributes[before + int(row_text)] = dict(about)
        said = [dict(about) for about in chunk.fields.get("said", ())]
        for row, place in enumerate(columns.get("said", ()), before):
            if place:
                self.attributes[row] = said[place - 1]

    def _readings(self, chunk: Chunk) -> None:
        if chunk.fields["version"] != READINGS_VERSION:
            if _LATER not in self.profile.notes:
                self.profile.notes.append(_LATER)
            return
        told, times, values = chunk.fields["series"], chunk.columns["time"], chunk.columns["value"]
        if not len(times) == len(values) == sum(count for *_, count in told):
            raise Damaged("readings and their times differ in number")
        rows = zip(accumulate(times), values, strict=True)
        for name, unit, device, count in told:
            new = Series(str(name), str(unit), str(device))
            series = self.series.setdefault((new.name, new.device), new)
            for at, value in islice(rows, count):
                if math.isfinite(value):
                    series.times_ns.append(at)
                    series.values.append(value)

    def _reached(self, fields: dict[str, Any]) -> None:
        profile = self.profile
        profile.wall_ns, profile.cost_ns = int(fields["wall_ns"]), int(fields["cost_ns"])

    def _end(self, fields: dict[str, Any]) -> None:
        profile = self.profile
        self._reached(fields)
        profile.counts = {str(name): int(n) for name, n in fields["counts"].items()}
        profile.notes += map(str, fields["notes"])
        profile.complete = True

    def finish(self) -> Profile:
        """Return the profile, with spans ordered by start and parents first."""
        profile = self.profile
        profile.series = list(self.series.values())
        if not profile.complete:
            profile.wall_ns = max(self.last_ns, profile.wall_ns)
            profile.notes.append(
                "the end of the recording is missing: the program was killed, the disk was full, "
                "or the file was cut"
            )
        if self.columns:
            self._order()
        return profile

    def _order(self) -> None:
        """Add the latest row of each span to the profile, ordered by start."""
        columns, spans = self.columns, self.profile.spans
        number, start, duration = columns["number"], columns["start"], columns["duration"]
        last = {n: row for row, n in enumerate(number)}
        rows = sorted(
            last.values(), key=lambda row: (start[row], number[row] < 0, abs(number[row]))
        )
        place: dict[int, int] = {}
        cut = 0
        for row in rows:
            took = duration[row]
            attributes = self.attributes.get(row)
            if took < 0:
                took = max(self.profile.wall_ns - start[row], 0)
                attributes = {**(attributes or {}), "unfinished": True}
                cut += 1
            parent = place.get(columns["parent"][row], NO_PARENT)
            place[number[row]] = spans.add(
                columns["name"][row], parent, columns["lane"][row], columns["label"][row],
                start[row], took, columns["bytes"][row], columns["count"][row], attributes,
            )  # fmt: skip
        if cut:
            end = "the end of the recording" if self.profile.complete else "the last flush"
            self.profile.notes.append(
                f"{counted(cut, 'span')} had not ended; {end} counts as the end"
            )


def _placement(told: dict[str, Any]) -> Placement:
    predicted = {str(name): float(s) for name, s in told["predicted_seconds"].items()}
    return Placement(
        int(told["at_ns"]), str(told["function"]), str(told["signature"]), str(told["backend"]),
        float(told["seconds"]), int(told["calls"]), predicted, float(told["transfer_seconds"]),
        str(told["reason"]),
    )  # fmt: skip


def _end(start: int, duration: int) -> int:
    return start + max(duration, 0)
