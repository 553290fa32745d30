"""A library that does not compile makes a pass over large arrays for each step of a formula.

Bound: the time of these steps, less that of one pass: k steps in one pass read and write the arrays
once, not k times.
"""

from __future__ import annotations

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
MANY, LARGE_BYTES = 4, 4 * 1024**2
ELEMENTWISE = frozenset(
    "add subtract multiply divide true_divide negative positive abs absolute power square sqrt exp "
    "expm1 log log1p log2 log10 sin cos tan tanh sinh cosh arctan where clip maximum minimum "
    "greater greater_equal less less_equal equal not_equal logical_and logical_or logical_not "
    "reciprocal sign floor ceil rint".split()
)


def look(facts: Facts) -> Found:
    """Return one suggestion for each function and backend."""
    for calls in facts.placed:
        names = ELEMENTWISE & set(calls.inside)
        steps = [
            place
            for name in names
            for place in calls.inside[name]
            if (facts.said(place, "output_bytes") or 0) >= LARGE_BYTES
        ]
        passes = facts.count(steps) / max(facts.count(calls.inside.get("run", ())), 1)
        if passes < MANY:
            continue
        steps.sort(key=facts.spans.duration.__getitem__, reverse=True)
        yield facts.suggest(
            f"{calls.name} makes {passes:.0f} passes over its arrays on {calls.backend}",
            [
                facts.told(steps, "elementwise steps"),
                f"the longest: {facts.at(steps[0])}",
                "operations: " + ", ".join(sorted(names)),
            ],
            facts.time(steps) * (1 - 1 / passes),
            "A library that compiles runs such steps in one pass: gpuforge tries JAX where it is "
            "installed and the function is not pinned to another backend.",
            facts.count(steps),
            calls.spans[0],
            facts.again("--backend", "jax"),
        )
