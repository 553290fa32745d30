"""How much main memory this process may still use, control groups counted.

A control group counts the files it read as used; what it can give back of them is free here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuforge.detect.source import text_at
from gpuforge.probe import Probe
from gpuforge.units import format_bytes

CGROUP = "/sys/fs/cgroup"
# Of version 2 and of version 1: where a group's folder is, its limit, its use, what it can free.
_MEMORY = (
    ("", "memory.max", "memory.current", r"^inactive_file (\d+)"),
    ("/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", r"^total_inactive_file (\d+)"),
)


@dataclass(frozen=True)
class FreeMemory:
    """What is left of main memory, or of the narrowest control group; where that was read."""

    free_bytes: int
    total_bytes: int
    evidence: str


def read_free_memory(probe: Probe) -> FreeMemory | None:
    """Return what this process may still use; None where the system does not show it."""
    text = text_at(probe, "/proc/meminfo")
    free = re.search(r"MemAvailable:\s+(\d+) kB", text)
    if free is None:
        return None
    whole = re.search(r"MemTotal:\s+(\d+) kB", text)
    total = int(whole[1]) * 1024 if whole else 0
    found = FreeMemory(int(free[1]) * 1024, total, "/proc/meminfo")
    for limit, used in _limits(probe):
        if limit - used < found.free_bytes:
            evidence = f"control group: {format_bytes(used)} of {format_bytes(limit)} used"
            found = FreeMemory(max(0, limit - used), limit, evidence)
    return found


def _limits(probe: Probe) -> Iterator[tuple[int, int]]:
    """Return limit and use of each control group that this process is in, as far as it is seen."""
    groups = re.findall(r"^\d+:(?:|[^:]*\bmemory\b[^:]*):(/.*)$",
                        text_at(probe, "/proc/self/cgroup"), re.M)  # fmt: skip
    # In a container its own group is the root; seen from outside, each group above counts too.
    parts = max(groups, key=len, default="").strip("/").split("/")
    folders = {
        "/".join(["", *parts[:depth]]).rstrip("/") for depth in range(min(len(parts), 20) + 1)
    }
    for root, name, usage, freeable in _MEMORY:
        for folder in sorted(folders):
            at = f"{CGROUP}{root}{folder}"
            limit = text_at(probe, f"{at}/{name}").strip()
            used = text_at(probe, f"{at}/{usage}").strip()
            if limit.isdecimal() and used.isdecimal():
                free = re.search(freeable, text_at(probe, f"{at}/memory.stat"), re.M)
                yield int(limit), max(0, int(used) - (int(free[1]) if free else 0))
