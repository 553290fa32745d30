"""What a reader at a terminal wants to know, the most important first, in 80 columns."""

from __future__ import annotations

import heapq
import textwrap
from collections.abc import Iterator

from gpuforge.profiler import names
from gpuforge.profiler.advise import Suggestion, suggestions
from gpuforge.profiler.breakdown import Breakdown, breakdown
from gpuforge.profiler.model import DEVICE, LABELS, Profile
from gpuforge.profiler.peaks import peaks, span_peaks
from gpuforge.profiler.regret import lost_share, regrets
from gpuforge.profiler.summary import bottlenecks, first_line, ran, recording
from gpuforge.profiler.tables import WIDTH, aligned, percent
from gpuforge.profiler.transfers import transfers
from gpuforge.units import format_bytes, format_seconds

SUMMARY = "for the terminal: where the time went, and what to change"
SUFFIX = ".txt"

SHOWN = 10
"""Rows of each table."""


def render(profile: Profile) -> str:
    """Return the report."""
    parts = breakdown(profile)
    lines = [first_line(profile, parts)]
    for text in [ran(profile), *recording(profile, parts)]:
        lines += _wrapped(text)
    for part in (
        _threads(profile, parts), _devices(profile, parts), _bottlenecks(profile),
        _transfers(profile), _placements(profile), _memory(profile), _suggestions(profile),
    ):  # fmt: skip
        found = list(part)
        lines += ["", *found] if found else []
    return "\n".join(lines)


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        names.line(text), WIDTH, initial_indent=indent, subsequent_indent=indent or "  "
    )


def _time(ns: float) -> str:
    return format_seconds(ns / 1e9) if ns else "-"


def _largest(parts: list[Breakdown], what: str) -> tuple[list[Breakdown], list[str]]:
    """Return the parts to show, and a line about those that are not."""
    left = len(parts) - SHOWN
    shown = heapq.nlargest(SHOWN, parts, key=lambda part: part.wall_ns)
    return shown, [f"... and {left:,} more {what}"] if left > 0 else []


def _threads(profile: Profile, parts: list[Breakdown]) -> Iterator[str]:
    found = [part for part in parts if profile.lanes[part.lane].kind == "thread"]
    shown, rest = _largest(found, "threads")
    if shown:
        rows = [
            (
                names.line(profile.lanes[part.lane].name, 18),
                *map(_time, (part.wall_ns, *part.label_ns[:DEVICE], part.unexplained_ns)),
            )
            for part in shown
        ]
        yield from aligned(("thread", "wall", *LABELS[:DEVICE], "unexplained"), rows)
        yield from rest


def _devices(profile: Profile, parts: list[Breakdown]) -> Iterator[str]:
    found = [part for part in parts if profile.lanes[part.lane].kind == "device"]
    shown, rest = _largest(found, "queues")
    if shown:
        wall = max(profile.wall_ns, 1)
        rows = [
            (
                names.line(profile.lanes[part.lane].name, 50),
                _time(part.label_ns[DEVICE]),
                percent(part.label_ns[DEVICE] / wall),
            )
            for part in shown
        ]
        yield from aligned(("device queue", "busy", "of wall"), rows)
        yield from rest


def _bottlenecks(profile: Profile) -> Iterator[str]:
    found = bottlenecks(profile, SHOWN)
    if not found:
        return
    rows = [
        (format_seconds(one.seconds), percent(one.share), one.label, f"{one.count:,}",
         names.path(one.path, 40))
        for one in found
    ]  # fmt: skip
    yield "What took the most time itself, without what is inside it:"
    yield from aligned(("time", "of wall", "mostly", "spans", "where"), rows, left=(2, 4))


def _transfers(profile: Profile) -> Iterator[str]:
    found = transfers(profile)[:SHOWN]
    if not found:
        return
    rows = []
    for one in found:
        speed, peak = one.bytes_per_second, one.peak_bytes_per_second
        rows.append(
            (
                names.line(f"{one.direction} {one.backend}".strip() or "not known", 30),
                f"{one.count:,}",
                format_bytes(one.bytes),
                format_seconds(one.seconds),
                f"{format_bytes(round(speed))}/s" if speed else "-",
                percent(speed / peak) if speed and peak else "-",
            )
        )
    yield from aligned(("transfers", "count", "bytes", "time", "speed", "of peak"), rows)


def _placements(profile: Profile) -> Iterator[str]:
    found = regrets(profile)
    share = lost_share(found)
    if share is None:
        return
    lost = sum(regret.lost_seconds for regret in found)
    took = sum(regret.placement.seconds for regret in found)
    yield from _wrapped(
        f"Placed calls took {format_seconds(took)}. You lost {percent(share)} of it "
        f"({format_seconds(lost)}) against the oracle: the best backend known for each call."
    )
    rows = [
        (
            format_seconds(regret.lost_seconds),
            format_seconds(regret.placement.seconds),
            f"{regret.placement.calls:,}",
            names.line(regret.placement.backend, 13),
            names.line(regret.best, 13) + ("" if regret.measured else " (predicted)"),
            names.line(regret.placement.function, 40),
        )
        for regret in found[:SHOWN]
    ]
    heading = ("lost", "took", "calls", "ran on", "best", "function")
    yield from aligned(heading, rows, left=(3, 4, 5))


def _memory(profile: Profile) -> Iterator[str]:
    for peak in peaks(profile)[:SHOWN]:
        yield from _wrapped(
            f"Peak of {peak.name} on {peak.device}: {format_bytes(peak.bytes)}, "
            f"{format_seconds(peak.at_ns / 1e9)} after the start"
        )
    for span in span_peaks(profile, SHOWN):
        on = f" on {span.backend}" if span.backend else ""
        yield from _wrapped(f"Peak in {names.path(span.path, 60)}: {format_bytes(span.bytes)}{on}")


def _suggestions(profile: Profile) -> Iterator[str]:
    for number, one in enumerate(suggestions(profile), 1):
        yield from _suggestion(number, one)


def _suggestion(number: int, one: Suggestion) -> Iterator[str]:
    bound = f"{format_seconds(one.bound_seconds)}, {percent(one.bound_share)} of the wall time"
    gain = f" (at most {bound})" if one.bound_seconds else ""
    yield from _wrapped(f"{number}. {one.title}{gain}")
    if one.file:
        yield from _wrapped(f"{one.file}:{one.line}", "   ")
    for text in one.evidence:
        yield from _wrapped(f"- {text}", "   ")
    if one.advice:
        yield from _wrapped(one.advice, "   ")
    if one.check_command:
        yield from _wrapped(f"check: {one.check_command}", "   ")
