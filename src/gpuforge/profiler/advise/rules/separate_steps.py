"""A library that does not compile runs long chains of steps element by element on large arrays.

Each step reads and writes whole arrays.

Bound: the runs' time, less that of one step: k steps in one pass read and write once, not k times.
"""

from __future__ import annotations

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
EAGER = {"torch", "cupy", "dpnp"}
MANY, LARGE_ELEMENTS = 4, 1_000_000


def look(facts: Facts) -> Found:
    """Speak once for each function and backend."""
    for calls in facts.placed:
        if calls.backend.partition(":")[0] not in EAGER:
            continue
        found = [p for p in calls.inside.get("run", ()) if _steps(facts, p) >= MANY]
        if not found:
            continue
        steps = _steps(facts, found[0])
        yield facts.suggest(
            f"{calls.function} makes {steps} passes over its arrays on {calls.backend}",
            [facts.told(found), f"operations: {facts.said(found[0], 'operation')}"],
            sum(facts.spans.duration[p] * (1 - 1 / _steps(facts, p)) for p in found),
            "A library that compiles does such steps in one pass: install JAX, and gpuforge tries "
            "it.",
            facts.count(found),
            calls.spans[0],
            facts.again("--backend", "jax"),
        )


def _steps(facts: Facts, place: int) -> int:
    """Return the steps of a run if all work element by element on large arrays; else 0."""
    names = str(facts.said(place, "operation", "")).split()
    elements = 1
    for size in facts.said(place, "shape", ()):
        elements *= size
    return len(names) if elements >= LARGE_ELEMENTS and set(names) <= ELEMENTWISE else 0


ELEMENTWISE = frozenset(
    "add subtract multiply divide true_divide negative positive abs absolute power square sqrt exp "
    "expm1 log log1p log2 log10 sin cos tan tanh sinh cosh arctan where clip maximum minimum "
    "greater greater_equal less less_equal equal not_equal logical_and logical_or logical_not "
    "astype reciprocal sign floor ceil rint".split()
)
