"""pyperf's JSON format: the whole program and the longest call paths as benchmarks.

A value is the duration of one span; a merged span is one value, the mean of its spans. Of a path
with more than `MOST_VALUES` spans only every nth is written. Durations of 0 are left out, because
pyperf does not accept them.
"""

from __future__ import annotations

import heapq
from array import array
from typing import Any

from gpuforge.errors import WorkloadError
from gpuforge.profiler import json_text, names
from gpuforge.profiler.model import Profile
from gpuforge.profiler.paths import Path, paths_of_spans
from gpuforge.profiler.summary import started

SUMMARY = "for pyperf stats, hist and compare_to: durations by call path"
SUFFIX = ".pyperf.json"

MOST_PATHS = 200
MOST_VALUES = 1000
WHOLE = "whole program"


def render(profile: Profile) -> str:
    """Return the file.

    Raises
    ------
    WorkloadError
        If nothing took any time, because pyperf does not read files without values.
    """
    found = heapq.nlargest(MOST_PATHS, _durations(profile), key=lambda row: row[0].total_ns)
    benchmarks: dict[str, dict[str, Any]] = {}
    if profile.wall_ns > 0:
        benchmarks[WHOLE] = _benchmark(WHOLE, array("d", [profile.wall_ns / 1e9]))
    for path, seconds in found:
        name = _unique(names.path(path.names).strip() or "?", benchmarks)
        benchmarks[name] = _benchmark(name, seconds)
    if not benchmarks:
        raise WorkloadError(
            "nothing in this profile took any time, and pyperf does not read files without values",
            hint="use --format json",
        )
    return json_text.dump(
        {"version": "1.0", "metadata": _metadata(profile), "benchmarks": list(benchmarks.values())}
    )


def _durations(profile: Profile) -> list[tuple[Path, array[float]]]:
    """Return each call path with the durations of its spans, except those of 0."""
    spans = profile.spans
    found: dict[int, tuple[Path, array[float]]] = {}
    for index, path in enumerate(paths_of_spans(profile)[1]):
        if spans.duration[index] > 0:
            seconds = found.setdefault(id(path), (path, array("d")))[1]
            seconds.append(spans.duration[index] / 1e9 / max(spans.count[index], 1))
    return list(found.values())


def _unique(name: str, taken: dict[str, dict[str, Any]]) -> str:
    """Return `name`, with a number appended if the truncated name is already taken."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name} ({number})"
    return found


def _benchmark(name: str, seconds: array[float]) -> dict[str, Any]:
    step = -(-len(seconds) // MOST_VALUES)
    metadata: dict[str, Any] = {"name": name}
    if step > 1:
        metadata["gpuforge_values_of"] = len(seconds)
    return {"metadata": metadata, "runs": [{"values": list(seconds[::step])}]}


def _metadata(profile: Profile) -> dict[str, Any]:
    header = profile.header
    said = {
        "gpuforge_version": header.get("gpuforge"),
        "python_version": header.get("python"),
        "platform": header.get("platform"),
        "command": profile.program,
    }
    found: dict[str, Any] = {"unit": "second"}
    # pyperf does not accept empty or multi-line text.
    found |= {key: names.line(said[key]).strip() for key in said if said[key]}
    began = started(profile)
    if began is not None:
        found["date"] = began.isoformat(sep=" ")
    return {key: value for key, value in found.items() if value}
