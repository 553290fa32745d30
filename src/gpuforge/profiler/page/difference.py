"""The page that compares two profiles in a differential flame graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuforge.profiler import names
from gpuforge.profiler.model import DEVICE, LABELS, Profile
from gpuforge.profiler.page import columns, sections
from gpuforge.profiler.page.document import document
from gpuforge.profiler.paths import Path, paths
from gpuforge.profiler.summary import ran, recording
from gpuforge.profiler.tables import percent
from gpuforge.units import format_ns

Pair = tuple[Path, Path | None, Path | None]
"""A call path in both profiles combined, in the base, and in the new profile."""


def render_difference(base: Profile, new: Profile, remarks: Sequence[str] = ()) -> str:
    """Return a page with a flame graph of both profiles, and the change of each call path.

    Parameters
    ----------
    base, new
        Two recordings of one program. Whether they are comparable, and differences significant, is
        not decided here.
    remarks
        Remarks on that, shown above everything else.
    """
    root, pairs = _combined(paths(base), paths(new))
    runs = {"base": base, "new": new}
    notes = [*remarks, *(f"{name}: {text}" for name in runs for text in recording(runs[name]))]
    rows, row_of = columns.path_rows(root, notes)
    sides = [[Path(row.path.name) for row in rows] for _ in range(2)]
    said: list[dict[str, Any]] = [{} for _ in rows]
    for pair in pairs:
        row = row_of[id(pair[0])]
        for side, profile, path in zip(sides, (base, new), pair[1:], strict=True):
            if path is not None:
                columns.add(side[row], path)
                if rows[row].path is pair[0]:
                    said[row] = profile.spans.attributes.get(path.sample, {})
    texts = columns.Texts()
    data = {
        "labels": LABELS,
        "paths": columns.path_columns(rows, said, texts),
        "base": columns.figures(sides[0]),
        "figures": columns.figures(sides[1]),
        "texts": list(texts.places),
    }
    return document(
        data,
        title="Difference",
        program=new.program,
        lead=_lead(base, new, pairs),
        facts=sections.facts({"Base": ran(base), "New": ran(new)}),
        notes=sections.notes(notes),
        first="",
        paths=_table(pairs),
        rest="",
    )


def _combined(base: Path, new: Path) -> tuple[Path, list[Pair]]:
    """Return the root of the combined call paths, and each with its paths in base and new."""
    root = Path("")
    pairs: list[Pair] = []
    todo: list[Pair] = [(root, base, new)]
    while todo:
        both, *sides = todo.pop()
        children = [side.children if side is not None else {} for side in sides]
        for key in {**children[1], **children[0]}:
            found = children[0].get(key), children[1].get(key)
            path = both.child(*key)
            path.total_ns = sum(side.total_ns for side in found if side is not None)
            pairs.append((path, *found))
            todo.append(pairs[-1])
    return root, pairs


def _own(path: Path | None) -> int:
    return 0 if path is None else sum(path.own_label_ns[:DEVICE])


def _lead(base: Profile, new: Profile, pairs: list[Pair]) -> str:
    """Return the sentence on the change of the wall time and where most of it is."""
    before, after = base.wall_ns, new.wall_ns
    text = f"{format_ns(after)} in the new run, {format_ns(before)} in the base"
    if before and after != before:
        text += f": {percent(abs(after - before) / before)} {_more(after - before)}"
    most = max(pairs, key=lambda pair: abs(_own(pair[2]) - _own(pair[1])), default=None)
    change = _own(most[2]) - _own(most[1]) if most else 0
    if most and change:
        text += (
            f". The largest change of a call path itself is {format_ns(abs(change))}"
            f" {_more(change)} in {names.path(most[0].names, 80)}"
        )
    text += ". Each version was recorded once, so the random variation is unknown."
    return sections.html(text, 1000)


def _more(change: int) -> str:
    return "more" if change > 0 else "less"


def _table(pairs: list[Pair]) -> str:
    """Return the table of the call paths whose own time changed most."""
    ordered = sorted(pairs, key=lambda pair: -abs(_own(pair[2]) - _own(pair[1])))
    rows: list[list[sections.Cell]] = []
    for both, *found in ordered[: sections.MOST_PATHS]:
        before, after = map(_own, found)
        figures = (before, after, after - before)
        rows.append([names.path(both.names, 120), *[(ns, format_ns(ns)) for ns in figures]])
    titles = ["call path", "base, own", "new, own", "difference"]
    return sections.table("paths", "The largest changes", titles, rows)
