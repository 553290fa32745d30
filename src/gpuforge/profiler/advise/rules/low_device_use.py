"""A device is busy less than half of the time that it is in use, in many short pauses.

Bound: the time of the pauses, without the long ones that have a rule of their own.
"""

from __future__ import annotations

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.profiler.advise.rules.device_gaps import LONG_NS, LONG_SHARE
from gpuforge.profiler.tables import percent

SOURCE = "https://docs.nvidia.com/nsight-systems/UserGuide/#expert-systems"
LOW = 0.5


def look(facts: Facts) -> Found:
    """Return one suggestion for each device."""
    long = max(LONG_NS, LONG_SHARE * facts.wall_ns)
    for lane, gaps in facts.gaps.items():
        places = facts.devices[lane]
        idle = sum(end - begin for begin, end in gaps)
        short = sum(end - begin for begin, end in gaps if end - begin < long)
        period = max(map(facts.end, places)) - facts.spans.start[places[0]]
        if not idle or idle < LOW * period:
            continue
        device = facts.profile.lanes[lane].name
        yield facts.suggest(
            f"{device} is busy for only {percent(1 - idle / period)} of the time that it is in use",
            [facts.told(places), f"{len(gaps)} pauses: {facts.share(idle)}"],
            short,
            "Give it more work in each call: larger arrays, f.map over many items, or several "
            "steps in one function.",
            facts.count(places),
            places[0],
        )
