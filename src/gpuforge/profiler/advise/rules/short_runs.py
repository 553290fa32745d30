"""Starting a call takes longer than what the device then computes.

Bound: the time of a usual call (the median) without compiling, its moves and what the device does,
times all calls but one: at best one call does the work of all.
"""

from __future__ import annotations

from collections import Counter
from statistics import median

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.units import format_ns

SOURCE = "https://hta.readthedocs.io/en/latest/source/features/cuda_kernel_launch_stats.html"


def look(facts: Facts) -> Found:
    """Return one suggestion for each function and backend."""
    for calls in facts.placed:
        compiled: Counter[int] = Counter()
        for place in calls.inside.get("compile", []):
            compiled[facts.owner[place]] += facts.spans.duration[place]
        made = facts.count(calls.spans)
        usual = median(facts.each(p) - compiled[p] / facts.count([p]) for p in calls.spans)
        parts = [calls.work, calls.inside.get("put", []), calls.inside.get("get", [])]
        each = [facts.usual(places) * facts.count(places) / made for places in parts]
        computed, started = each[0], usual - sum(each)
        if not computed or started <= computed:
            continue
        yield facts.suggest(
            f"Starting {calls.name} on {calls.backend} takes longer than computing it",
            [
                facts.told(calls.spans),
                f"a typical call{' without compiling' if compiled else ''}: {format_ns(usual)}, "
                f"of which the device computes {format_ns(computed)}",
            ],
            started * (made - 1),
            f"Make fewer, larger calls: {calls.name}.map(items) computes many at once, and "
            "several steps can be one function.",
            made,
            calls.spans[0],
        )
