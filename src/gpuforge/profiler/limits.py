"""Limits on the calls, transfers and device memory of a profile."""

from __future__ import annotations

from collections.abc import Mapping

from gpuforge.profiler.model import NO_PARENT, OVERHEAD, TRANSFER, Profile
from gpuforge.units import format_bytes

NAMES = ("calls", "transfers", "transfer_bytes", "device_bytes")
"""What can be limited: calls of offloaded functions on other backends than NumPy, transfers of
arrays to or from them (without those of opening a library, which only its first call makes), the
bytes of these transfers, and the peak memory in use on one device."""


def used(profile: Profile) -> dict[str, int | None]:
    """Return the use of each of `NAMES` in a profile; None if it could not be read."""
    spans = profile.spans
    opens: list[bool] = []
    moves = []
    for span in spans:
        own = span.label == OVERHEAD and span.name == "open" and "function" not in span.attributes
        opens.append(own or (span.parent != NO_PARENT and opens[span.parent]))
        if span.label == TRANSFER and not opens[-1]:
            moves.append(span.index)
    calls = sum(one.calls for one in profile.placements if one.backend != "numpy")
    memory = [
        max(one.values)
        for one in profile.series
        if one.name == "memory" and one.device != "host" and one.values
    ]
    return {
        "calls": calls,
        "transfers": sum(spans.count[place] for place in moves),
        "transfer_bytes": sum(spans.bytes[place] for place in moves),
        "device_bytes": int(max(memory)) if memory else None if calls else 0,
    }


def exceeded(profile: Profile, limits: Mapping[str, int]) -> list[str]:
    """Return a sentence for each limit that a profile exceeds or has no reading for."""
    found = []
    for name, shown in used(profile).items():
        limit = limits.get(name)
        if limit is None:
            continue
        words = name.replace("_", " ")
        if shown is None:
            found.append(f"{words} could not be read: no backend that ran reports its memory")
        elif shown > limit:
            number = format_bytes if name.endswith("bytes") else "{:,}".format
            found.append(f"{number(shown)} {words}, more than the limit of {number(limit)}")
    return found
