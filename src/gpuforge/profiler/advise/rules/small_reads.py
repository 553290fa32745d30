"""A function reads single values while it runs: ``if``, ``float()``, ``print`` or an index.

Each makes it wait for all that was to be computed before.

Bound: the time of these reads, and for each run beyond the first of a call that of the shortest.
"""

from __future__ import annotations

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
SMALL_BYTES, MANY = 64, 3


def look(facts: Facts) -> Found:
    """Speak once for each function and backend."""
    for calls in facts.placed:
        made = facts.count(calls.spans)
        small = [
            place
            for place in calls.inside.get("get", ())
            if 0 < facts.spans.bytes[place] <= SMALL_BYTES
        ]
        if facts.count(small) < MANY * made:
            continue
        runs = calls.inside.get("run", [])
        extra = max(facts.count(runs) - made, 0) * (facts.fastest(runs) if runs else 0.0)
        yield facts.suggest(
            f"{calls.function} reads {facts.count(small) / made:.0f} single values in each call "
            f"from {calls.backend}",
            [facts.told(small), facts.told(runs, "runs that this splits a call into")]
            if runs
            else [facts.told(small)],
            facts.time(small) + extra,
            "Leave conditions to xp.where, keep sums and flags as arrays, and read them once after "
            "the loop.",
            facts.count(small),
            calls.spans[0],
        )
