"""How much main memory this process may still use, control groups counted.

A control group counts the files it read as used; what it can give back of them is free here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuforge.detect.source import text_at
from gpuforge.probe import LiveProbe, Probe
from gpuforge.units import format_bytes

CGROUP = "/sys/fs/cgroup"
# Of version 2 and of version 1: where a group's folder is, its limit, its use, what it can free.
_MEMORY = (
    ("", "memory.max", "memory.current", r"^inactive_file (\d+)"),
    ("/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", r"^total_inactive_file (\d+)"),
)
# What version 1 shows where nothing is limited is close to 2^63.
_NO_LIMIT_BYTES = 2**50


class FreeMemory(NamedTuple):
    """What is left of a memory, or of the narrowest control group; where that was read."""

    free_bytes: int
    total_bytes: int
    evidence: str = ""


def read_free_memory(probe: Probe | None = None) -> FreeMemory | None:
    """Return what this process may still use; None where the system does not show it."""
    probe = probe or LiveProbe()
    text = text_at(probe, "/proc/meminfo")
    free = re.search(r"MemAvailable:\s+(\d+) kB", text)
    if free is None:
        return None
    whole = re.search(r"MemTotal:\s+(\d+) kB", text)
    total = int(whole[1]) * 1024 if whole else 0
    found = FreeMemory(int(free[1]) * 1024, total, "/proc/meminfo")
    for limit, used in limits(probe):
        if limit - used < found.free_bytes:
            evidence = f"control group: {format_bytes(used)} of {format_bytes(limit)} used"
            found = FreeMemory(max(0, limit - used), limit, evidence)
    return found


def control_groups(probe: Probe) -> list[str]:
    """Return this process's control group and those above it, as folders below a hierarchy."""
    text = text_at(probe, "/proc/self/cgroup")
    groups = re.findall(r"^\d+:(?:|[^:]*\bmemory\b[^:]*):(/.*)$", text, re.M)
    # In a container its own group is the root; seen from outside, each group above counts too.
    parts = [p for p in max(groups, key=len, default="").split("/") if p not in ("", "..")][:16]
    return ["/".join(["", *parts[:depth]]) for depth in range(len(parts), -1, -1)]


def limits(probe: Probe) -> Iterator[tuple[int, int]]:
    """Return limit and use of each control group that this process is in, as far as it is seen."""
    for root, name, usage, freeable in _MEMORY:
        for folder in control_groups(probe):
            at = f"{CGROUP}{root}{folder}"
            limit, used = (_bytes(text_at(probe, f"{at}/{file}")) for file in (name, usage))
            if limit is not None:
                free = re.search(freeable, text_at(probe, f"{at}/memory.stat"), re.M)
                yield limit, max(0, (used or 0) - (int(free[1]) if free else 0))


def _bytes(text: str) -> int | None:
    """Return the bytes that a control group's file names; None for "max", and what means it."""
    found = int(text) if text.strip().isdecimal() else 0
    return found if 0 < found < _NO_LIMIT_BYTES else None
