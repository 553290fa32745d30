"""Parsing and judging the figures that PyTorch prints when an allocation fails."""

from __future__ import annotations

import re

from gpuforge.units import parse_bytes

# At least this share of the card must be reserved but unused for fragmentation; less is normal.
FRAGMENTED_SHARE = 0.09
FULL_SHARE = 0.95
_SIZE = r"([\d.]+ ?[KMGT]i?B|\d+ bytes)"
_FIGURES = {
    "request": re.compile(rf"tried to allocate {_SIZE}", re.IGNORECASE),
    "total": re.compile(rf"(?:total capacity of {_SIZE}|{_SIZE} total capacity)", re.IGNORECASE),
    "allocated": re.compile(
        rf"(?:{_SIZE} is allocated by pytorch|{_SIZE} already allocated)", re.IGNORECASE
    ),
    "unused": re.compile(rf"{_SIZE} is reserved by pytorch but unallocated", re.IGNORECASE),
    "reserved": re.compile(rf"{_SIZE} reserved in total by pytorch", re.IGNORECASE),
}


def parse_figures(line: str) -> dict[str, int]:
    """Return the sizes in `line`, in bytes by name."""
    found = {}
    for name, pattern in _FIGURES.items():
        match = pattern.search(line)
        if match:
            text = next(group for group in match.groups() if group)
            found[name] = parse_bytes(text.replace("bytes", "B"))
    if "reserved" in found and "allocated" in found:
        found.setdefault("unused", max(0, found["reserved"] - found["allocated"]))
    return found


def is_fragmented(line: str, total_bytes: int | None = None) -> bool:
    """Return whether the reserved but unused memory would have satisfied the failed request.

    Parameters
    ----------
    line
        The message of the failed allocation.
    total_bytes
        Memory of the card, if it is known from elsewhere.
    """
    sizes = parse_figures(line)
    unused, allocated = sizes.get("unused", 0), sizes.get("allocated", 0)
    total = total_bytes or sizes.get("total") or unused + allocated
    if allocated >= FULL_SHARE * total:  # memory beyond that of the card is host memory
        return False
    return unused > sizes.get("request", 0) and unused >= FRAGMENTED_SHARE * max(total, 1)
