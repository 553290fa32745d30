"""Large arrays move at less than half of what the link to the device reaches.

Bound: their time less that of the same bytes at the link's measured peak.
"""

from __future__ import annotations

from collections import defaultdict

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/"
LARGE_BYTES, SLOW = 1024**2, 2.0


def look(facts: Facts) -> Found:
    """Speak once for each backend and direction; arrays in pageable memory have their own rule."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place in facts.transfers:
        if facts.spans.bytes[place] >= LARGE_BYTES and facts.said(place, "pinned") is not False:
            least = facts.least_ns(place)
            if least and facts.spans.duration[place] > SLOW * least:
                found[facts.backend(place), facts.said(place, "direction")].append(place)
    for (backend, direction), places in found.items():
        yield facts.suggest(
            f"Copies {direction} ({backend}) reach less than half of the link's speed",
            [facts.told(places)],
            sum(facts.spans.duration[place] - facts.least_ns(place) for place in places),
            "Look for what slows them down: an array that is not contiguous is copied on the host "
            "first, and other programs may use the link; a GPU's link may have lost lanes.",
            facts.count(places),
            places[0],
            "gpuforge calibrate",
        )
