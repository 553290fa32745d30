"""The first call of a function takes much longer than those after it.

Bound: what first calls took beyond the median of the later ones; once per process.
"""

from __future__ import annotations

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.units import format_ns

SOURCE = "https://docs.cupy.dev/en/stable/user_guide/performance.html"
MUCH, LONG_NS = 10.0, 50e6


def look(facts: Facts) -> Found:
    """Return one suggestion for each function and backend."""
    for calls in facts.placed:
        first, *later = calls.spans
        if not later:
            continue
        usual = facts.usual(later)
        if facts.each(first) < max(MUCH * usual, LONG_NS):
            continue
        parts = (p for places in calls.inside.values() for p in places if facts.owner[p] == first)
        longest = max(parts, key=facts.own.__getitem__, default=first)
        rows = [facts.told([first], "first call"), facts.told(later, "later calls")]
        if longest != first:
            rows.append(
                f"longest step of the first call: {facts.name(longest)}, "
                f"{facts.share(facts.own[longest])}"
            )
        yield facts.suggest(
            f"The first call of {calls.name} on {calls.backend} takes "
            f"{format_ns(facts.each(first))}, later calls {format_ns(usual)}",
            rows,
            facts.each(first) - usual,
            "Record the program again: compiled code is kept for the next process. To move the "
            "rest to the start of the program, make a call with small arrays there.",
            facts.count(later),
            first,
        )
