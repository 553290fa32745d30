"""Large arrays move slower than the link to the device can, or in memory that is not pinned.

Bound: their time less that of the same bytes at the link's measured peak.
"""

from __future__ import annotations

from collections import defaultdict

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.nvidia.com/nsight-systems/UserGuide/#expert-systems"
LARGE_BYTES, SLOW = 256 * 1024, 2.0


def look(facts: Facts) -> Found:
    """Speak once for each backend, direction and kind of memory."""
    found: dict[tuple[str, str, bool], list[int]] = defaultdict(list)
    for place in facts.transfers:
        if facts.spans.bytes[place] >= LARGE_BYTES and (least := facts.least_ns(place)):
            pageable = facts.said(place, "pinned") is False
            if pageable or facts.spans.duration[place] > SLOW * least:
                key = facts.backend(place), facts.said(place, "direction"), pageable
                found[key].append(place)
    for (backend, direction, pageable), places in found.items():
        yield facts.suggest(
            f"Copies {direction} ({backend}) are slower than the link"
            + (": their memory is not pinned" if pageable else ""),
            [facts.told(places)],
            sum(facts.spans.duration[place] - facts.least_ns(place) for place in places),
            "Make the arrays that are moved often in pinned memory, for instance "
            "torch.empty(shape, pin_memory=True).numpy() or cupyx.empty_pinned(shape)."
            if pageable
            else "Look for what slows them down: an array that is not contiguous, other programs "
            "that use the link, a GPU whose link has lost lanes.",
            facts.count(places),
            places[0],
            "" if pageable else "gpuforge calibrate",
        )
