"""Is shared memory large enough for data loaders and NCCL?"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.units import format_bytes

SUMMARY = "shared memory is large enough for data loaders"
LIVE = True

# Docker's default is 64 MiB; a single worker that prefetches images exceeds it.
SMALL_BYTES = 256 * 2**20
FOLDER = Path("/dev/shm")


def check(site: Site) -> Iterator[Finding]:
    """Yield whether /dev/shm is too small or full."""
    if not FOLDER.is_dir():
        yield Finding("skipped", f"this system has no {FOLDER}")
    else:
        usage = shutil.disk_usage(FOLDER)
        evidence = (f"{FOLDER}: {format_bytes(usage.free)} of {format_bytes(usage.total)} free",)
        if usage.free < SMALL_BYTES:
            yield of_cause("shm_too_small", "warning", evidence=evidence)
        else:
            yield Finding("ok", f"{format_bytes(usage.free)} of shared memory is free")
