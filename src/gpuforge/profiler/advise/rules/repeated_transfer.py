"""The same array is moved to a device again, with unchanged contents.

Bound: the time of all moves of the array but the first.
"""

from __future__ import annotations

from collections import defaultdict

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.profiler.model import NO_PARENT
from gpuforge.units import format_bytes

SOURCE = "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/"
Moves = dict[tuple[object, ...], list[int]]


def look(facts: Facts) -> Found:
    """Speak once for each function and backend."""
    moves: dict[tuple[str, str], Moves] = defaultdict(lambda: defaultdict(list))
    for place in facts.transfers:
        said = facts.spans.attributes.get(place, {})
        if said.get("direction") == "to device" and "sample" in said:
            caller = facts.said(place, "function", ""), facts.backend(place)
            array = said.get("source"), said["sample"], facts.spans.bytes[place]
            moves[caller][array].append(place)
    for (function, backend), arrays in moves.items():
        again = [place for places in arrays.values() for place in places[1:]]
        if not again:
            continue
        most = max(arrays.values(), key=lambda places: facts.time(places[1:]))
        owner = facts.owner[most[0]]
        size = format_bytes(facts.spans.bytes[most[0]])
        yield facts.suggest(
            f"{function} moves arrays to {backend} again that are unchanged: "
            f"{facts.count(again)} times",
            [
                facts.told(again, f"moved again to {backend}"),
                f"most often one array of {size}: {facts.count(most)} times",
            ],
            facts.time(again),
            "Do the loop inside the offloaded function, so that the array is moved once; or give "
            "the function an array of the backend's own library, which stays there.",
            facts.count(again),
            owner if owner != NO_PARENT else most[0],
        )
