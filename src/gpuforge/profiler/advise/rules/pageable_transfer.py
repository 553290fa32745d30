"""Arrays are copied to or from a GPU out of ordinary memory, which the driver copies twice.

Bound: their time less that of the same bytes at the link's measured peak.
"""

from __future__ import annotations

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.nvidia.com/nsight-systems/UserGuide/#expert-systems"
LARGE_BYTES = 64 * 1024


def look(facts: Facts) -> Found:
    """Speak once for all of them."""
    found = [
        place
        for place in facts.transfers
        if facts.spans.bytes[place] >= LARGE_BYTES
        and facts.said(place, "pinned") is False
        and facts.peak(place)
    ]
    if found:
        yield facts.suggest(
            "Arrays move between the GPU and memory that is not pinned",
            [facts.told(found)],
            sum(facts.spans.duration[place] - facts.least_ns(place) for place in found),
            "Make the arrays that are moved often in pinned memory, for instance "
            "torch.empty(shape, pin_memory=True).numpy() or cupyx.empty_pinned(shape).",
            facts.count(found),
            found[0],
        )
