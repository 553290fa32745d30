"""A dated analysis for a pull request: scope, findings with evidence, source lines and changes.

By default it is written to ``docs/analysis/<program>-YYYY-MM-DD.md``. An existing file is never
overwritten, because somebody may have edited it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path, PurePath

from gpuforge.profiler import names
from gpuforge.profiler.advise import Suggestion
from gpuforge.profiler.model import Profile
from gpuforge.profiler.sections import advice, sections
from gpuforge.profiler.sources import source
from gpuforge.profiler.summary import bottlenecks, first_line, machine, recording, started
from gpuforge.profiler.tables import Table, code, percent, plain
from gpuforge.units import format_seconds

SUMMARY = "a dated analysis for a pull request, by default in docs/analysis"
SUFFIX = ".md"

SHOWN = 15
"""Rows of each table."""
SHOWN_SOURCES = 3
HIGH_SHARE, MEDIUM_SHARE = 0.2, 0.1
"""Shares of the wall time from which a possible gain has high and medium priority."""


def default_path(profile: Profile) -> Path:
    """Return the path of the analysis if no other file is named."""
    program = re.sub(r"\.pyw?$", "", PurePath(_program(profile)).name)
    name = re.sub(r"[^\w.-]+", "-", program).strip(".-")[:60]
    return Path("docs", "analysis", f"{name or 'program'}-{_date(profile)}.md")


def render(profile: Profile) -> str:
    """Return the analysis."""
    lines = [f"# Analysis of {code(_program(profile))}, {_date(profile)}", ""]
    lines += [f"**{first_line(profile)}**", "", "## Scope", ""]
    lines += _scope(profile, recording(profile))
    lines += ["## Findings", "", *_findings(profile)]
    for table in sections(profile, SHOWN):
        lines += [f"## {table.title}", "", *([plain(table.said), ""] if table.said else [])]
        lines += table.markdown()
    lines += _sources(profile)
    return "\n".join(lines).rstrip()


_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python whose value is a word of its own."""


def _program(profile: Profile) -> str:
    """Return the script or module of the command line."""
    command = profile.command
    if "-m" in command[:-1]:
        return command[command.index("-m") + 1]
    scripts = [word for word in command if word.endswith((".py", ".pyw"))]
    others = [
        word for flag, word in pairwise(command)
        if not (word.startswith("-") or flag in _WITH_VALUE)
    ]  # fmt: skip
    is_code = command[1:2] == ["-c"]
    return next(iter(scripts or (() if is_code else others) or command), "") or "program"


def _date(profile: Profile) -> str:
    return (started(profile) or datetime.now()).strftime("%Y-%m-%d")


def _scope(profile: Profile, said: list[str]) -> Iterator[str]:
    header, began = profile.header, started(profile)
    rows = [("command", profile.program), ("recorded", f"{began:%Y-%m-%d %H:%M}" if began else "")]
    rows += [(name, str(header.get(name) or "")) for name in ("gpuforge", "python")]
    rows += [("machine", machine(profile))]
    rows += [(str(name), str(version)) for name, version in profile.said("versions").items()]
    rows = [(name, text or "not known") for name, text in rows]
    yield from Table("", ("what", "which"), rows, (0, 1)).markdown()
    yield from (f"- {plain(text)}" for text in said)
    for name, reason in profile.said("unknown").items():
        yield f"- not known: {plain(name)}: {plain(reason)}"
    yield ""


def _findings(profile: Profile) -> Iterator[str]:
    found = advice(profile)
    if not found:
        yield "No rule found a change that could save 3 % of the wall time or more."
        yield ""
    for number, one in enumerate(found, 1):
        yield from _finding(profile, number, one)


def _finding(profile: Profile, number: int, one: Suggestion) -> Iterator[str]:
    share = one.bound_share
    priority = "high" if share >= HIGH_SHARE else "medium" if share >= MEDIUM_SHARE else "low"
    yield f"### {number}. {plain(one.title)}"
    yield ""
    if one.bound_seconds:
        yield (
            f"Priority: {priority}. At most {format_seconds(one.bound_seconds)} ({percent(share)} "
            f"of the wall time) could be saved. Rule: {code(one.rule)}."
        )
        yield ""
    if one.evidence:
        yield from (f"- {plain(text)}" for text in one.evidence)
        yield ""
    if one.file:
        yield from _source(profile, one.file, one.line)
    for word, text in (("Change", plain(one.advice)), ("Check", code(one.check_command))):
        if text:
            yield f"{word}: {text}"
            yield ""


def _sources(profile: Profile) -> Iterator[str]:
    """Yield the source lines where the most time was spent."""
    found = [(one.file, one.line) for one in bottlenecks(profile, SHOWN) if one.file]
    if found:
        yield "## The lines that took the most time"
        yield ""
    for file, line in list(dict.fromkeys(found))[:SHOWN_SOURCES]:
        yield from _source(profile, file, line)


def _from_here(file: str) -> str:
    """Return a path inside the current folder without that folder, which others do not have."""
    with suppress(OSError):  # the folder is gone
        return file.removeprefix(os.path.join(os.getcwd(), ""))
    return file


def _source(profile: Profile, file: str, line: int) -> Iterator[str]:
    """Yield the user's source lines around one, which is marked with ``>``."""
    found = source(profile, file, line)
    changed = "the file was changed after the recording started" if found.changed else ""
    about = found.absent or changed
    yield f"Now: {code(f'{_from_here(file)}:{line}')}{f'; {about}' if about else ''}"
    yield ""
    if found.lines:
        longest = max((len(run) for _, text in found.lines for run in re.findall("`+", text)),
                      default=0)  # fmt: skip
        fence = "`" * max(3, longest + 1)
        width = len(str(found.lines[-1][0]))
        yield f"{fence}text"
        for number, text in found.lines:
            mark = ">" if number == line else " "
            yield f"{mark} {number:>{width}}  {names.line(text)}".rstrip()
        yield fence
        yield ""
