"""The processes of this user that have a GPU open, their GPU memory and their utilization.

Source: Linux ``Documentation/gpu/drm-usage-stats.rst`` (keys of ``/proc/PID/fdinfo/FD``), which
amdgpu, i915 and xe follow. Processes of other users are not shown.
"""

from __future__ import annotations

import re
from collections import defaultdict

from gpuforge.detect.notation import fields_of, size
from gpuforge.detect.source import names_in, text_at
from gpuforge.facts import known
from gpuforge.probe import Probe
from gpuforge.readings.model import ProcessOnDevice
from gpuforge.readings.rate import Rate

SCAN_EVERY = 10
"""Look for newly opened files only at every so many readings, because scanning /proc is slow."""
_ENGINE = re.compile(r"drm-engine-(?!capacity-)([\w-]+)")
_OWN, _SHARED = re.compile(r"vram|local|lmem"), re.compile(r"system|gtt|smem")


class Clients:
    """The processes that have the GPUs of one vendor open."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._files: list[tuple[int, str]] = []
        self._turn = 0
        self._busy: dict[tuple[str, str, str], Rate] = {}

    def read(self) -> dict[str, tuple[ProcessOnDevice, ...]]:
        """Return the processes that have each GPU open, by its PCI address."""
        if self._turn % SCAN_EVERY == 0:
            self._files = self._scan()
        self._turn += 1
        memory: defaultdict[tuple[str, int], int] = defaultdict(int)
        busy: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
        seen: set[tuple[str, str]] = set()
        engines: dict[tuple[str, str, str], Rate] = {}
        for pid, path in self._files:
            fields = fields_of(text_at(self._probe, path))
            place, client = fields.get("drm-pdev", ""), fields.get("drm-client-id", path)
            if not place or (place, client) in seen:  # one client may have several descriptors
                continue
            seen.add((place, client))
            memory[place, pid] += _memory(fields)
            for key, value in fields.items():
                if match := _ENGINE.fullmatch(key):
                    name = place, client, match[1]
                    engines[name] = self._busy.get(name) or Rate(self._probe.clock)
                    capacity = int(fields.get(f"drm-engine-capacity-{match[1]}", "1") or 1)
                    share = known(engines[name].per_second(_nanoseconds(value) * 1e-9 / capacity))
                    busy[place, pid] += [] if share is None else [share]
        self._busy = engines
        found: defaultdict[str, list[ProcessOnDevice]] = defaultdict(list)
        for (place, pid), held in memory.items():
            shares = busy[place, pid]
            one = ProcessOnDevice(pid, held)
            found[place].append(
                ProcessOnDevice(pid, held, min(1.0, max(shares))) if shares else one
            )
        return {place: tuple(ones) for place, ones in found.items()}

    def _scan(self) -> list[tuple[int, str]]:
        """Return pid and ``fdinfo`` path of every open file under ``/dev/dri``."""
        found = []
        for pid in names_in(self._probe, "/proc"):
            for handle in names_in(self._probe, f"/proc/{pid}/fd") if pid.isdigit() else ():
                target = self._probe.read_link(f"/proc/{pid}/fd/{handle}")
                if isinstance(target, str) and target.startswith("/dev/dri/"):
                    found.append((int(pid), f"/proc/{pid}/fdinfo/{handle}"))
        return found


def _memory(fields: dict[str, str]) -> int:
    """Return the bytes of device memory in use, or of shared system memory if it has none."""
    kinds: dict[str, int] = {}
    for kind in ("total", "memory", "resident"):  # the last one present wins
        for key, value in fields.items():
            if key.startswith(f"drm-{kind}-"):
                kinds[key.split("-", 2)[2]] = size(value) or 0
    own = [held for name, held in kinds.items() if _OWN.match(name)]
    return sum(own or [held for name, held in kinds.items() if _SHARED.match(name)])


def _nanoseconds(text: str) -> int:
    digits = text.partition(" ")[0]
    return int(digits) if digits.isdigit() else 0
