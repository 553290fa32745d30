"""What a process holds: memory, descriptors, threads, children. Linux alone tells it all."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Any


def children(pid: int) -> list[int]:
    """Return the processes that a process started and that have not ended, and theirs."""
    found: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, _read(tasks).split()):
            found += [child, *children(child)]
    return found


def look(pid: int) -> dict[str, Any]:
    """Return what a process holds now; `kinds` says what its descriptors are."""
    kinds: Counter[str] = Counter()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            kinds[re.sub(r"[:/].*", "", os.readlink(link)) or "file"] += 1
        except OSError:  # the listing's own
            continue
    below = children(pid)
    return {
        "memory_bytes": resident_bytes(pid),
        "descriptors": kinds.total(),
        "threads": int(
            re.search(r"^Threads:\s*(\d+)", _read(Path(f"/proc/{pid}/status")), re.M)[1]
        ),  # type: ignore[index]
        "children": len(below),
        "children_memory_bytes": sum(map(resident_bytes, below)),
        "kinds": dict(kinds),
    }


def resident_bytes(pid: int) -> int:
    """Return the memory of a process; 0 of one that has ended."""
    fields = _read(Path(f"/proc/{pid}/statm")).split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process or thread has ended
        return ""
