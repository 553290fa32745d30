"""Recording itself takes a noticeable part of the time: its figures are too high.

Bound: what recording took by its own account: the calibrated cost of each span, and the processor's
time of writing them.
"""

from __future__ import annotations

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://github.com/pytorch/pytorch/issues/82793"
NOTICEABLE, LONG_NS = 0.05, 20e6


def look(facts: Facts) -> Found:
    """Return one suggestion at most."""
    made = facts.count(range(len(facts.spans)))
    cost = min(facts.profile.cost_ns, facts.wall_ns)
    if cost <= max(NOTICEABLE * facts.wall_ns, LONG_NS):
        return
    often = max(range(len(facts.spans)), key=facts.spans.count.__getitem__, default=-1)
    yield facts.suggest(
        "Recording takes a noticeable share of the time",
        [f"cost of recording: {facts.share(cost)}", f"{made:,} spans"],
        cost,
        "Remove spans from inner loops: short spans, and those around them, look too long.",
        made,
        often,
    )
