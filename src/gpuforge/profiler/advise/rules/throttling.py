"""A GPU slowed itself down, because of its temperature or its power limit.

Bound: the time of its work, times the share of readings while it was slowed down, times what is
missing of its highest clock then.
"""

from __future__ import annotations

from statistics import mean

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.nvidia.com/datacenter/dcgm/latest/dcgm-api/dcgm-api-field-ids.html"


def look(facts: Facts) -> Found:
    """Speak once for each device."""
    for device in {one.device for one in facts.profile.series}:
        flags, clocks = facts.series(device, "throttle"), facts.series(device, "clock")
        slowed = [clock for flag, clock in zip(flags, clocks, strict=False) if flag]
        if not slowed or not max(clocks):
            continue
        share, missing = len(slowed) / len(flags), 1 - mean(slowed) / max(clocks)
        busy = sum(
            facts.time(places)
            for lane, places in facts.devices.items()
            if facts.profile.lanes[lane].name.split()[0] == device
        )
        yield facts.suggest(
            f"{device} was slowed down for {share:.0%} of the time",
            [
                f"{len(slowed)} of {len(flags)} readings while slowed down",
                f"its clock was {mean(slowed) / 1e6:.0f} MHz then, of {max(clocks) / 1e6:.0f} MHz",
                f"its work: {facts.share(busy)}",
            ],
            busy * share * missing,
            "Look at its cooling and its power limit. Runs with and without it cannot be compared.",
            len(flags),
            check="gpuforge doctor gpu_health",
        )
