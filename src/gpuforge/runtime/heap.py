"""Keep the memory of freed arrays for the next ones.

glibc returns the end of the heap to the system as soon as more than a threshold of it is free, and
requests it again, page by page, for the next array. How often that happens is chance: importing a
library moves the end of the heap, and the same sums over arrays of 16 MB then take up to twice as
long. With a higher threshold, freed memory stays in the process.

Sources: glibc manual, "Memory Allocation Tunables" and mallopt(3). An array of more than
`LARGEST_BYTES`, the highest value that glibc takes, has pages of its own in any case.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading

from gpuforge.detect.free_memory import read_free_memory
from gpuforge.log import logger
from gpuforge.units import format_bytes

LARGEST_BYTES = 32 * 2**20
SHARE_OF_MEMORY = 1 / 32
"""The process keeps at most this share of the memory that it may use."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")
_log = logger("heap")
_lock = threading.Lock()
kept_bytes = 0
"""Limit for the freed memory that this process keeps; 0 for the C library's default."""


def keep(wanted: int) -> str:
    """Keep freed memory in the process, up to `wanted` bytes, from now on.

    This applies to the whole process and cannot be undone, since glibc stops adapting its
    thresholds. Returns why nothing was changed; empty if it was.
    """
    global kept_bytes
    with _lock:
        if kept_bytes:
            return "it was already set"
        reason = _reason_against(wanted)
        memory = None if reason else read_free_memory()
        if memory is None:
            reason = reason or "the system does not report its memory size"
        else:
            most = min(wanted, int(memory.total_bytes * SHARE_OF_MEMORY))
            if _set(most):
                kept_bytes = most
            else:
                reason = "the C library rejected it"
    _log.info("keeping freed memory: %s", reason or format_bytes(kept_bytes))
    return reason


def _reason_against(wanted: int) -> str:
    if not wanted:
        return "the setting kept_memory is 0"
    if sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"):
        return "it needs glibc"
    chosen = [name for name in _VARIABLES if name in os.environ]
    if "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        chosen.append("GLIBC_TUNABLES")
    return f"{chosen[0]} is set" if chosen else ""


def _set(most: int) -> bool:
    """Set both thresholds: once one is set, glibc no longer adapts the other."""
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_MMAP_THRESHOLD, LARGEST_BYTES) and mallopt(_TRIM_THRESHOLD, most))
