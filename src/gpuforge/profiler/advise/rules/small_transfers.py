"""A call moves many small arrays one by one.

Bound: their time, less that of one of them for each call.
"""

from __future__ import annotations

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.units import format_bytes

SOURCE = "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/"
SMALL_BYTES, MANY = 64 * 1024, 4


def look(facts: Facts) -> Found:
    """Speak once for each function and backend."""
    for calls in facts.placed:
        small = [
            place
            for place in calls.inside.get("put", ())
            if 0 < facts.spans.bytes[place] <= SMALL_BYTES
        ]
        each = facts.count(small) / max(facts.count(calls.spans), 1)
        if each < MANY:
            continue
        usual = format_bytes(facts.bytes(small) // facts.count(small))
        yield facts.suggest(
            f"Each call of {calls.function} moves {each:.0f} small arrays to {calls.backend}",
            [facts.told(small), f"{usual} each on average"],
            facts.time(small) - facts.count(calls.spans) * facts.fastest(small),
            "Keep them in one array, for instance as its rows, and pass that: one larger move "
            "costs little more than one of these.",
            facts.count(small),
            calls.spans[0],
        )
