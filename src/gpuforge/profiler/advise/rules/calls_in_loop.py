"""A function is called very often with little work: once for each row, or each number.

Bound: the time of all calls, less a usual one (the median): at best one call does the work of all.
"""

from __future__ import annotations

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.units import format_ns

SOURCE = "https://docs.rapids.ai/api/cudf/stable/cudf_pandas/faq/"
SAMPLES = OFTEN = 300
SHORT_NS = 200e3


def look(facts: Facts) -> Found:
    """Return one suggestion for each function and backend."""
    for calls in facts.calls.values():
        made = facts.count(calls.spans)
        if made < OFTEN:
            continue
        usual = facts.usual(calls.spans)
        if usual > SHORT_NS:
            continue
        yield facts.suggest(
            f"{calls.name} is called {made:,} times for {format_ns(usual)} of work each",
            [facts.told(calls.spans), f"a typical call: {format_ns(usual)}"],
            facts.time(calls.spans) - usual,
            f"Call it once with all rows as one array, or use {calls.name}.map(items), which "
            "computes many at once. Where each call needs the result of the one before, go through "
            "several such loops together, with a row for each.",
            made,
            calls.spans[0],
        )
