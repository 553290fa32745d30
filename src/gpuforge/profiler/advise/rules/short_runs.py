"""Starting calls takes longer than what the backend then computes.

Bound: the overhead of all calls but one: at best one call does the work of all.
"""

from __future__ import annotations

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.profiler.model import DEVICE, OVERHEAD, WAIT

SOURCE = "https://hta.readthedocs.io/en/latest/source/features/cuda_kernel_launch_stats.html"


def look(facts: Facts) -> Found:
    """Speak once for each function and backend."""
    for calls in facts.placed:
        made = facts.count(calls.spans)
        compiled = facts.time(calls.inside.get("compile", ()))
        overhead = calls.label_ns[OVERHEAD] - compiled
        ran = max(calls.label_ns[DEVICE], calls.label_ns[WAIT])
        if not ran or overhead <= ran:
            continue
        yield facts.suggest(
            f"Starting {calls.function} on {calls.backend} takes longer than computing it",
            [
                facts.told(calls.spans),
                f"overhead: {facts.share(overhead)}; computing: {facts.share(ran)}",
            ],
            overhead * (1 - 1 / made),
            f"Make fewer, larger calls: {calls.function}.map(items) computes many at once, and "
            "several steps can be one function.",
            made,
            calls.spans[0],
        )
