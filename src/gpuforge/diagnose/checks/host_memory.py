"""How much main memory may this process still use, and do control groups limit it?

A control group counts the files it read as used; what it can give back of them is free here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge import settings
from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.facts import known
from gpuforge.units import format_bytes

SUMMARY = "main memory and control groups leave room"

LOW_BYTES = 2**30
CGROUP = "/sys/fs/cgroup"
# Of version 2 and of version 1: where a group's folder is, its limit, its use, what it can free.
_MEMORY = (
    ("", "memory.max", "memory.current", r"^inactive_file (\d+)"),
    ("/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", r"^total_inactive_file (\d+)"),
)


def check(site: Site) -> Iterator[Finding]:
    """Return what is available to this process, the control groups counted."""
    text = _read(site, "/proc/meminfo")
    match = re.search(r"MemAvailable:\s+(\d+) kB", text)
    if match is None:
        yield Finding("skipped", "this system does not show its available memory in /proc/meminfo")
        return
    available, evidence = int(match[1]) * 1024, ["/proc/meminfo"]
    whole = re.search(r"MemTotal:\s+(\d+) kB", text)
    total = int(whole[1]) * 1024 if whole else 0
    for limit, used in _limits(site):
        if limit - used < available:
            available, total = max(0, limit - used), limit
            evidence = [f"control group: {format_bytes(used)} of {format_bytes(limit)} used"]
    if quota := re.match(r"(\d+) ([1-9]\d*)", _read(site, f"{CGROUP}/cpu.max")):
        evidence.append(f"control group: {int(quota[1]) / int(quota[2]):g} CPUs")
    chosen = settings.load().settings
    share = 1 - available / total if total else 0.0
    free = f"{format_bytes(available)} of main memory are available"
    if share >= chosen.pressure_critical:
        message = f"{share:.0%} of main memory are in use: only {free}"
        yield of_cause("host_ram_oom_killed", "error", message, evidence=tuple(evidence))
    elif share >= chosen.pressure_warning or available < LOW_BYTES:
        message = f"only {free}"
        yield of_cause("host_ram_oom_killed", "warning", message, evidence=tuple(evidence))
    else:
        yield Finding("ok", free, evidence=tuple(evidence))


def _limits(site: Site) -> Iterator[tuple[int, int]]:
    """Return limit and use of each control group that this process is in, as far as it is seen."""
    groups = re.findall(r"^\d+:(?:|[^:]*\bmemory\b[^:]*):(/.*)$", _read(site, "/proc/self/cgroup"),
                        re.M)  # fmt: skip
    # In a container its own group is the root; seen from outside, each group above counts too.
    parts = max(groups, key=len, default="").strip("/").split("/")
    folders = {
        "/".join(["", *parts[:depth]]).rstrip("/") for depth in range(min(len(parts), 20) + 1)
    }
    for root, name, usage, freeable in _MEMORY:
        for folder in sorted(folders):
            at = f"{CGROUP}{root}{folder}"
            limit, used = _read(site, f"{at}/{name}").strip(), _read(site, f"{at}/{usage}").strip()
            if limit.isdecimal() and used.isdecimal():
                free = re.search(freeable, _read(site, f"{at}/memory.stat"), re.M)
                yield int(limit), max(0, int(used) - (int(free[1]) if free else 0))


def _read(site: Site, path: str) -> str:
    return known(site.probe.read_text(path)) or ""
