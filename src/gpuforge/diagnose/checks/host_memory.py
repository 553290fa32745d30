"""How much more host memory may this process use, given the limits of control groups?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge import settings
from gpuforge.detect.free_memory import CGROUP, read_free_memory
from gpuforge.detect.source import text_at
from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.units import format_bytes

SUMMARY = "enough main memory is free, within the limits of control groups"

LOW_BYTES = 2**30


def check(site: Site) -> Iterator[Finding]:
    """Yield the memory that is available to this process within its control groups."""
    memory = read_free_memory(site.probe)
    if memory is None:
        yield Finding("skipped", "/proc/meminfo does not show the available memory")
        return
    available, total, evidence = memory.free_bytes, memory.total_bytes, [memory.evidence]
    if quota := re.match(r"(\d+) ([1-9]\d*)", text_at(site.probe, f"{CGROUP}/cpu.max")):
        evidence.append(f"control group: {int(quota[1]) / int(quota[2]):g} CPUs")
    chosen = settings.load().settings
    share = 1 - available / total if total else 0.0
    free = f"{format_bytes(available)} of main memory is available"
    if share >= chosen.pressure_critical:
        message = f"{share:.0%} of main memory is in use: only {free}"
        yield of_cause("host_ram_oom_killed", "error", message, evidence=tuple(evidence))
    elif share >= chosen.pressure_warning or available < LOW_BYTES:
        message = f"only {free}"
        yield of_cause("host_ram_oom_killed", "warning", message, evidence=tuple(evidence))
    else:
        yield Finding("ok", free, evidence=tuple(evidence))
