"""Laying out the tables of a report as text in columns and as Markdown."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from gpuforge.profiler import names
from gpuforge.units import format_bytes

WIDTH = 80
_NARROWEST = 8
_UNITS = {
    "ratio": (100.0, "%"), "hertz": (1e-9, "GHz"), "celsius": (1.0, "°C"), "watts": (1.0, "W"),
}  # fmt: skip
"""Units of series, with the factor and the unit that reports use instead."""


class Table(NamedTuple):
    """A table of a report.

    Attributes
    ----------
    title : title of the table
    heading : headings of the columns
    rows : the cells, as many as `heading` has
    texts : the columns that contain text instead of numbers
    said : a sentence above the table
    """

    title: str
    heading: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    texts: tuple[int, ...] = (0,)
    said: str = ""

    def aligned(self) -> list[str]:
        """Return lines of at most `WIDTH` characters, as far as truncating text columns allows."""
        cells = [tuple(map(names.line, row)) for row in (self.heading, *self.rows)]
        widths = [max(map(columns, column)) for column in zip(*cells, strict=True)]
        while sum(widths) + 2 * len(widths) - 2 > WIDTH:
            widest = max(self.texts, key=widths.__getitem__)
            if widths[widest] <= _NARROWEST:
                break
            widths[widest] -= 1
        return [
            "  ".join(
                _filled(cut(cell, width), width) if place in self.texts else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]

    def markdown(self) -> list[str]:
        """Return the lines of a Markdown table, and a blank line."""
        rules = tuple(":--" if place in self.texts else "--:" for place in range(len(self.heading)))
        rows = [
            tuple(code(cell) if place in self.texts else cell for place, cell in enumerate(row))
            for row in self.rows
        ]
        return [*(f"| {' | '.join(row)} |" for row in (self.heading, rules, *rows)), ""]


def cut(text: str, width: int) -> str:
    """Truncate `text` to a width: without the first steps of a path, or without its middle."""
    if columns(text) <= width:
        return text
    steps = text.split(" > ")
    for first in range(1, len(steps)):
        found = " > ".join(["…", *steps[first:]])
        if columns(found) <= width:
            return found
    first = (width - 1) // 3
    return f"{_start(text, first)}…{_start(text[::-1], width - 1 - first)[::-1]}"


def columns(text: str) -> int:
    """Return how many terminal columns `text` takes: two for a wide character such as 語."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _start(text: str, width: int) -> str:
    while columns(text) > width:
        text = text[:-1]
    return text


def _filled(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


def code(text: object) -> str:
    """Return `text` as Markdown code that is also safe in a table."""
    found = cut(names.line(text), 120).replace("`", "'").replace("|", "¦").strip()
    return f"`{found}`" if found else ""


def plain(text: object) -> str:
    """Return `text` as one line with Markdown escaped."""
    return re.sub(r"([\\`*_\[\]<>|#~!])", r"\\\1", names.line(text))


def reading(value: float, unit: str) -> str:
    """Return a value of a series as text."""
    if unit == "bytes":
        return format_bytes(round(value))
    scale, shown = _UNITS.get(unit, (1.0, ""))
    return f"{value * scale:.3g} {shown}".rstrip()


def percent(share: float) -> str:
    """Return a share as text: 0.018 is ``1.8 %``."""
    return f"{100 * share:.1f} %"
