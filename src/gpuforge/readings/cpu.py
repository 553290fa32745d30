"""Live values of the CPU from ``/sys``: clock, temperature and number of thermal throttlings.

Sources: Linux ``Documentation/ABI/testing/sysfs-devices-system-cpu`` (scaling_cur_freq,
thermal_throttle) and ``Documentation/driver-api/thermal/sysfs-api.rst``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import mean

from gpuforge.detect.source import names_in, text_at
from gpuforge.facts import NOT_SHOWN, Absent, Reading, known
from gpuforge.probe import Probe
from gpuforge.readings.sysfs import MILLI, number

CPUS, ZONES = "/sys/devices/system/cpu", "/sys/class/thermal"
MAX_CPUS = 8
"""About how many CPUs are sampled: on some systems reading each clock takes microseconds."""
_PACKAGE = re.compile(r"x86_pkg_temp|cpu[-_]?thermal|soc[-_]thermal", re.I)
_KILO = 1e3
_NO_CLOCK = Absent("the system shows no CPU clock (cpufreq), as is usual in virtual machines")
_NO_COUNTER = Absent("the system does not count how often the CPU slowed down (thermal_throttle)")
_NO_ZONE = Absent("the system shows no CPU temperature (thermal zones)")


@dataclass(frozen=True)
class CpuReading:
    """Live values of the CPU.

    Attributes
    ----------
    clock_hertz : mean clock of the sampled CPUs
    temperature_celsius : temperature of the hottest package
    throttle_count : number of thermal throttlings of the sampled CPUs since boot
    """

    clock_hertz: Reading[float] = NOT_SHOWN
    temperature_celsius: Reading[float] = NOT_SHOWN
    throttle_count: Reading[int] = NOT_SHOWN


class CpuReader:
    """Reads the CPU; the available files are looked up only once."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        names = sorted(name for name in names_in(probe, CPUS) if re.fullmatch(r"cpu\d+", name))
        self._cpus = [f"{CPUS}/{name}" for name in names[:: max(len(names) // MAX_CPUS, 1)]]
        self._zones = [
            f"{ZONES}/{name}/temp"
            for name in names_in(probe, ZONES)
            if _PACKAGE.search(text_at(probe, f"{ZONES}/{name}/type"))
        ]

    def read(self) -> CpuReading:
        """Return the current values."""
        clocks = self._each("cpufreq/scaling_cur_freq", _KILO)
        counts = [
            *self._each("thermal_throttle/core_throttle_count", 1),
            *self._each("thermal_throttle/package_throttle_count", 1),
        ]
        found = (known(number(self._probe, path, MILLI)) for path in self._zones)
        degrees = [value for value in found if value is not None]
        return CpuReading(
            mean(clocks) if clocks else _NO_CLOCK,
            max(degrees) if degrees else _NO_ZONE,
            int(sum(counts)) if counts else _NO_COUNTER,
        )

    def _each(self, name: str, unit: float) -> list[float]:
        found = (known(number(self._probe, f"{cpu}/{name}", unit)) for cpu in self._cpus)
        return [value for value in found if value is not None]
