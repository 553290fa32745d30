"""The tables of a report, which the text and Markdown formats lay out."""

from __future__ import annotations

from pathlib import PurePath
from statistics import fmean

from gpuforge.profiler import names
from gpuforge.profiler.advise import Suggestion, suggestions
from gpuforge.profiler.breakdown import Breakdown, breakdown
from gpuforge.profiler.feeds import feeds
from gpuforge.profiler.model import DEVICE, LABELS, Profile
from gpuforge.profiler.peaks import MOST_BYTES, peaks
from gpuforge.profiler.rates import told
from gpuforge.profiler.regret import lost_told, regrets
from gpuforge.profiler.summary import bottlenecks
from gpuforge.profiler.tables import Table, percent, reading
from gpuforge.profiler.transfers import peaks_told, transfers
from gpuforge.units import format_bytes, format_ns, format_seconds


def advice(profile: Profile) -> list[Suggestion]:
    """Return the suggestions; if a rule fails, return a single one that says so.

    A report must not fail because of a rule that cannot handle an unusual profile.
    """
    try:
        return suggestions(profile)
    except Exception as error:  # noqa: BLE001 - the report says it
        return [Suggestion("", f"the rules could not be run: {type(error).__name__}: {error}")]


def sections(profile: Profile, shown: int) -> list[Table]:
    """Return the non-empty tables of a report, with about `shown` rows, most important first."""
    parts = sorted(breakdown(profile), key=lambda part: -part.wall_ns)
    threads = [part for part in parts if profile.lanes[part.lane].kind == "thread"]
    queues = [part for part in parts if profile.lanes[part.lane].kind == "device"]
    found = (
        _bottlenecks(profile, shown), _threads(profile, threads, shown),
        _queues(profile, queues, shown), _transfers(profile, shown), _rates(profile, shown),
        _placements(profile, shown), _peaks(profile, shown), _readings(profile, shown),
        _feeds(profile, shown),
    )  # fmt: skip
    return [table for table in found if table.rows]


def _time(ns: float) -> str:
    return format_ns(ns) if ns else "-"


def _bytes(count: int) -> str:
    return format_bytes(count) if count else "-"


def _threads(profile: Profile, parts: list[Breakdown], shown: int) -> Table:
    rows = [
        (
            profile.lanes[part.lane].name,
            *map(_time, (part.wall_ns, *part.label_ns[:DEVICE], part.unexplained_ns)),
        )
        for part in parts[:shown]
    ]
    heading = ("thread", "wall", *LABELS[:DEVICE], "unexplained")
    said = f"Each from its first to its last span.{_of(len(parts), shown)}"
    return Table("Threads", heading, rows, said=said)


def _of(count: int, shown: int) -> str:
    return f" The {shown} longest of {count:,}." if count > shown else ""


def _queues(profile: Profile, parts: list[Breakdown], shown: int) -> Table:
    wall = max(profile.wall_ns, 1)
    rows = [
        (profile.lanes[p.lane].name, _time(p.label_ns[DEVICE]), percent(p.label_ns[DEVICE] / wall))
        for p in parts[:shown]
    ]
    said = _of(len(parts), shown).strip()
    return Table("Devices", ("device queue", "busy", "of wall"), rows, said=said)


def _bottlenecks(profile: Profile, shown: int) -> Table:
    rows = [
        (
            names.path(one.path[-12:]),
            format_seconds(one.seconds),
            percent(one.share),
            one.label,
            f"{one.count:,}" + (f" ({one.errors:,} failed)" if one.errors else ""),
            f"{PurePath(one.file).name}:{one.line}" if one.file else "",
        )
        for one in bottlenecks(profile, shown)
    ]
    heading = ("step", "time", "of wall", "mostly", "spans", "written in")
    return Table("Steps that took the most time", heading, rows, (0, 3, 5),
                 "Times exclude the steps inside a step.")  # fmt: skip


def _transfers(profile: Profile, shown: int) -> Table:
    found = transfers(profile)
    rows = [
        (
            one.way or "not known",
            f"{one.count:,}",
            format_bytes(one.bytes),
            format_seconds(one.seconds),
            one.speed,
            one.of_peak,
        )
        for one in found[:shown]
    ]
    heading = ("direction", "count", "bytes", "time", "speed", "of the link's peak")
    return Table("Transfers", heading, rows, said=peaks_told(found[:shown]))


def _rates(profile: Profile, shown: int) -> Table:
    rows = told(profile)[:shown]
    return Table("Peaks", ("backend", "of", "at most", "source"), rows, (0, 1, 3))


def _readings(profile: Profile, shown: int) -> Table:
    rows = [
        (
            f"{one.device}: {one.name}",
            *(reading(value, one.unit) for value in (min(known), fmean(known), max(known))),
            f"{len(known):,}",
        )
        for one in profile.series
        if one.name != "memory" and (known := [v for v in one.values if abs(v) < MOST_BYTES])
    ]
    said = "Clocks, temperatures and load, about once a second."
    heading = ("reading", "lowest", "mean", "highest", "readings")
    return Table("Machine", heading, rows[: 2 * shown], said=said)


def _placements(profile: Profile, shown: int) -> Table:
    found = regrets(profile)
    rows = [
        (
            f"{one.placement.function.removeprefix('__main__.')} {one.placement.signature}",
            one.placement.backend,
            f"{one.placement.calls:,}",
            format_seconds(one.placement.seconds / one.placement.calls),
            "-" if one.predicted_seconds is None else format_seconds(one.predicted_seconds),
            one.best + ("" if one.measured else "*"),
            _time(round(one.lost_seconds * 1e9)),
        )
        for one in found[:shown]
    ]
    said = lost_told(found)
    alone = sum(one.placement.calls for one in found if one.alone)
    if alone:
        said += f" For {alone:,} of the calls, no other backend has been measured."
    if not all(one.measured for one in found[:shown]):
        said += " The time of a backend with * is predicted."
    heading = ("call", "ran on", "calls", "each", "predicted", "best", "lost")
    return Table("Placements", heading, rows, (0, 1, 5), said)


def _peaks(profile: Profile, shown: int) -> Table:
    rows = [
        (names.path(one.path[-12:]) or f"whole run: {one.what}", one.where, format_bytes(one.bytes))
        for one in peaks(profile, shown)
    ]
    return Table("Memory peaks", ("during", "on", "bytes"), rows, (0, 1))


def _feeds(profile: Profile, shown: int) -> Table:
    found = feeds(profile, shown)
    rows = [
        (one.first, one.then, f"{one.times:,}", _bytes(one.passed), _bytes(one.moved))
        for one in found
    ]
    said = ""
    if any(one.passed for one in found):
        said = "Passed: arrays that the first step returned and the second was given. "
    if not all(one.passed for one in found):
        said += (
            "If none were passed, only the order suggests that the second step uses the result "
            "of the first; bytes moved in between make that likely. "
        )
    merged = sum(count for count in profile.spans.count if count > 1)
    if merged:
        said += f"{merged:,} spans were merged and are left out, as their order is not known."
    heading = ("first", "then", "times", "passed", "moved between")
    return Table("Data flow between operations", heading, rows, (0, 1), said.strip())
