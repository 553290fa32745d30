"""Live values of the host from ``/proc``: CPU, memory, load, pressure, and single processes.

Sources: Linux ``Documentation/filesystems/proc.rst`` (stat, meminfo, loadavg, pid/stat) and
``Documentation/accounting/psi.rst`` (pressure stall information).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from gpuforge.detect.free_memory import read_free_memory
from gpuforge.facts import NOT_SHOWN, Absent, Failed, Reading
from gpuforge.probe import Probe
from gpuforge.readings.model import HostReading
from gpuforge.readings.rate import FIRST

NOT_LINUX = Absent("only Linux shows it in /proc")


class HostReader:
    """Reads the host; keeps the CPU's counters from one reading to the next."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._before: tuple[int, int] | None = None

    def read(self) -> HostReading:
        """Return the current values."""
        if self._probe.platform != "linux":
            return HostReading(*[NOT_LINUX] * 10)
        stat = self._probe.read_text("/proc/stat")
        memory = read_free_memory(self._probe)
        swap_total, swap_free = self._meminfo("SwapTotal", "SwapFree")
        used = swap_total
        if isinstance(swap_total, int) and isinstance(swap_free, int):
            used = swap_total - swap_free
        return HostReading(
            cores=len(re.findall(r"^cpu\d", stat, re.M)) if isinstance(stat, str) else stat,
            utilization_ratio=self._utilization(stat),
            memory_total_bytes=memory.total_bytes if memory else NOT_SHOWN,
            memory_available_bytes=memory.free_bytes if memory else NOT_SHOWN,
            swap_used_bytes=used,
            swap_total_bytes=swap_total,
            load_averages=_load(self._probe.read_text("/proc/loadavg")),
            cpu_pressure_ratio=self._pressure("cpu"),
            memory_pressure_ratio=self._pressure("memory"),
            io_pressure_ratio=self._pressure("io"),
        )

    def _utilization(self, stat: Reading[str]) -> Reading[float]:
        if not isinstance(stat, str):
            return stat
        # user nice system idle iowait irq softirq steal; user and nice already include guest time.
        ticks = [
            int(word)
            for word in stat.partition("\n")[0].split()[1:9]
            if word.isdigit() and len(word) < 20
        ]
        if len(ticks) < 5:
            return Failed("the first line of /proc/stat does not contain the CPU's times")
        idle, total = ticks[3] + ticks[4], sum(ticks)
        before, self._before = self._before, (idle, total)
        if before is None or total <= before[1]:
            return FIRST
        share = (idle - before[0]) / (total - before[1])
        return min(1.0, max(0.0, 1.0 - share))

    def _meminfo(self, *names: str) -> list[Reading[int]]:
        text = self._probe.read_text("/proc/meminfo")
        if not isinstance(text, str):
            return [text] * len(names)
        found = (re.search(rf"^{name}:\s+(\d+) kB", text, re.M) for name in names)
        return [int(one[1]) * 1024 if one else NOT_SHOWN for one in found]

    def _pressure(self, what: str) -> Reading[float]:
        text = self._probe.read_text(f"/proc/pressure/{what}")
        if isinstance(text, Absent):
            return Absent("this kernel does not provide pressure stall information")
        if isinstance(text, Failed):
            return text
        found = re.search(r"^some avg10=(\d+\.\d+)", text, re.M)
        return float(found[1]) / 100 if found else Failed(f"/proc/pressure/{what} has no average")


def _load(text: Reading[str]) -> Reading[tuple[float, ...]]:
    if not isinstance(text, str):
        return text
    found = re.match(r"(\d+\.\d+) (\d+\.\d+) (\d+\.\d+) ", text)
    return tuple(map(float, found.groups())) if found else Failed("/proc/loadavg has no averages")


@dataclass(frozen=True)
class ProcessUse:
    """Host resources that one process uses.

    Attributes
    ----------
    resident_bytes : resident set size
    cpu_seconds : CPU time of all its threads since it started
    threads : number of threads
    """

    resident_bytes: int
    cpu_seconds: float
    threads: int


def read_process(probe: Probe, pid: int) -> Reading[ProcessUse]:
    """Return the resources that a process uses; `Absent` if there is no such process."""
    text = probe.read_text(f"/proc/{pid}/stat")
    if not isinstance(text, str):
        return text
    # The process name is in parentheses and may contain any character, parentheses included.
    words = text.rpartition(")")[2].split()
    try:
        user, system, threads, pages = (int(words[n]) for n in (11, 12, 17, 21))
    except (IndexError, ValueError):
        return Failed(f"/proc/{pid}/stat is not in the expected format")
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    return ProcessUse(pages * page, (user + system) / tick, threads)
