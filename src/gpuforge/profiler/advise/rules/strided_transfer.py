"""Arrays that are not contiguous are gathered on the host before they are moved to a device.

Bound: their time, less that of the same bytes at the median speed of the contiguous ones of the
profile, or at the link's peak where there are none.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from gpuforge.profiler.advise.facts import Facts, Found
from gpuforge.units import significant

SOURCE = "https://docs.cupy.dev/en/stable/user_guide/performance.html"
LARGE_BYTES = 256 * 1024


def look(facts: Facts) -> Found:
    """Return one suggestion for each function and backend."""
    found: dict[str, list[int]] = defaultdict(list)
    rates: dict[str, list[float]] = defaultdict(list)
    for place in facts.transfers:
        said = facts.spans.attributes.get(place, {})
        if facts.spans.bytes[place] < LARGE_BYTES or said.get("direction") != "to device":
            continue
        backend = facts.backend(place)
        if "strides" in said:
            found[backend].append(place)
        else:
            rates[backend].append(facts.spans.bytes[place] / max(facts.spans.duration[place], 1))
    for backend, places in found.items():
        rate = median(rates[backend]) if rates[backend] else facts.peak(places[0]) / 1e9
        if not rate:
            continue
        said = facts.spans.attributes[places[0]]
        yield facts.suggest(
            f"Arrays that are not contiguous are moved to {backend}",
            [
                facts.told(places),
                f"contiguous ones move at {significant(rate)} GB/s",
                f"steps of {said['strides']} bytes",
            ],
            facts.time(places) - facts.bytes(places) / rate,
            "Make the array contiguous once, with np.ascontiguousarray, before the calls that use "
            "it; or move the whole array and take the view inside the function.",
            facts.count(places),
            places[0],
        )
