"""The data of a page in columns: call paths, spans and readings, as many as a browser can handle.

Beyond that, small items are merged with similar ones, and a note says so.
"""

from __future__ import annotations

import base64
import gzip
import heapq
import json
import math
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, NamedTuple

from gpuforge.profiler import names
from gpuforge.profiler.model import LABELS, NO_PARENT, Profile, Series
from gpuforge.profiler.paths import Path, largest
from gpuforge.profiler.summary import where_written
from gpuforge.profiler.timeline import longest
from gpuforge.units import format_ns

MOST_PATHS = 20_000
MOST_SPANS = 100_000
"""Most spans in the timeline. Of more, the longest are kept and the others merged by call path."""
KEPT_SPANS = 50_000
EXACT_SPANS = 20_000
"""With more spans, the timeline has a coarser resolution than nanoseconds, which saves two of the
eight bytes of a span."""
MOST_PARTS = 1000
"""Number of equal parts of the recording within which spans of a call path are merged."""
MOST_POINTS = 1000
LONGEST_NAME = 300
MERGED = "(smaller call paths)"


class Texts:
    """A table of texts, each stored once and referred to by number."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def __call__(self, text: object) -> int:
        return self.places.setdefault(names.line(text, LONGEST_NAME), len(self.places))


class Row(NamedTuple):
    """A call path of the page and the row of its parent."""

    path: Path
    above: int


def path_rows(root: Path, notes: list[str]) -> tuple[list[Row], dict[int, int]]:
    """Return at most about `MOST_PATHS` call paths, and the row of every path by its ``id``.

    The largest are kept; the others of each parent are merged into one row, with all paths below.
    """
    everything, kept = list(root), {id(path) for path in largest(root, MOST_PATHS)}
    rows: list[Row] = []
    place = {id(root): NO_PARENT}
    merged: dict[int, int] = {}  # by the row above
    made: set[int] = set()
    for path in everything:
        above = place[id(path.parent)]
        if id(path) in kept:
            place[id(path)] = len(rows)
            rows.append(Row(path, above))
            continue
        if above in made:
            place[id(path)] = above
        else:
            if above not in merged:
                merged[above] = len(rows)
                made.add(len(rows))
                rows.append(Row(Path(MERGED, path.parent, path.lane_kind), above))
            place[id(path)] = merged[above]
        add(rows[place[id(path)]].path, path)
    if merged:
        notes.append(
            f"The {len(everything) - len(kept):,} smallest of {len(everything):,} call paths are"
            f" merged: they are shown as “{MERGED}” of the call path above them."
        )
    return rows, place


def add(sums: Path, path: Path) -> None:
    """Add the own figures of `path`, without those of its children, to `sums`."""
    sums.count += path.count
    sums.own_ns += path.own_ns
    sums.bytes += _own_bytes(path)
    sums.errors += path.errors
    for label, value in enumerate(path.own_label_ns):
        sums.own_label_ns[label] += value


def _own_bytes(path: Path) -> int:
    return path.bytes - sum(below.bytes for below in path.children.values())


def path_columns(rows: list[Row], said: list[dict[str, Any]], texts: Texts) -> dict[str, list[Any]]:
    """Return the columns that describe call paths; ``up`` is the distance in rows to the parent.

    `said` contains the attributes of a span of each path.
    """
    return {
        "name": [texts(path.name) for path, _ in rows],
        "up": [0 if above == NO_PARENT else row - above for row, (_, above) in enumerate(rows)],
        "device": [int(path.lane_kind == "device") for path, _ in rows],
        "where": [texts(_where(each)) for each in said],
        "said": [texts(_said(each)) for each in said],
    }


def figures(found: list[Path]) -> dict[str, list[int]]:
    """Return the own figures of each path; ``own0`` to ``own4`` are its times by label."""
    return {
        "count": [path.count for path in found],
        "bytes": [_own_bytes(path) for path in found],
        "errors": [path.errors for path in found],
        **{f"own{n}": [path.own_label_ns[n] for path in found] for n in range(len(LABELS))},
    }


def _where(said: dict[str, Any]) -> str:
    file, line = where_written(said)
    return f"{file}:{line}" if file else ""


def _said(said: dict[str, Any]) -> str:
    known = {"file", "line"}
    return ", ".join(f"{key} {value}" for key, value in said.items() if key not in known)


class Bar(NamedTuple):
    """A span of the timeline, or several merged ones."""

    lane: int
    start: int
    duration: int
    path: int
    label: int
    bytes: int
    spans: int


_ADDED = [Bar._fields.index(name) for name in ("duration", "bytes", "spans")]


def span_columns(
    profile: Profile, rows: list[Row], row_of_span: list[int], notes: list[str]
) -> dict[str, Any]:
    """Return the spans of the timeline by lane, with their times in units of ``unit`` nanoseconds.

    ``gap`` is the time since the previous span's start; ``size``, the number of spans per lane.
    """
    spans = profile.spans
    everything = map(Bar._make, zip(
        spans.lane, spans.start, spans.duration, row_of_span, spans.label, spans.bytes, spans.count,
        strict=True,
    ))  # fmt: skip
    few = len(spans) <= MOST_SPANS
    bars = list(everything) if few else _bounded(everything, profile, rows, notes)
    unit = 1 if len(spans) <= EXACT_SPANS else 100
    if unit > 1:
        notes.append(f"Times of the timeline are in steps of {unit} ns.")
    bars.sort(key=itemgetter(0, 1))  # stable: of equal starts, parents stay first
    size, gaps, durations = [0] * len(profile.lanes), [], []
    last, lane = 0, -1
    for bar in bars:
        start = bar.start // unit
        gaps.append(start if bar.lane != lane else start - last)
        durations.append((bar.start + bar.duration) // unit - start)
        last, lane = start, bar.lane
        size[lane] += 1
    columns = {name: [getattr(bar, name) for bar in bars] for name in Bar._fields[3:]}
    return {"unit": unit, "size": size, "gap": gaps, "duration": durations, **columns}


def _bounded(
    everything: Iterable[Bar], profile: Profile, rows: list[Row], notes: list[str]
) -> list[Bar]:
    """Return the longest spans, and the others merged by part of the time, lane and call path."""
    kept = set(longest(profile.spans, KEPT_SPANS))
    parts = min(max((MOST_SPANS - KEPT_SPANS) // len(rows), 50), MOST_PARTS)
    part_ns = max(profile.wall_ns, 1) / parts
    bars: list[Bar] = []
    sums: dict[tuple[int, int, int], list[int]] = {}
    for at, bar in enumerate(everything):
        if at in kept:
            bars.append(bar)
            continue
        key = int(bar.start / part_ns), bar.lane, bar.path
        known = sums.get(key)
        if known is None:
            sums[key] = [*bar]
        else:
            for field in _ADDED:
                known[field] += bar[field]
    merged = heapq.nlargest(MOST_SPANS - KEPT_SPANS, map(Bar._make, sums.values()), itemgetter(2))
    number = len(profile.spans) - len(bars)
    left = len(sums) - len(merged)
    notes.append(
        f"The timeline has the {len(bars):,} longest spans individually. The {number:,} others are"
        f" merged by call path in each {format_ns(part_ns)} of the recording"
        + (f", and the {left:,} shortest of these are omitted." if left else ".")
        + " The flame graph and its table count all spans."
    )
    return bars + _one_after_another(merged, rows, part_ns)


def _one_after_another(merged: list[Bar], rows: list[Row], part_ns: float) -> list[Bar]:
    """Place the merged spans of one part, lane and depth one after the other."""
    depth: list[int] = []
    for _, above in rows:
        depth.append(0 if above == NO_PARENT else depth[above] + 1)
    ends: dict[tuple[int, int, int], int] = {}
    found = []
    for bar in sorted(merged, key=itemgetter(1)):
        key = int(bar.start / part_ns), bar.lane, depth[bar.path]
        start = max(bar.start, ends.get(key, 0))
        ends[key] = start + bar.duration
        found.append(bar._replace(start=start))
    return found


def series_columns(series: Series, notes: list[str]) -> dict[str, Any]:
    """Return at most `MOST_POINTS` readings of a series, keeping local minima and maxima."""
    points = [
        (time, value)
        for time, value in zip(series.times_ns, series.values, strict=True)
        if math.isfinite(value)
    ]
    if len(points) > MOST_POINTS:
        size = math.ceil(2 * len(points) / MOST_POINTS)
        parts = [points[at : at + size] for at in range(0, len(points), size)]
        notes.append(
            f"Of the {len(points):,} readings of {names.line(series.name)} on"
            f" {names.line(series.device)}, only the lowest and highest of each {size} are shown."
        )
        points = [
            point
            for part in parts
            for point in sorted({min(part, key=itemgetter(1)), max(part, key=itemgetter(1))})
        ]
    return {
        "name": names.line(series.name), "unit": names.line(series.unit),
        "device": names.line(series.device),
        "time": [time for time, _ in points], "value": [value for _, value in points],
    }  # fmt: skip


def pack(columns: dict[str, Any]) -> str:
    """Return `columns` as compressed JSON in base64, which is safe inside any element."""
    text = json.dumps(columns, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
