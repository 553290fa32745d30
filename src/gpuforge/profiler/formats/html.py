"""A self-contained page for a browser, with graphs, tables and suggestions."""

from __future__ import annotations

from gpuforge.profiler import names
from gpuforge.profiler.model import LABELS, Profile
from gpuforge.profiler.page import columns, sections
from gpuforge.profiler.page.document import document
from gpuforge.profiler.paths import paths_of_spans
from gpuforge.profiler.sections import advice
from gpuforge.profiler.summary import recording

SUMMARY = "a web page: flame graph, timeline, memory, placements, suggestions"
SUFFIX = ".html"


def render(profile: Profile) -> str:
    """Return the page of `profile`."""
    root, places = paths_of_spans(profile)
    notes = recording(profile)
    rows, row_of = columns.path_rows(root, notes)
    texts = columns.Texts()
    lanes = [{"name": names.line(lane.name, 100), "kind": lane.kind} for lane in profile.lanes]
    said = [profile.spans.attributes.get(path.sample, {}) for path, _ in rows]
    data = {
        "labels": LABELS,
        "paths": columns.path_columns(rows, said, texts),
        "figures": columns.figures([path for path, _ in rows]),
        "lanes": lanes,
        "spans": columns.span_columns(profile, rows, [row_of[id(path)] for path in places], notes),
        "series": [columns.series_columns(series, notes) for series in profile.series],
        "wall": profile.wall_ns,
        "texts": list(texts.places),
    }
    return document(
        data,
        title="Profile",
        program=profile.program,
        lead=sections.lead(profile, rows),
        facts=sections.what_ran(profile),
        notes=sections.notes(notes),
        first=sections.parts_section(profile) + sections.suggestions_section(advice(profile)),
        paths=sections.paths_table(rows),
        rest=sections.placements_section(profile)
        + sections.transfers_section(profile)
        + sections.header_section(profile),
    )
