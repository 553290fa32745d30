"""How much main memory may this process still use, and do control groups limit it?"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from gpuforge import settings
from gpuforge.detect.free_memory import CGROUP, read_free_memory
from gpuforge.detect.source import text_at
from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.units import format_bytes

SUMMARY = "there is free main memory, limits of control groups counted"

LOW_BYTES = 2**30
# Frameworks map several times what they use.
LEAST_ADDRESS_SPACE = 16 * 2**30


def check(site: Site) -> Iterator[Finding]:
    """Return what is available to this process, the control groups counted."""
    memory = read_free_memory(site.probe)
    if memory is None:
        yield Finding("skipped", "this system does not show its available memory in /proc/meminfo")
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
    elif (limit := _address_space(site)) < LEAST_ADDRESS_SPACE:
        message = (
            f"a limit of {format_bytes(limit)} of address space is set, too little for libraries"
        )
        steps = ("Lift it: ulimit -v unlimited",)
        yield Finding("warning", message, "address_space_limited", tuple(evidence), steps)
    elif share >= chosen.pressure_warning or available < LOW_BYTES:
        message = f"only {free}"
        yield of_cause("host_ram_oom_killed", "warning", message, evidence=tuple(evidence))
    else:
        yield Finding("ok", free, evidence=tuple(evidence))


def _address_space(site: Site) -> int:
    """Return the limit of addresses of this process, a large number where there is none."""
    if not site.live or site.probe.platform == "win32":
        return sys.maxsize
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit
