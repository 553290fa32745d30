"""Is there enough disk space for installing and caching packages?"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.units import format_bytes

SUMMARY = "there is enough disk space for packages and caches"
LIVE = True

# An installed GPU framework takes 2 to 8 GiB with its libraries.
FULL_BYTES, LOW_BYTES = 64 * 2**20, 4 * 2**30


def check(site: Site) -> Iterator[Finding]:
    """Yield the file systems that are full or nearly full."""
    places = {
        "environment": site.environment.prefix,
        "temporary files": _temporary(),
        "home": Path.home(),
    }
    seen: set[int] = set()
    found = []
    for what, place in places.items():
        if not place.exists() or place.stat().st_dev in seen:
            continue
        seen.add(place.stat().st_dev)
        free = shutil.disk_usage(place).free
        evidence = (f"{place} ({what}): {format_bytes(free)} free",)
        counts = os.statvfs(place) if os.name == "posix" else None
        if counts and counts.f_files and not counts.f_favail:
            message = f"no file can be created for {what}: all inodes are used"
            found.append(of_cause("disk_full", "error", message, evidence=evidence))
        elif free < FULL_BYTES:
            found.append(of_cause("disk_full", "error", evidence=evidence))
        elif free < LOW_BYTES:
            message = f"little disk space is left for {what}: {format_bytes(free)}"
            found.append(of_cause("disk_full", "warning", message, evidence=evidence))
    yield from found or [Finding("ok", "there is enough disk space")]


def _temporary() -> Path:
    named = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return Path(next(filter(None, named), "/tmp"))
