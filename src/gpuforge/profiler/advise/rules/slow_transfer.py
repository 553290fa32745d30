"""Large arrays move less than half as fast as the link to the device can.

Bound: their time less that of the same bytes at the link's measured peak.
"""

from __future__ import annotations

from collections import defaultdict

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.nvidia.com/nsight-systems/UserGuide/#expert-systems"
LARGE_BYTES, SLOW, MOST = 1 << 20, 2.0, 0.5
"""Of smaller ones, what starting a copy takes is not small beside the copy itself."""


def look(facts: Facts) -> Found:
    """Return one suggestion for each function, backend and direction with slow moves."""
    large: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for place in facts.transfers:
        if facts.spans.bytes[place] >= LARGE_BYTES * facts.spans.count[place]:
            direction = str(facts.said(place, "direction", ""))
            large[facts.caller(place), facts.backend(place), direction].append(place)
    for (function, backend, direction), moved in large.items():
        least = {place: facts.least_ns(place) for place in moved}
        places = [p for p in moved if 0 < SLOW * least[p] < facts.spans.duration[p]]
        if not places or len(places) < MOST * len(moved):
            continue
        yield facts.suggest(
            f"Copies {direction} ({backend}) by {function} are slower than the link",
            [facts.told(places)],
            sum(facts.spans.duration[place] - least[place] for place in places),
            "Possible causes: an array that is not contiguous, other programs that use the "
            "link, a GPU whose link has lost lanes; or, for a GPU, memory that is not "
            "pinned: torch.empty(shape, pin_memory=True).numpy() or cupyx.empty_pinned(shape).",
            facts.count(places),
            places[0],
            "gpuforge calibrate",
        )
