"""A function is compiled again and again because its arguments have ever new shapes.

Bound: the time of compiling, without the longest one.
"""

from __future__ import annotations

from collections import defaultdict

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
SAMPLES = MANY = 8


def look(facts: Facts) -> Found:
    """Return one suggestion for each function, wherever its calls ran."""
    functions: dict[str, list[int]] = defaultdict(list)
    for calls in facts.calls.values():
        functions[calls.name] += calls.inside.get("compile", [])
    for name, compiled in functions.items():
        shapes = {str(facts.said(place, "shape", "")) for place in compiled}
        if len(shapes) < MANY:
            continue
        backend = facts.spans.attributes.get(compiled[0], {}).get("backend", "a backend")
        yield facts.suggest(
            f"{name} is compiled for {len(shapes)} shapes on {backend}",
            [facts.told(compiled, "compiling"), "shapes: " + ", ".join(sorted(shapes)[:3]) + ", …"],
            facts.time(compiled) - max(facts.spans.duration[place] for place in compiled),
            "Pad the arrays to a few sizes, for instance to the next power of two, and cut the "
            "result; or leave the function to a backend that does not compile.",
            facts.count(compiled),
            facts.owner[compiled[0]],
        )
