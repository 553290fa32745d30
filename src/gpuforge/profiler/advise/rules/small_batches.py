"""A GPU is neither busy nor full: there is room for more work in each call.

Bound: the wall time, times what is missing of the utilisation: 1 - its mean.
"""

from __future__ import annotations

from statistics import mean

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.profiler.tables import percent
from gpuforge.units import format_bytes

SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/debugger-built-in-profiler-rules.html"
LOW_USE, LOW_MEMORY = 0.7, 0.5


def look(facts: Facts) -> Found:
    """Return one suggestion for each device."""
    for device, (gpu, _) in facts.worked.items():
        use = facts.series(device, "utilisation").values()
        memory = facts.series(device, "memory used").values()
        room = float(gpu.get("memory_total_bytes") or 0)
        if not use or not memory or not room:
            continue
        busy, most = mean(use), max(memory)
        if busy < LOW_USE and most < LOW_MEMORY * room:
            yield facts.suggest(
                f"{gpu.get('name') or device} is used for {percent(busy)} of the time and"
                f" {percent(most / room)} of its memory",
                [
                    f"{len(use)} readings of its utilisation, {percent(busy)} on average",
                    f"at most {format_bytes(int(most))} of {format_bytes(int(room))} in use",
                ],
                facts.wall_ns * (1 - busy),
                "Try larger batches, and measure: throughput rises until the device is busy.",
                len(use),
            )
