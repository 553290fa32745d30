"""Operations within a placed call are done by NumPy, because the backend does not have them.

Bound: their time, and that of all moves within these calls.
"""

from __future__ import annotations

from collections import Counter

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.profiler.model import TRANSFER

SOURCE = "https://docs.rapids.ai/api/cudf/stable/cudf_pandas/usage/"


def look(facts: Facts) -> Found:
    """Return one suggestion for each function and backend."""
    for calls in facts.placed:
        steps = calls.inside.get("fallback", [])
        if not steps:
            continue
        names = Counter[str]()
        for place in steps:
            names[str(facts.said(place, "operation", "?"))] += facts.spans.count[place]
        listed = ", ".join(f"{name} ({times} times)" for name, times in names.most_common(5))
        yield facts.suggest(
            f"NumPy runs some steps of {calls.name} in its calls on {calls.backend}",
            [facts.told(steps, "run by NumPy"), f"operations: {listed}"],
            sum(facts.own[place] for place in steps) + calls.label_ns[TRANSFER],
            "Replace them with operations that the backend has (docs/operations.md), or run "
            "them before or after the call.",
            facts.count(steps),
            steps[0],
        )
