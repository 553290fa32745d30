"""Starting a call takes longer than what the device then computes.

Bound: the time of a usual call (the median) without its moves and what the device does, times all
calls but one: at best one call does the work of all.
"""

from __future__ import annotations

from statistics import median

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.profiler.model import TRANSFER
from gpuforge.units import format_seconds

SOURCE = "https://hta.readthedocs.io/en/latest/source/features/cuda_kernel_launch_stats.html"


def look(facts: Facts) -> Found:
    """Speak once for each function and backend."""
    for calls in facts.placed:
        made, usual = facts.count(calls.spans), median(map(facts.each, calls.spans))
        computed = facts.time(calls.work) / made
        started = usual - computed - calls.label_ns[TRANSFER] / made
        if not computed or started <= computed:
            continue
        yield facts.suggest(
            f"Starting {calls.name} on {calls.backend} takes longer than computing it",
            [
                facts.told(calls.spans),
                f"a usual call: {format_seconds(usual / 1e9)}, of which the device computes "
                f"{format_seconds(computed / 1e9)}",
            ],
            started * (made - 1),
            f"Make fewer, larger calls: {calls.name}.map(items) computes many at once, and "
            "several steps can be one function.",
            made,
            calls.spans[0],
        )
