"""The machine of a profile: its facts, and readings of its devices and CPU during the recording.

No external tool is started, because the program may wait for its children and must not see others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from gpuforge import settings
from gpuforge.detect.cache import Cache
from gpuforge.detect.machine import detect_machine
from gpuforge.detect.score import bandwidth_of
from gpuforge.facts import NOT_SHOWN, Absent, Device, Failed, Host, Machine, Reading, known
from gpuforge.probe import LiveProbe, Output, Probe
from gpuforge.profiler.model import Series
from gpuforge.readings import DeviceReaders
from gpuforge.readings.cpu import CpuReader
from gpuforge.readings.host import HostReader
from gpuforge.readings.model import DeviceReading

GPU_READINGS = {
    "utilization_ratio": ("utilisation", "ratio"), "memory_used_bytes": ("memory used", "bytes"),
    "core_clock_hertz": ("clock", "hertz"), "memory_clock_hertz": ("memory clock", "hertz"),
    "temperature_celsius": ("temperature", "celsius"), "power_watts": ("power", "watts"),
}  # fmt: skip
"""Fields of a GPU reading that are recorded, with the name and unit of their series."""
IN_USE = "memory in use"
"""Series of the share of a memory that is in use, of which pages show the levels."""
_FIXED = ("core_clock_max_hertz", "memory_clock_max_hertz", "temperature_limit_celsius",
          "power_limit_watts")  # fmt: skip
_HOST = ("platform", "machine", "cpu_model", "cores", "memory_total_bytes")
_GPU = ("name", "memory_total_bytes", "compute_capability", "architecture", "pci_address", "uuid")
_DATA_SHEET = "a data sheet (gpuforge/detect/architectures.toml names it)"


class _WithoutTools(LiveProbe):
    """This machine, read without starting any tool."""

    def run(self, argv: Sequence[str], *, timeout: float = 0.0) -> Reading[Output]:
        return Absent("no tools are run inside a program that is being profiled")


def machine_now() -> Machine:
    """Return this machine from the cache, or detect it now from files and libraries."""
    chosen = settings.load().settings
    folder = settings.cache_folder(chosen) / "detect"
    kept = Cache(folder, chosen.cache_seconds).get(LiveProbe()) if chosen.detect_cache else None
    return kept or detect_machine(
        _WithoutTools(), vendor_seconds=chosen.vendor_seconds, crumbs=folder
    )


class Watched:
    """A machine that is read repeatedly; must be closed after use.

    Parameters
    ----------
    machine, probe
        Another machine and the probe that reads it; this one by default.
    """

    def __init__(self, machine: Machine | None = None, probe: Probe | None = None) -> None:
        probe = probe or LiveProbe()
        self.machine = machine or machine_now()
        self._gpus = DeviceReaders(probe, self.machine.devices)
        self._host, self._cpu = HostReader(probe), CpuReader(probe)
        self._throttled: int | None = None
        self._fixed: dict[int, dict[str, float]] = {}
        self._taken: deque[tuple[str, str, str, int, float]] = deque()
        self._known: set[str] = set()
        self._why: dict[str, str] = {}

    def header(self) -> dict[str, Any]:
        """Return the machine's facts for the profile's header."""
        devices = [
            {"index": one.index, "vendor": one.vendor, **_known(one, _GPU), **_driver(one),
             **_data_sheet(one), **self._fixed.get(one.index, {})}
            for one in self.machine.devices
        ]  # fmt: skip
        return {"host": _known(self.machine.host, _HOST), "devices": devices}

    def unknown(self) -> dict[str, str]:
        """Return the reasons for values that could never be read, by name."""
        return {what: why for what, why in self._why.items() if what not in self._known}

    def sample(self, at_ns: int) -> None:
        """Read everything once; `at_ns` is the time in nanoseconds since the profile began."""
        host, cpu = self._host.read(), self._cpu.read()
        throttled: Reading[float] = cpu.throttle_count
        if isinstance(throttled, int):
            before, self._throttled = self._throttled, throttled
            throttled = float(before is not None and throttled > before)
        for name, unit, value in (
            ("utilisation", "ratio", host.utilization_ratio),
            ("cpu pressure", "ratio", host.cpu_pressure_ratio),
            ("memory pressure", "ratio", host.memory_pressure_ratio),
            (IN_USE, "ratio", _in_use(host.memory_available_bytes, host.memory_total_bytes)),
            ("clock", "hertz", cpu.clock_hertz),
            ("temperature", "celsius", cpu.temperature_celsius),
            ("throttled", "ratio", throttled),
        ):
            self._keep(at_ns, "host", name, unit, value)
        for gpu in self._gpus.read():
            self._gpu(at_ns, gpu)

    def _gpu(self, at_ns: int, gpu: DeviceReading) -> None:
        who = f"gpu {gpu.index}"
        for field, (name, unit) in GPU_READINGS.items():
            self._keep(at_ns, who, name, unit, getattr(gpu, field))
        used, room = gpu.memory_used_bytes, gpu.memory_total_bytes
        if isinstance(used, int) and isinstance(room, int) and room:
            self._keep(at_ns, who, IN_USE, "ratio", used / room)
        reasons = gpu.throttle_reasons
        throttled = reasons if isinstance(reasons, Absent | Failed) else float(bool(reasons))
        self._keep(at_ns, who, "throttled", "ratio", throttled)
        if (now := known(reasons)) is not None:
            start = f"{who}: throttled: "
            seen = {name.removeprefix(start) for name in self._known if name.startswith(start)}
            for reason in sorted(seen.union(now)):
                self._keep(at_ns, who, f"throttled: {reason}", "ratio", float(reason in now))
        self._fixed[gpu.index] = _known(gpu, _FIXED)

    def _keep(self, at_ns: int, who: str, name: str, unit: str, value: Reading[float]) -> None:
        if isinstance(value, Absent | Failed):
            self._why.setdefault(f"{who}: {name}", value.reason)
            return
        self._known.add(f"{who}: {name}")
        self._taken.append((who, name, unit, at_ns, float(value)))

    def take(self) -> Iterable[Series]:
        """Return the readings since the last call; can be called from any thread."""
        found: dict[tuple[str, str], Series] = {}
        for _ in range(len(self._taken)):
            who, name, unit, at_ns, value = self._taken.popleft()
            series = found.setdefault((who, name), Series(name, unit, who))
            series.times_ns.append(at_ns)
            series.values.append(value)
        return found.values()

    def close(self) -> None:
        """Close the readers."""
        self._gpus.close()


def _in_use(free: Reading[int], total: Reading[int]) -> Reading[float]:
    """Return the share of a memory that is not free, or why it is unknown."""
    if not (isinstance(free, int) and isinstance(total, int) and total):
        return free if isinstance(free, Absent | Failed) else NOT_SHOWN
    return 1 - free / total


def _known(facts: Host | Device | DeviceReading, names: Sequence[str]) -> dict[str, Any]:
    """Return the named facts that have a value."""
    found = {name: getattr(facts, name) for name in names}
    return {name: v for name, v in found.items() if not isinstance(v, Absent | Failed)}


def _driver(device: Device) -> dict[str, Any]:
    driver = known(device.driver)
    version = known(driver.version) if driver else None
    return {"driver": version} if version else {}


def _data_sheet(device: Device) -> dict[str, Any]:
    rate = bandwidth_of(device)
    if rate is None:
        return {}
    return {"memory_bandwidth": {"per_second": rate * 1e9, "source": _DATA_SHEET}}
