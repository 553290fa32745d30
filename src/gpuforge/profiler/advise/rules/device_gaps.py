"""A device waits, again and again, while one part of the program works on the host.

Bound: the time of the device's pauses in which that part was what the host did.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.profiler.model import HOST, NO_PARENT
from gpuforge.units import format_ns

SOURCE = "https://docs.nvidia.com/nsight-systems/UserGuide/#expert-systems"
SAMPLES = 10
LONG_NS, LONG_SHARE, LOOKED_AT = 5e6, 0.002, 1000


def look(facts: Facts) -> Found:
    """Return one suggestion for each device and part of the program."""
    long = max(LONG_NS, LONG_SHARE * facts.wall_ns)
    for lane, gaps in facts.gaps.items():
        pauses = [gap for gap in gaps if gap[1] - gap[0] >= long]
        if not pauses:
            continue
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        work = _host_work(facts)
        starts = [facts.spans.start[place] for place in work]
        for begin, end in pauses:
            last = bisect_left(starts, end)
            place, shared = _busiest(facts, work[max(last - LOOKED_AT, 0) : last], begin, end)
            name = facts.name(place) if place != NO_PARENT else "the program's own code"
            found[name].append((place, shared))
        device = facts.profile.lanes[lane].name
        for name, shares in found.items():
            waited = sum(shared for _, shared in shares)
            yield facts.suggest(
                f"{device} waits while {name} works on the host",
                [
                    f"{len(shares)} pauses of at least {format_ns(long)}: {facts.share(waited)}",
                    *([facts.told([place for place, _ in shares])] if shares[0][0] >= 0 else ()),
                ],
                waited,
                f"Start {name} for the next piece in a thread while the device works on this one, "
                "or place it too.",
                len(shares),
                shares[0][0],
            )


def _host_work(facts: Facts) -> list[int]:
    """Return the spans of the host that are long enough to fill half a pause, by their start."""
    spans = facts.spans
    found = [
        place
        for place, label in enumerate(spans.label)
        if label == HOST and facts.own[place] * 2 >= LONG_NS
    ]
    return sorted(found, key=spans.start.__getitem__)


def _busiest(facts: Facts, work: list[int], begin: int, end: int) -> tuple[int, int]:
    """Return the innermost span that covers most of a pause, and how much; else the whole pause."""
    for place in reversed(work):
        shared = min(facts.end(place), end) - max(facts.spans.start[place], begin)
        if 2 * shared > end - begin:
            return place, shared
    return NO_PARENT, end - begin
