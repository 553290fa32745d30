"""Calls ran on a backend although another one was expected to finish them sooner.

Bound: what they took less what they were expected to take on the best backend.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter

from gpuforge.profiler.advise.facts import NUMPY, Facts, Found
from gpuforge.units import format_seconds

SOURCE = "https://docs.rapids.ai/api/cudf/stable/cudf_pandas/faq/"
CLEARLY = 0.8


def look(facts: Facts) -> Found:
    """Return one suggestion for each function, signature and backend."""
    of_call = attrgetter("function", "signature", "backend")
    placed = sorted((p for p in facts.profile.placements if p.predicted_seconds), key=of_call)
    for (function, signature, backend), rows in groupby(placed, of_call):
        found = list(rows)
        made, took = sum(one.calls for one in found), sum(one.seconds for one in found)
        best = min(found[-1].predicted_seconds, key=found[-1].predicted_seconds.__getitem__)
        least = sum(min(one.predicted_seconds.values()) * one.calls for one in found)
        by_choice = backend == NUMPY and not found[-1].reason.startswith(("pinned", "fewer than"))
        if best == backend or by_choice or least > CLEARLY * took:
            continue
        moved = sum(one.transfer_seconds for one in found)
        calls = facts.calls.get((function, backend))
        name = calls.name if calls else function
        yield facts.suggest(
            f"{name} ran on {backend}, although {best} was expected to be faster",
            [
                f"{made:,} calls of {name}({signature}): {format_seconds(took)} on {backend}, "
                f"{format_seconds(moved)} of it for transfers",
                f"expected on {best}: {format_seconds(least)}",
                *([f"reason for the choice: {found[-1].reason}"] if found[-1].reason else ()),
            ],
            (took - least) * 1e9,
            "Let gpuforge choose the backend, or name the faster one."
            if best != NUMPY
            else "NumPy is faster for arrays of this size: remove backend=, or set min_elements.",
            made,
            calls.spans[0] if calls else -1,
            facts.again("--backend", best) if best != NUMPY else "gpuforge calibrate",
        )
