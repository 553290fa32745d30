"""Threads that share one kind of work finish at different times: one has more of it.

Bound: the time of the busiest thread, less the mean of all: all would take that if shared evenly.
"""

from __future__ import annotations

from collections import defaultdict

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.profiler.model import DEVICE, NO_PARENT
from gpuforge.units import format_ns

SOURCE = "https://hta.readthedocs.io/en/latest/"
UNEVEN, BESIDE = 1.05, 1.2


def look(facts: Facts) -> Found:
    """Return one suggestion for each name of a span that several threads begin with."""
    spans = facts.spans
    shares: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, parent in enumerate(spans.parent):
        lane = spans.lane[place]
        if spans.label[place] != DEVICE and (parent == NO_PARENT or spans.lane[parent] != lane):
            shares[spans.name[place]][lane].append(place)
    for lanes in shares.values():
        busy = sorted(((facts.time(places), lane) for lane, places in lanes.items()), reverse=True)
        everything = [place for places in lanes.values() for place in places]
        period = max(map(facts.end, everything)) - min(spans.start[place] for place in everything)
        total = sum(time for time, _ in busy)
        most, average = busy[0][0], total / len(busy)
        if len(busy) < 2 or most < UNEVEN * average or total < BESIDE * period:
            continue
        slowest = lanes[busy[0][1]]
        yield facts.suggest(
            f"{len(busy)} threads share {facts.name(slowest[0])} unevenly",
            [
                f"{facts.profile.lanes[lane].name}: {facts.count(lanes[lane])} in {format_ns(time)}"
                for time, lane in (busy[0], busy[-1])
            ],
            most - average,
            "Use smaller pieces, so that a thread that has finished takes the next one; "
            "start with the largest "
            "pieces first.",
            facts.count(everything),
            slowest[0],
        )
