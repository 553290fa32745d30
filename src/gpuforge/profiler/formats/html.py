"""One page for a browser, complete in itself: graphs, tables, suggestions. It loads nothing."""

from __future__ import annotations

from collections.abc import Sequence

from gpuforge.profiler.breakdown import breakdown
from gpuforge.profiler.model import LABELS, Profile
from gpuforge.profiler.page import columns, sections
from gpuforge.profiler.page.document import document
from gpuforge.profiler.page.sections import Suggestion
from gpuforge.profiler.page.text import legible
from gpuforge.profiler.paths import paths_of_spans

SUMMARY = "a page for a browser: flame graph, timeline, memory, placements, suggestions"
SUFFIX = ".html"


def render(profile: Profile) -> str:
    """Return the page of `profile`."""
    return page(profile, ())


def page(profile: Profile, suggestions: Sequence[Suggestion]) -> str:
    """Return the page of `profile` with what `suggestions` say."""
    root, places = paths_of_spans(profile)
    notes = list(profile.notes)
    rows, row_of = columns.path_rows(root, columns.MOST_PATHS, notes)
    texts = columns.Texts()
    data = {
        "labels": LABELS,
        "paths": columns.path_columns(rows, profile, texts),
        "lanes": [{"name": legible(lane.name), "kind": lane.kind} for lane in profile.lanes],
        "spans": columns.span_columns(profile, rows, lambda at: row_of[id(places[at])], notes),
        "series": [columns.series_columns(series, notes) for series in profile.series],
        "wall": profile.wall_ns,
        "texts": list(texts.places),
    }
    parts = breakdown(profile)
    return document(
        data,
        title="Profile",
        program=profile.program,
        lead=sections.lead(profile, parts, rows),
        facts=sections.profile_facts(profile),
        notes=sections.notes(notes, profile.complete),
        first=sections.parts_section(profile, parts) + sections.suggestions_section(suggestions),
        paths=sections.paths_table(rows),
        rest=sections.placements_section(profile.placements) + sections.machine_section(profile),
    )
