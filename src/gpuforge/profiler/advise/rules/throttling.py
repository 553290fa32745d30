"""A GPU or the CPU slowed itself down, because of its temperature or its power limit.

Bound: the time of a GPU's work, or all for the CPU, times the share of readings while it was slowed
down, times what was missing of its clock otherwise, or of its highest where it always was.
"""

from __future__ import annotations

from statistics import mean
from typing import Any

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.profiler.tables import percent

SOURCE = "https://docs.nvidia.com/datacenter/dcgm/latest/dcgm-api/dcgm-api-field-ids.html"


def look(facts: Facts) -> Found:
    """Return one suggestion for each device."""
    for device, (gpu, places) in {**facts.worked, "host": ({}, [])}.items():
        yield from _look(facts, device, gpu, facts.time(places) if gpu else facts.wall_ns)


def _look(facts: Facts, device: str, gpu: dict[str, Any], busy: int) -> Found:
    flags, clocks = facts.series(device, "throttled"), facts.series(device, "clock")
    slowed = {at: clocks[at] for at, flag in flags.items() if flag and at in clocks}
    free = [clock for at, clock in clocks.items() if at in flags and not flags[at]]
    highest = max(free) if free else float(gpu.get("core_clock_max_hertz") or 0)
    if not slowed or not highest:
        return
    clock, share = mean(slowed.values()), len(slowed) / len(flags)
    start = "throttled: "
    names = {one.name for one in facts.profile.series if one.device == device}
    reasons = sorted(name.removeprefix(start) for name in names if name.startswith(start))
    yield facts.suggest(
        f"{gpu.get('name') or device} was slowed down for {percent(share)} of the time",
        [
            f"{len(slowed)} of {len(flags)} readings of {device} show throttling"
            + (f": {', '.join(reasons)}" if reasons else ""),
            f"its clock was {clock / 1e6:.0f} MHz then, of {highest / 1e6:.0f} MHz",
            f"its work: {facts.share(busy)}",
        ],
        busy * share * (1 - clock / highest),
        "Check its cooling and power limit. Throttled and other runs cannot be compared.",
        len(flags),
        check="gpuforge doctor gpu_health",
    )
