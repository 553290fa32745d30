"""A dated analysis for a pull request: scope, findings with evidence, source lines, what to change.

It is written to ``docs/analysis/<program>-YYYY-MM-DD.md`` unless another file is named, and never
over one that is there: somebody may have added to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path, PurePath

from gpuforge.profiler import names
from gpuforge.profiler.advise import Suggestion, suggestions
from gpuforge.profiler.breakdown import breakdown
from gpuforge.profiler.feeds import feeds
from gpuforge.profiler.model import LABELS, Profile
from gpuforge.profiler.regret import lost_share, regrets
from gpuforge.profiler.sources import source
from gpuforge.profiler.summary import bottlenecks, first_line, recording, started
from gpuforge.profiler.tables import markdown as table
from gpuforge.profiler.tables import percent
from gpuforge.profiler.transfers import transfers
from gpuforge.units import format_bytes, format_seconds

SUMMARY = "a dated analysis for a pull request, by default in docs/analysis"
SUFFIX = ".md"

SHOWN = 15
"""Rows of each table."""
SHOWN_SOURCES = 3
HIGH_SHARE, MEDIUM_SHARE = 0.2, 0.1
"""Of the wall time: what could gain as much has this priority."""


def default_path(profile: Profile) -> Path:
    """Return where the analysis is written unless another file is named."""
    name = re.sub(r"[^\w.-]+", "-", PurePath(_program(profile)).stem).strip(".-")[:60]
    return Path("docs", "analysis", f"{name or 'program'}-{_date(profile)}.md")


def render(profile: Profile) -> str:
    """Return the analysis."""
    lines = [f"# Analysis of {code(_program(profile))}, {_date(profile)}", ""]
    lines += [f"**{first_line(profile)}**", ""]
    for title, part in (
        ("Scope", _scope(profile)),
        ("Findings", _findings(profile)),
        ("Where the time went", _lanes(profile)),
        ("What took the most time", _bottlenecks(profile)),
        ("Placements", _placements(profile)),
        ("Transfers", _transfers(profile)),
        ("Which operation feeds which", _feeds(profile)),
    ):
        found = list(part)
        lines += [f"## {title}", "", *found] if found else []
    return "\n".join(lines).rstrip()


def code(text: object, longest: int = 120) -> str:
    """Return `text` so that Markdown shows it as it is, in a table as well."""
    found = names.line(text, longest).replace("`", "'").replace("|", "¦").strip()
    return f"`{found}`" if found else ""


def plain(text: object) -> str:
    """Return `text` as a line in which nothing is markup."""
    return re.sub(r"([\\`*_\[\]<>|#~!])", r"\\\1", names.line(text))


def _program(profile: Profile) -> str:
    """Return the script or module of the command line."""
    words = profile.header.get("program")
    command = list(map(str, words)) if isinstance(words, list | tuple) else []
    after = command.index("-m") + 1 if "-m" in command[:-1] else -1
    scripts = [word for word in command if word.endswith((".py", ".pyw"))]
    return command[after] if after > 0 else next(iter(scripts or command), "") or "program"


def _date(profile: Profile) -> str:
    return (started(profile) or datetime.now()).strftime("%Y-%m-%d")


def _scope(profile: Profile) -> Iterator[str]:
    header, began = profile.header, started(profile)
    rows = [("Command", code(profile.program))]
    if began:
        rows.append(("Recorded", began.strftime("%Y-%m-%d %H:%M")))
    for title, key in (("gpuforge", "gpuforge"), ("Python", "python"), ("System", "platform")):
        rows.append((title, code(header[key])) if header.get(key) else (title, "not known"))
    versions = header.get("versions")
    if isinstance(versions, dict):
        rows += [(plain(library), code(version)) for library, version in versions.items()]
    yield from table(("", ""), rows, left=(0, 1))
    for text in recording(profile):
        yield f"- {plain(text)}"
    unknown = header.get("unknown")
    for name, reason in unknown.items() if isinstance(unknown, dict) else ():
        yield f"- not known: {plain(name)}: {plain(reason)}"
    yield ""


def _findings(profile: Profile) -> Iterator[str]:
    found = suggestions(profile)
    if not found:
        yield "No rule found a change that could gain 3 % of the wall time or more."
        yield ""
        return
    rows = [
        (str(number), _priority(one), plain(one.title), format_seconds(one.bound_seconds),
         percent(one.bound_share), code(_where(one.file, one.line)))
        for number, one in enumerate(found, 1)
    ]  # fmt: skip
    yield from table(("#", "priority", "finding", "at most", "of wall", "where"), rows,
                     left=(1, 2, 5))  # fmt: skip
    for number, one in enumerate(found, 1):
        yield from _finding(profile, number, one)


def _finding(profile: Profile, number: int, one: Suggestion) -> Iterator[str]:
    yield f"### {number}. {plain(one.title)}"
    yield ""
    yield (
        f"Priority: {_priority(one)}. It could gain at most {format_seconds(one.bound_seconds)} "
        f"({percent(one.bound_share)} of the wall time); a bound, not a promise. Rule: "
        f"{code(one.rule)}."
    )
    yield ""
    yield from (f"- {plain(text)}" for text in one.evidence)
    yield ""
    if one.file:
        yield from _source(profile, one.file, one.line)
    if one.advice:
        yield f"Change: {plain(one.advice)}"
        yield ""
    if one.check_command:
        yield f"Check: {code(one.check_command)}"
        yield ""


def _priority(one: Suggestion) -> str:
    share = one.bound_share
    return "high" if share >= HIGH_SHARE else "medium" if share >= MEDIUM_SHARE else "low"


def _where(file: str, line: int) -> str:
    return f"{file}:{line}" if file else ""


def _source(profile: Profile, file: str, line: int) -> Iterator[str]:
    """Return the lines of the user's code around one, marked by ``>``."""
    found = source(profile, file, line)
    if found.absent:
        yield f"Now: {code(_where(file, line))}; {found.absent}"
        yield ""
        return
    changed = "; the file was changed since the recording" if found.changed else ""
    fence = "```"
    while any(fence in text for _, text in found.lines):
        fence += "`"
    width = len(str(found.lines[-1][0]))
    yield f"Now: {code(_where(file, line))}{changed}"
    yield ""
    yield f"{fence}text"
    for number, text in found.lines:
        yield f"{'>' if number == line else ' '} {number:>{width}}  {names.line(text)}"
    yield fence
    yield ""


def _lanes(profile: Profile) -> Iterator[str]:
    parts = sorted(breakdown(profile), key=lambda part: -part.wall_ns)
    rows = [
        (
            code(profile.lanes[part.lane].name),
            *(format_seconds(ns / 1e9) if ns else "" for ns in (part.wall_ns, *part.label_ns,
                                                               part.unexplained_ns)),
        )
        for part in parts[:SHOWN]
    ]  # fmt: skip
    if rows:
        yield from table(("thread or queue", "wall", *LABELS, "unexplained"), rows)
    if len(parts) > SHOWN:
        yield f"{len(parts) - SHOWN:,} more are not shown."
        yield ""


def _bottlenecks(profile: Profile) -> Iterator[str]:
    found = bottlenecks(profile, SHOWN)
    if not found:
        return
    yield "Time of a step itself, without that of the steps inside it."
    yield ""
    rows = [
        (code(names.path(one.path, 100)), format_seconds(one.seconds), percent(one.share),
         one.label, f"{one.count:,}", str(one.errors or ""), code(_where(one.file, one.line)))
        for one in found
    ]  # fmt: skip
    heading = ("step", "time", "of wall", "mostly", "spans", "errors", "where")
    yield from table(heading, rows, left=(0, 3, 6))
    written = dict.fromkeys((one.file, one.line) for one in found if one.file)
    for file, line in list(written)[:SHOWN_SOURCES]:
        yield from _source(profile, file, line)


def _placements(profile: Profile) -> Iterator[str]:
    found = regrets(profile)
    share = lost_share(found)
    if share is None:
        return
    yield (
        f"The placed calls lost {percent(share)} of their time against the best backend known for "
        "each call."
    )
    yield ""
    rows = [
        (
            code(f"{one.placement.function}({one.placement.signature})", 80),
            code(one.placement.backend),
            f"{one.placement.calls:,}",
            format_seconds(one.placement.seconds / one.placement.calls),
            "" if one.predicted_seconds is None else format_seconds(one.predicted_seconds),
            f"{code(one.best)}, {'measured' if one.measured else 'predicted'}",
            format_seconds(one.lost_seconds),
            plain(one.placement.reason),
        )
        for one in found[:SHOWN]
    ]
    heading = ("call", "ran on", "calls", "one took", "predicted", "best", "lost", "why there")
    yield from table(heading, rows, left=(0, 1, 5, 7))


def _transfers(profile: Profile) -> Iterator[str]:
    rows = [
        (
            code(one.backend) or "not known",
            plain(one.direction) or "not known",
            f"{one.count:,}",
            format_bytes(one.bytes),
            format_seconds(one.seconds),
            f"{format_bytes(round(speed))}/s" if (speed := one.bytes_per_second) else "",
            percent(speed / peak) if speed and (peak := one.peak_bytes_per_second) else "",
        )
        for one in transfers(profile)[:SHOWN]
    ]
    if rows:
        heading = ("backend", "direction", "transfers", "bytes", "time", "speed", "of peak")
        yield from table(heading, rows, left=(0, 1))


def _feeds(profile: Profile) -> Iterator[str]:
    rows = [
        (code(one.first), code(one.then), f"{one.times:,}", format_bytes(one.bytes))
        for one in feeds(profile, SHOWN)
    ]
    if rows:
        yield (
            "From the order of the spans inside one span: what the first makes is likely what the "
            "second uses."
        )
        yield ""
        yield from table(("first", "then", "times", "moved between"), rows, left=(0, 1))
