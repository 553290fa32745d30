"""Calls are made twice: a backend computes them, and NumPy has to settle them.

Bound: the longer of the two: what NumPy took to settle, or the rest of these calls.
"""

from __future__ import annotations

from collections import Counter

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.rapids.ai/api/cudf/stable/cudf_pandas/faq/"
COMPARED = "it is compared"
"""The reason in calls that are tries: NumPy makes them anyway."""


def look(facts: Facts) -> Found:
    """Return one suggestion for each function and backend."""
    for calls in facts.placed:
        begun = {facts.owner[place] for place in calls.inside.get("run", ())}
        settled = [
            place
            for place in calls.inside.get("settle", ())
            if facts.owner[place] in begun and facts.said(place, "reason") != COMPARED
        ]
        if not settled:
            continue
        twice = {facts.owner[place] for place in settled}
        by_numpy = facts.time(settled)
        reasons = Counter(str(facts.said(place, "reason", "not recorded")) for place in settled)
        reason, times = reasons.most_common(1)[0]
        yield facts.suggest(
            f"NumPy recomputes calls of {calls.name} that {calls.backend} had started",
            [
                facts.told(settled, "recomputed by NumPy"),
                f"most frequent reason ({times} times): {reason}",
                f"{facts.count(calls.spans):,} calls in all",
            ],
            max(by_numpy, facts.time(twice) - by_numpy),
            "Keep such values out of the call if possible (check them first), or leave the "
            "function on NumPy: it computes these calls anyway.",
            facts.count(settled),
            calls.spans[0],
        )
