"""The format of speedscope.app: a profile for each thread and device queue, and one of its bytes.

Of more than `MOST_SPANS` spans only the longest and their ancestors are written; the file's name
field says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuforge import __version__
from gpuforge.profiler import json_text, names
from gpuforge.profiler.model import Profile, Spans
from gpuforge.profiler.summary import where_written
from gpuforge.profiler.timeline import Bar, Row, longest, row_names, rows

SUMMARY = "for speedscope.app: flame graphs of threads, device queues and bytes"
SUFFIX = ".speedscope.json"

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
MOST_SPANS = 200_000


class Frames:
    """The table of frames that all profiles share, by the name of a span and its source line."""

    def __init__(self, spans: Spans) -> None:
        self.spans = spans
        self.rows: list[dict[str, Any]] = []
        self._places: dict[tuple[int, str, int], int] = {}

    def place(self, span: int) -> int:
        """Return the index of a span's frame, adding it if it is new."""
        name = self.spans.name[span]
        file, number = where_written(self.spans.attributes.get(span, {}))
        place = self._places.setdefault((name, file, number), len(self.rows))
        if place == len(self.rows):
            row: dict[str, Any] = {"name": names.text(self.spans.names[name])}
            self.rows.append(row | ({"file": names.text(file), "line": number} if file else {}))
        return place


def render(profile: Profile) -> str:
    """Return the file as JSON."""
    spans = profile.spans
    found = rows(spans, longest(spans, MOST_SPANS))
    frames = Frames(spans)
    profiles = []
    for name, row in zip(row_names(profile, found), found, strict=True):
        profiles.append(_timed(name, row, frames))
        if any(spans.bytes[bar.span] > 0 for bar in row.bars):
            profiles.append(_moved(f"{name}: bytes", row, frames))
    shown = sum(len(row.bars) for row in found)
    part = f" ({shown:,} of {len(spans):,} spans)" if shown < len(spans) else ""
    return json_text.dump(
        {
            "$schema": SCHEMA,
            "name": names.line(profile.program) + part,
            "exporter": f"gpuforge@{__version__}",
            "activeProfileIndex": 0,
            "shared": {"frames": frames.rows},
            "profiles": profiles,
        }
    )


def _steps(row: Row) -> Iterator[tuple[str, Bar]]:
    """Yield the opening (``O``) and closing (``C``) of each span, in order and balanced."""
    opened: list[Bar] = []
    for bar in row.bars:
        while opened and opened[-1].end_ns <= bar.start_ns:
            yield "C", opened.pop()
        opened.append(bar)
        yield "O", bar
    while opened:
        yield "C", opened.pop()


def _timed(name: str, row: Row, frames: Frames) -> dict[str, Any]:
    events: list[dict[str, Any]] = [
        {"type": kind, "frame": frames.place(bar.span),
         "at": bar.start_ns if kind == "O" else bar.end_ns}
        for kind, bar in _steps(row)
    ]  # fmt: skip
    return _profile(name, "nanoseconds", events, events[0]["at"])


def _moved(name: str, row: Row, frames: Frames) -> dict[str, Any]:
    """Return the same calls on an axis of moved bytes instead of time."""
    events: list[dict[str, Any]] = []
    at = 0
    for kind, bar in _steps(row):
        events.append({"type": kind, "frame": frames.place(bar.span), "at": at})
        if kind == "O":
            at += max(frames.spans.bytes[bar.span], 0)
    return _profile(name, "bytes", events, 0)


def _profile(name: str, unit: str, events: list[dict[str, Any]], start: int) -> dict[str, Any]:
    return {
        "type": "evented",
        "name": name,
        "unit": unit,
        "startValue": start,
        "endValue": events[-1]["at"],
        "events": events,
    }
