"""How much main memory this process may still use, limits of control groups included.

A control group counts cached file pages as used; those it can reclaim count as free here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuforge.detect.source import text_at
from gpuforge.probe import LiveProbe, Probe
from gpuforge.units import format_bytes

CGROUP = "/sys/fs/cgroup"
UNLIMITED_BYTES = 2**50
# Control groups v2, then v1: hierarchy, files of limit and use, counter of reclaimable pages.
_MEMORY = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


class FreeMemory(NamedTuple):
    """Free main memory, or that of the tightest control group, and where it was read."""

    free_bytes: int
    total_bytes: int
    evidence: str = ""


def read_free_memory(probe: Probe | None = None) -> FreeMemory | None:
    """Return how much this process may still use; None where the system does not show it."""
    probe = probe or LiveProbe()
    text = text_at(probe, "/proc/meminfo")
    free, whole = (_number(text, name) for name in ("MemAvailable:", "MemTotal:"))
    if free is None:
        return None
    found = FreeMemory(free * 1024, (whole or 0) * 1024, "/proc/meminfo")
    for limit, used in limits(probe):
        if limit - used < found.free_bytes:
            evidence = f"control group: {format_bytes(used)} of {format_bytes(limit)} used"
            found = FreeMemory(max(0, limit - used), limit, evidence)
    return found


def control_groups(probe: Probe) -> list[str]:
    """Return this process's control group and its ancestors, as folders below a hierarchy."""
    text = text_at(probe, "/proc/self/cgroup")
    lines = (line.split(":", 2) for line in text.splitlines())
    groups = [line[2] for line in lines if len(line) == 3 and _counts_memory(line[1], line[2])]
    # Inside a container its own group is the root; outside, every ancestor's limit applies too.
    parts = [p for p in max(groups, key=len, default="").split("/") if p not in ("", "..")][:16]
    return ["/".join(["", *parts[:depth]]) for depth in range(len(parts), -1, -1)]


def limits(probe: Probe) -> Iterator[tuple[int, int]]:
    """Yield limit and use, in bytes, of each control group of this process that is visible."""
    for root, name, usage, freeable in _MEMORY:
        for folder in control_groups(probe):
            at = f"{CGROUP}{root}{folder}"
            limit, used = (_number(text_at(probe, f"{at}/{file}")) for file in (name, usage))
            if limit and limit < UNLIMITED_BYTES:
                free = _number(text_at(probe, f"{at}/memory.stat"), freeable)
                yield limit, max(0, (used or 0) - (free or 0))


def _counts_memory(controllers: str, folder: str) -> bool:
    """Return whether a line of ``/proc/self/cgroup`` names the group that accounts for memory."""
    return folder.startswith("/") and (not controllers or "memory" in controllers.split(","))


def _number(text: str, name: str = "") -> int | None:
    """Return the number that stands alone in a text, or after a name at the start of a line."""
    for line in text.splitlines():
        words = line.split()
        if words and (not name or words[0] == name):
            number = words[-1 if not name else min(1, len(words) - 1)]
            return int(number) if number.isascii() and number.isdigit() else None
    return None
