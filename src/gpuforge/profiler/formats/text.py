"""A report for the terminal in 80 columns, most important first."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from gpuforge.profiler import names
from gpuforge.profiler.advise import Suggestion
from gpuforge.profiler.model import Profile
from gpuforge.profiler.sections import advice, sections
from gpuforge.profiler.summary import first_line, ran, recording
from gpuforge.profiler.tables import WIDTH, percent
from gpuforge.units import format_seconds

SUMMARY = "for the terminal: where the time went and what to change"
SUFFIX = ".txt"

SHOWN = 8
"""Rows of each table."""
_NO_BREAK = "\N{NO-BREAK SPACE}"
_UNIT = re.compile(r"(?<=\d) (?=%|(?:[nµm]?s|min|h|[KMGT]?i?B)\b)")


def render(profile: Profile) -> str:
    """Return the report."""
    lines = [first_line(profile)]
    for text in (ran(profile), *recording(profile)):
        lines += _wrapped(text)
    for table in sections(profile, SHOWN):
        lines += ["", *_wrapped(f"{table.title}. {table.said}" if table.said else table.title)]
        lines += table.aligned()
    for number, one in enumerate(advice(profile), 1):
        lines += ["", *_suggestion(number, one)]
    return "\n".join(lines)


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Return lines of `WIDTH` columns that do not end between a number and its unit."""
    joined = _UNIT.sub(_NO_BREAK, names.line(text))
    lines = textwrap.wrap(joined, WIDTH, initial_indent=indent, subsequent_indent=indent or "  ")
    return [line.replace(_NO_BREAK, " ") for line in lines]


def _suggestion(number: int, one: Suggestion) -> Iterator[str]:
    bound = f"{format_seconds(one.bound_seconds)}, {percent(one.bound_share)} of the wall time"
    gain = f" (at most {bound})" if one.bound_seconds else ""
    yield from _wrapped(f"{number}. {one.title}{gain}")
    said = [f"- {text}" for text in one.evidence]
    said += [f"in {one.file}:{one.line}"] if one.file else []
    said += [one.advice] if one.advice else []
    said += [f"check: {one.check_command}"] if one.check_command else []
    for text in said:
        yield from _wrapped(text, "   ")
