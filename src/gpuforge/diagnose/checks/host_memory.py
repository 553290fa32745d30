"""How much main memory may this process still use, and do control groups limit it?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.facts import known
from gpuforge.units import format_bytes

SUMMARY = "main memory and control groups leave room"

LOW_BYTES = 2**30
CGROUP = "/sys/fs/cgroup"


def check(site: Site) -> Iterator[Finding]:
    """Return what is available to this process, the control group counted."""
    text = known(site.probe.read_text("/proc/meminfo")) or ""
    match = re.search(r"MemAvailable:\s+(\d+) kB", text)
    if match is None:
        yield Finding("skipped", "this system does not show its available memory in /proc/meminfo")
        return
    available, evidence = int(match[1]) * 1024, ["/proc/meminfo"]
    limit, used = _number(site, "memory.max"), _number(site, "memory.current")
    if limit is not None and used is not None and limit - used < available:
        available = max(0, limit - used)
        evidence = [f"control group: {format_bytes(used)} of {format_bytes(limit)} used"]
    quota = known(site.probe.read_text(f"{CGROUP}/cpu.max")) or ""
    if (parts := quota.split()) and len(parts) == 2 and parts[0].isdecimal():
        evidence.append(f"control group: {int(parts[0]) / int(parts[1]):g} CPUs")
    if available < LOW_BYTES:
        message = f"only {format_bytes(available)} of main memory are available"
        yield of_cause("host_ram_oom_killed", "warning", message, evidence=tuple(evidence))
    else:
        yield Finding("ok", f"{format_bytes(available)} of main memory are available",
                      evidence=tuple(evidence))  # fmt: skip


def _number(site: Site, name: str) -> int | None:
    text = (known(site.probe.read_text(f"{CGROUP}/{name}")) or "").strip()
    return int(text) if text.isdecimal() else None
