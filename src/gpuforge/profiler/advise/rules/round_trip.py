"""A result comes back from a device only to be moved there again by the next call.

Bound: the time of both moves: the one back and the one out again.
"""

from __future__ import annotations

from collections import defaultdict

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/"


def look(facts: Facts) -> Found:
    """Speak once for each pair of functions."""
    back: dict[tuple[object, ...], int] = {}
    pairs: dict[tuple[str, str, str], list[tuple[int, int]]] = defaultdict(list)
    for place in sorted(facts.transfers, key=facts.spans.start.__getitem__):
        said = facts.spans.attributes.get(place, {})
        if "source" not in said:
            continue
        backend = facts.backend(place)
        array = backend, said["source"], facts.spans.bytes[place], said.get("sample")
        if said.get("direction") == "from device":
            back[array] = place
        elif array in back:
            first = back.pop(array)
            callers = facts.said(first, "function", ""), facts.said(place, "function", "")
            pairs[(*callers, backend)].append((first, place))
    for (maker, user, backend), found in pairs.items():
        gets, puts = [first for first, _ in found], [second for _, second in found]
        yield facts.suggest(
            f"What {maker} returns leaves {backend} and goes back there with the call of {user}",
            [facts.told(gets, f"back from {maker}"), facts.told(puts, f"out again with {user}")],
            facts.time(gets) + facts.time(puts),
            "Call both steps from one offloaded function: what stays inside of it is not moved.",
            facts.count(puts),
            facts.owner[puts[0]],
        )
