"""One JSON document for programs, in seconds and bytes; unknown values are null, with the reason.

It contains up to `MOST_PATHS` call paths and the `MOST_SPANS` longest spans, with their ancestors.
``left_out`` has the numbers of the others.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gpuforge.profiler import json_text
from gpuforge.profiler.breakdown import breakdown
from gpuforge.profiler.model import LABELS, NO_PARENT, Placement, Profile
from gpuforge.profiler.names import text
from gpuforge.profiler.paths import Path, largest, paths
from gpuforge.profiler.sections import advice
from gpuforge.profiler.timeline import longest

SUMMARY = "machine-readable: seconds, bytes, call paths, spans"
SUFFIX = ".json"

MOST_SPANS = 100_000
MOST_PATHS = 20_000
NS = 1e9


def render(profile: Profile) -> str:
    """Return the document."""
    header = dict(profile.header)
    shown = longest(profile.spans, MOST_SPANS)
    root = paths(profile)
    rows = _path_rows(root)
    return json_text.dump(
        {
            "schema_version": 1,
            "complete": profile.complete,
            "wall_seconds": profile.wall_ns / NS,
            "cost_seconds": profile.cost_ns / NS or None,
            **{name: json_text.clean(header.pop(name, None)) for name in ("program", "started")},
            "unknown": json_text.clean(_unknown(profile)),
            "header": json_text.clean(header),
            "lanes": _lanes(profile),
            "paths": rows,
            "spans": _spans(profile, shown),
            "left_out": {
                "spans": len(profile.spans) - len(shown),
                "paths": sum(1 for _ in root) - len(rows),
            },
            "placements": [_placement(placement) for placement in profile.placements],
            "series": [
                {
                    "name": text(series.name),
                    "unit": text(series.unit),
                    "device": text(series.device),
                    "times_seconds": [time / NS for time in series.times_ns],
                    "values": [json_text.clean(value) for value in series.values],
                }
                for series in profile.series
            ],
            "suggestions": [json_text.clean(asdict(one)) for one in advice(profile)],
            "counts": json_text.clean(profile.counts),
            "notes": json_text.clean(profile.notes),
        }
    )


def _unknown(profile: Profile) -> dict[str, str]:
    """Return the reason for each field that is null."""
    found = dict(profile.said("unknown"))
    for name in ("program", "started"):
        if json_text.clean(profile.header.get(name)) is None:
            found.setdefault(name, "the session file does not contain it")
    if not profile.cost_ns:
        found["cost_seconds"] = "the recording ended before its cost was written"
    return found


def _lanes(profile: Profile) -> list[dict[str, Any]]:
    parts = {part.lane: part for part in breakdown(profile)}
    found: list[dict[str, Any]] = []
    for place, lane in enumerate(profile.lanes):
        row = {"name": text(lane.name), "kind": lane.kind, "process": lane.process}
        part = parts.get(place)
        if part is not None:
            row["wall_seconds"] = part.wall_ns / NS
            row["label_seconds"] = _by_label(part.label_ns)
            row["unexplained_seconds"] = part.unexplained_ns / NS
            row["bytes"] = part.bytes
        found.append(row)
    return found


def _by_label(label_ns: tuple[int, ...] | list[int]) -> dict[str, float]:
    return {name: value / NS for name, value in zip(LABELS, label_ns, strict=True)}


def _path_rows(root: Path) -> list[dict[str, Any]]:
    """Return the paths, parents first; ``parent`` is the index of the parent."""
    place = {id(root): NO_PARENT}
    found: list[dict[str, Any]] = []
    for path in largest(root, MOST_PATHS):
        place[id(path)] = len(found)
        found.append(
            {
                "name": text(path.name),
                "parent": place[id(path.parent)],
                "lane_kind": path.lane_kind,
                "count": path.count,
                "total_seconds": path.total_ns / NS,
                "own_seconds": path.own_ns / NS,
                "label_seconds": _by_label(path.label_ns),
                "own_label_seconds": _by_label(path.own_label_ns),
                "utilisation": path.utilisation,
                "bytes": path.bytes,
                "errors": path.errors,
            }
        )
    return found


def _spans(profile: Profile, shown: list[int]) -> dict[str, Any]:
    """Return `shown` spans as columns; ``parent`` and the keys of ``attributes`` are indices."""
    spans = profile.spans
    place = {index: new for new, index in enumerate(shown)}
    place[NO_PARENT] = NO_PARENT
    return {
        "names": [text(name) for name in spans.names],
        "name": [spans.name[i] for i in shown],
        "parent": [place[spans.parent[i]] for i in shown],
        "lane": [spans.lane[i] for i in shown],
        "label": [spans.label[i] for i in shown],
        "labels": LABELS,
        "start_seconds": [spans.start[i] / NS for i in shown],
        "duration_seconds": [spans.duration[i] / NS for i in shown],
        "bytes": [spans.bytes[i] for i in shown],
        "count": [spans.count[i] for i in shown],
        "attributes": {
            str(place[i]): json_text.clean(said)
            for i, said in spans.attributes.items()
            if i in place
        },
    }


def _placement(placement: Placement) -> dict[str, Any]:
    found = {name: getattr(placement, name) for name in Placement.__dataclass_fields__}
    found["at_seconds"] = found.pop("at_ns") / NS
    cleaned: dict[str, Any] = json_text.clean(found)
    return cleaned
