"""A function is called very often with little work: once for each row, or each number.

Bound: the time of the fastest call, for every call but one: what a call costs whatever it is given
is no more than that.
"""

from __future__ import annotations

from statistics import median

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.units import format_seconds

SOURCE = "https://docs.rapids.ai/api/cudf/stable/cudf_pandas/faq/"
SAMPLES = OFTEN = 300
SHORT_NS = 200e3


def look(facts: Facts) -> Found:
    """Speak once for each function and backend."""
    for calls in facts.calls.values():
        made = facts.count(calls.spans)
        if made < OFTEN:
            continue
        usual = median(map(facts.each, calls.spans))
        if usual > SHORT_NS:
            continue
        fastest = facts.fastest(calls.spans)
        yield facts.suggest(
            f"{calls.name} is called {made} times for {format_seconds(usual / 1e9)} of work",
            [facts.told(calls.spans), f"the fastest call: {format_seconds(fastest / 1e9)}"],
            fastest * (made - 1),
            f"Call it once with all rows as one array, or use {calls.name}.map(items), which "
            "computes many at once.",
            made,
            calls.spans[0],
        )
