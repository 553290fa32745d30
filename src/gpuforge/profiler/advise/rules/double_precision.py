"""float64 is computed on a GPU that has few units for it.

Bound: the time on the device, less that at the rate of float32 where the GPU does n times as much.
"""

from __future__ import annotations

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/#arithmetic-instructions"
TIMES_AS_FAST = {"6.1": 32, "7.5": 32, "8.6": 64, "8.9": 64, "12.0": 64}
"""float32 results per clock for each of float64, by compute capability: the table of the source."""


def look(facts: Facts) -> Found:
    """Return one suggestion for each function."""
    for calls in facts.placed:
        gpu = facts.gpu(calls.spans[0])
        times = TIMES_AS_FAST.get(str(gpu.get("compute_capability")), 0)
        work = calls.work if times else []
        found = [place for place in work if facts.said(place, "dtype") == "float64"]
        if found:
            yield facts.suggest(
                f"{calls.name} computes in float64 on {gpu.get('name') or calls.backend}",
                [facts.told(found), f"this GPU is {times} times as fast in float32"],
                facts.time(found) * (1 - 1 / times),
                "If seven decimal digits are enough, pass float32 arrays. Results change; "
                "compare them.",
                facts.count(found),
                calls.spans[0],
            )
