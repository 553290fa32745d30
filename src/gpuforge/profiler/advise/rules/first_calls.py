"""The first call of a function takes much longer than those after it.

Bound: what first calls took beyond the median of the later ones; once per process.
"""

from __future__ import annotations

from statistics import median

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.units import format_seconds

SOURCE = "https://docs.cupy.dev/en/stable/user_guide/performance.html"
MUCH = 10.0


def look(facts: Facts) -> Found:
    """Speak once for each function and backend."""
    for calls in facts.calls.values():
        first, *later = calls.spans
        if not later:
            continue
        usual = median(map(facts.each, later))
        if facts.each(first) < MUCH * usual:
            continue
        rows = [facts.told([first], "first call"), facts.told(later, "later calls")]
        if "compile" in calls.inside:
            rows.append(facts.told(calls.inside["compile"], "compiling"))
        yield facts.suggest(
            f"The first call of {calls.function} on {calls.backend} takes "
            f"{format_seconds(facts.each(first) / 1e9)}, the others {format_seconds(usual / 1e9)}",
            rows,
            facts.each(first) - usual,
            "Record the program once more: what was compiled is kept for the next process. What "
            "remains can be done before it matters, by a call with small arrays at the start.",
            facts.count(later),
            first,
        )
