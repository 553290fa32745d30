"""A function reads single values while it runs: ``if``, ``float()``, ``print`` or an index.

Each makes it wait for all that was to be computed before.

Bound: the time of these reads, and for each run beyond the first of a call that of the shortest.
"""

from __future__ import annotations

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
SMALL_BYTES, MANY = 64, 3


def look(facts: Facts) -> Found:
    """Return one suggestion for each function and backend. Each read is a run and a move back."""
    for calls in facts.placed:
        runs, made = calls.inside.get("run", []), facts.count(calls.spans)
        gets = calls.inside.get("get", [])
        extra = min(facts.count(runs), facts.count(gets)) - made
        if extra < MANY * made or "fallback" in calls.inside:
            continue
        small = [place for place in gets if facts.spans.bytes[place] <= SMALL_BYTES]
        rows = [facts.told(runs, "runs that a call is split into")]
        yield facts.suggest(
            f"{calls.name} reads values during the call: {extra / made:.0f} times in each call on "
            f"{calls.backend}",
            [*rows, facts.told(small, "reads")] if small else rows,
            facts.time(small) + extra * facts.fastest(runs),
            "Use np.where for conditions, keep sums and flags as arrays, and read them once after "
            "the loop.",
            extra,
            calls.spans[0],
        )
