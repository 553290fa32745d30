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
        signatures = {str(facts.said(place, "signature", "")) for place in compiled}
        if len(signatures) < MANY:
            continue
        yield facts.suggest(
            f"{calls.name} is compiled for {len(signatures)} shapes on {calls.backend}",
            [
                facts.told(compiled, "compiling"),
                "shapes: " + ", ".join(sorted(signatures)[:3]) + ", …",
                f"{facts.count(calls.spans)} calls in all",
            ],
            facts.time(compiled) - max(facts.spans.duration[place] for place in compiled),
            "Pad the arrays to a few sizes, for instance to the next power of two, and cut the "
            "result; or leave the function to a backend that does not compile.",
            facts.count(compiled),
            calls.spans[0],
        )
