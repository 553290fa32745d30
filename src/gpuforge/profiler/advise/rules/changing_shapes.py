"""A function is compiled again and again because its arguments have ever new shapes.

Bound: the time of compiling, without the longest one.
"""

from __future__ import annotations

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
SAMPLES = MANY = 8


def look(facts: Facts) -> Found:
    """Speak once for each function and backend."""
    for calls in facts.placed:
        compiled = calls.inside.get("compile", [])
        shapes = {str(facts.said(place, "shape", "")) for place in compiled}
        if len(shapes) < MANY:
            continue
        yield facts.suggest(
            f"{calls.function} is compiled for {len(shapes)} shapes on {calls.backend}",
            [
                facts.told(compiled, "compiling"),
                "shapes: " + ", ".join(sorted(shapes)[:3]) + ", …",
                f"{facts.count(calls.spans)} calls in all",
            ],
            facts.time(compiled) - max(facts.spans.duration[place] for place in compiled),
            "Pad the arrays to a few sizes, for instance to the next power of two, and cut the "
            "result; or leave the function to a backend that does not compile.",
            facts.count(compiled),
            calls.spans[0],
        )
