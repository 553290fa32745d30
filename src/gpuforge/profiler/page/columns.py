"""What a page draws, in columns: call paths, spans and readings, as many as a browser can hold.

Where there is more, the small is merged with its like, and a note says what was.
"""

from __future__ import annotations

import base64
import gzip
import heapq
import json
import math
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from gpuforge.profiler.model import LABELS, NO_PARENT, Profile, Series
from gpuforge.profiler.page.text import legible
from gpuforge.profiler.paths import Path
from gpuforge.profiler.timeline import longest
from gpuforge.units import format_seconds

MOST_PATHS = 20_000
MOST_SPANS = 100_000
"""Spans of the timeline. Above it the longest are kept, and the others are merged by call path."""
KEPT_SPANS = 50_000
PARTS = 1000
"""Of the recording's time, within each of which spans are merged."""
MOST_POINTS = 1000
MERGED = "(smaller call paths)"


class Texts:
    """Texts by number, each held once, as `legible` text."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def __call__(self, text: object) -> int:
        return self.places.setdefault(legible(text), len(self.places))


class Row(NamedTuple):
    """A call path of the page and the row of the one above it."""

    path: Path
    above: int


def path_rows(root: Path, limit: int, notes: list[str]) -> tuple[list[Row], dict[int, int]]:
    """Return at most about `limit` call paths, and for the ``id`` of every path its row.

    The largest are kept; the others of each parent become one row, which holds all below them.
    """
    everything = list(root)
    kept = _largest(everything, limit)
    rows: list[Row] = []
    place = {id(root): NO_PARENT}
    merged: dict[int, int] = {}  # by the row above
    made: set[int] = set()
    for path in everything:
        above = place[id(path.parent)]
        if above in made:  # below what is merged, and counted with it
            place[id(path)] = above
        elif id(path) in kept:
            place[id(path)] = len(rows)
            rows.append(Row(path, above))
        else:
            if above not in merged:
                merged[above] = len(rows)
                made.add(len(rows))
                rows.append(Row(Path(MERGED, path.parent, path.lane_kind), above))
            place[id(path)] = merged[above]
            _add(rows[merged[above]].path, path)
    if merged:
        notes.append(
            f"The {len(everything) - len(kept):,} smallest of {len(everything):,} call paths are"
            f" merged: they are shown as “{MERGED}” of the call path above them."
        )
    return rows, place


def _largest(everything: list[Path], limit: int) -> set[int]:
    """Return the ``id`` of the `limit` largest paths, and of those above them."""
    if len(everything) <= limit:
        return {id(path) for path in everything}
    kept: set[int] = set()
    for path in heapq.nlargest(limit, everything, key=lambda path: path.total_ns):
        step: Path | None = path
        while step is not None and step.parent is not None and id(step) not in kept:
            kept.add(id(step))
            step = step.parent
    return kept


def _add(merged: Path, path: Path) -> None:
    """Add `path`, with all below it, to a row of merged ones."""
    merged.count += path.count
    merged.total_ns += path.total_ns
    merged.own_ns += sum(path.label_ns)
    merged.bytes += path.bytes
    merged.errors += path.errors
    for label, value in enumerate(path.label_ns):
        merged.own_label_ns[label] += value


def path_columns(rows: list[Row], profile: Profile, texts: Texts) -> dict[str, list[Any]]:
    """Return the columns of call paths; ``up`` is how many rows before it the one above stands."""
    attributes = [profile.spans.attributes.get(path.sample, {}) for path, _ in rows]
    return {
        "name": [texts(path.name) for path, _ in rows],
        "up": [0 if above == NO_PARENT else row - above for row, (_, above) in enumerate(rows)],
        "device": [int(path.lane_kind == "device") for path, _ in rows],
        "where": [texts(place(said)) for said in attributes],
        "said": [texts(_said(said)) for said in attributes],
        **figures([path for path, _ in rows]),
    }


def figures(found: list[Path]) -> dict[str, list[Any]]:
    """Return what was measured of call paths; ``own0`` to ``own4`` are own times by label."""
    return {
        "count": [path.count for path in found],
        "total": [path.total_ns for path in found],
        "bytes": [path.bytes for path in found],
        "errors": [path.errors for path in found],
        **{f"own{n}": [path.own_label_ns[n] for path in found] for n in range(len(LABELS))},
    }


def place(said: dict[str, Any]) -> str:
    """Return ``file:line`` of a span's attributes; empty where they do not say."""
    line = f":{said['line']}" if said.get("line") else ""
    return f"{said['file']}{line}" if said.get("file") else ""


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
    count: int


def span_columns(
    profile: Profile, rows: list[Row], row_of: Callable[[int], int], notes: list[str]
) -> dict[str, list[int]]:
    """Return the spans of the timeline by lane; ``gap`` is the time since the last one's start.

    `row_of` gives for the place of a span the row of its call path.
    """
    spans = profile.spans

    def bar(at: int) -> Bar:
        return Bar(
            spans.lane[at], spans.start[at], spans.duration[at], row_of(at), spans.label[at],
            spans.bytes[at], spans.count[at],
        )  # fmt: skip

    if len(spans) <= MOST_SPANS:
        bars = [bar(at) for at in range(len(spans))]
    else:
        kept = set(longest(spans, KEPT_SPANS))
        bars = [bar(at) for at in kept]
        others = (bar(at) for at in range(len(spans)) if at not in kept)
        bars += _merged(others, profile, rows, notes)
    bars.sort(key=lambda bar: (bar.lane, bar.start, -bar.duration))
    found: dict[str, list[int]] = {name: [] for name in ("gap", *Bar._fields[2:])}
    found["size"] = [0] * len(profile.lanes)
    last, lane = 0, -1
    for each in bars:
        if each.lane != lane:
            last, lane = 0, each.lane
        found["size"][lane] += 1
        found["gap"].append(each.start - last)
        last = each.start
        for name in Bar._fields[2:]:
            found[name].append(getattr(each, name))
    return found


def _merged(
    bars: Iterable[Bar], profile: Profile, rows: list[Row], notes: list[str]
) -> Iterator[Bar]:
    """Merge spans of one call path, lane and part of the time; those of a part follow each other."""
    part_ns = max(profile.wall_ns, 1) / PARTS
    sums: dict[tuple[int, int, int], Bar] = {}
    number = 0
    for number, bar in enumerate(bars, 1):
        key = int(bar.start / part_ns), bar.lane, bar.path
        known = sums.get(key)
        sums[key] = bar if known is None else known._replace(
            start=min(known.start, bar.start), duration=known.duration + bar.duration,
            bytes=known.bytes + bar.bytes, count=known.count + bar.count,
        )  # fmt: skip
    depth: list[int] = []
    for _, above in rows:
        depth.append(0 if above == NO_PARENT else depth[above] + 1)
    ends: dict[tuple[int, int, int], int] = {}
    shown = heapq.nlargest(MOST_SPANS - KEPT_SPANS, sums, key=lambda key: sums[key].duration)
    for key in sorted(shown, key=lambda key: sums[key].start):
        bar, row = sums[key], (*key[:2], depth[key[2]])
        start = max(bar.start, ends.get(row, 0))
        ends[row] = start + bar.duration
        yield bar._replace(start=start)
    left = sum(bar.count for bar in sums.values()) - sum(sums[key].count for key in shown)
    notes.append(
        f"The timeline has {KEPT_SPANS:,} spans as they were, the longest. The {number:,} others"
        f" are merged by call path in each {format_seconds(part_ns * 1e-9)} of the recording"
        + (f", of which the {left:,} shortest are left out." if left else ".")
        + " The flame graph and its table count all of them."
    )


def series_columns(series: Series, notes: list[str]) -> dict[str, Any]:
    """Return the readings of a series, at most `MOST_POINTS`, with its lowest and highest ones."""
    points = [
        (time, value)
        for time, value in zip(series.times_ns, series.values, strict=True)
        if math.isfinite(value)
    ]
    if len(points) > MOST_POINTS:
        size = math.ceil(2 * len(points) / MOST_POINTS)
        parts = [points[at : at + size] for at in range(0, len(points), size)]
        notes.append(
            f"Of {len(points):,} readings of {legible(series.name)} ({legible(series.device)}) the"
            f" lowest and the highest of each {size} are shown."
        )
        points = [
            point
            for part in parts
            for point in sorted({min(part, key=itemgetter(1)), max(part, key=itemgetter(1))})
        ]
    return {
        "name": legible(series.name), "unit": legible(series.unit),
        "device": legible(series.device),
        "time": [time for time, _ in points], "value": [value for _, value in points],
    }  # fmt: skip


def pack(columns: dict[str, Any]) -> str:
    """Return `columns` as JSON, compressed, in base64: safe inside of any element."""
    text = json.dumps(columns, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
