"""A GPU copies and computes in turns, never at the same time.

Bound: the shorter of the two: what of the copies could be hidden behind the computation.
"""

from __future__ import annotations

from bisect import bisect_left

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/"
NEVER, LOOKED_AT = 0.05, 1000


def look(facts: Facts) -> Found:
    """Return one suggestion for each function whose calls ran on a GPU."""
    busy = sorted(
        (facts.spans.start[place], facts.end(place))
        for places in facts.devices.values()
        for place in places
    )
    starts = [start for start, _ in busy]
    for calls in facts.placed:
        moves = [*calls.inside.get("put", ()), *calls.inside.get("get", ())]
        worked = calls.work
        if not moves or not worked or not facts.gpu(calls.spans[0]):
            continue
        hidden = 0
        for place in moves[:LOOKED_AT]:
            begin, end = facts.spans.start[place], facts.end(place)
            first = max(bisect_left(starts, begin) - 1, 0)
            for start, stop in busy[first : bisect_left(starts, end, first)]:
                hidden += max(min(stop, end) - max(start, begin), 0)
        copied, computed = facts.time(moves), facts.time(worked)
        if hidden < NEVER * facts.time(moves[:LOOKED_AT]):
            yield facts.suggest(
                f"{calls.name} does not overlap copies with computation on {calls.backend}",
                [facts.told(moves, "copies"), facts.told(worked, "computation")],
                min(copied, computed),
                f"If calls do not need each other's results, {calls.name}.map(items) or "
                "submit lets the next copy run while the device computes.",
                facts.count(calls.spans),
                calls.spans[0],
            )
