"""Tables of text, aligned in columns and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 80

Rows = Sequence[Sequence[str]]


def aligned(heading: Sequence[str], rows: Rows, *, left: Sequence[int] = (0,)) -> list[str]:
    """Return lines of at most `WIDTH` characters, with columns to the right but for those `left`.

    The last column is cut where it would not fit.
    """
    everything = [heading, *rows]
    widths = [max(map(len, column)) for column in zip(*everything, strict=True)]
    before = sum(width + 2 for width in widths[:-1])
    widths[-1] = min(widths[-1], WIDTH - before)
    return [
        "  ".join(
            _cut(cell, width).ljust(width) if place in left else _cut(cell, width).rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in everything
    ]


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else cell[: width - 1] + "…"


def markdown(heading: Sequence[str], rows: Rows, *, left: Sequence[int] = (0,)) -> list[str]:
    """Return the lines of a Markdown table, with a blank one behind it. Cells are Markdown."""
    rules = [":--" if place in left else "--:" for place in range(len(heading))]
    return [*(f"| {' | '.join(row)} |" for row in (heading, rules, *rows)), ""]


def percent(share: float) -> str:
    """Return a share as text: 0.018 is ``1.8 %``."""
    return f"{100 * share:.1f} %"
