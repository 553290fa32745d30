"""The CPU's clock, temperature and slow-downs, from files as Linux shows them."""

from __future__ import annotations

from typing import Any

from gpuforge.facts import Absent
from gpuforge.probe import LiveProbe
from gpuforge.readings.cpu import MAX_CPUS, CpuReader

CPU = "/sys/devices/system/cpu"
ZONE = "/sys/class/thermal"


class Files(LiveProbe):
    """A machine of these files alone."""

    def __init__(self, files: dict[str, str]) -> None:
        super().__init__()
        self.files = files
        self.read = 0

    def list_dir(self, path: str) -> Any:
        below = {p.removeprefix(f"{path}/").split("/")[0] for p in self.files if path in p}
        return tuple(sorted(below)) or Absent(f"no folder {path}")

    def read_text(self, path: str) -> Any:
        self.read += 1
        return self.files.get(path) or Absent(f"no file {path}")


def test_a_cpu_that_shows_everything() -> None:
    files = {f"{ZONE}/thermal_zone0/type": "acpitz", f"{ZONE}/thermal_zone0/temp": "99000",
             f"{ZONE}/thermal_zone1/type": "x86_pkg_temp",
             f"{ZONE}/thermal_zone1/temp": "61500"}  # fmt: skip
    for number, kilohertz in enumerate(("2000000", "4000000")):
        files |= {
            f"{CPU}/cpu{number}/cpufreq/scaling_cur_freq": f"{kilohertz}\n",
            f"{CPU}/cpu{number}/thermal_throttle/core_throttle_count": f"{number}\n",
            f"{CPU}/cpu{number}/thermal_throttle/package_throttle_count": "5\n",
        }
    found = CpuReader(Files(files)).read()
    assert found.clock_hertz == 3e9
    assert found.temperature_celsius == 61.5, "that of the mainboard is none of the CPU"
    assert found.throttle_count == 11


def test_what_is_not_shown_is_absent_with_a_reason() -> None:
    found = CpuReader(Files({f"{CPU}/cpu0/cpufreq/scaling_cur_freq": "no number"})).read()
    for reading in vars(found).values():
        assert isinstance(reading, Absent)
        assert "the system" in reading.reason


def test_few_of_many_cpus_are_read() -> None:
    files = {f"{CPU}/cpu{n}/cpufreq/scaling_cur_freq": "3000000" for n in range(256)}
    probe = Files(files)
    reader = CpuReader(probe)
    probe.read = 0
    assert reader.read().clock_hertz == 3e9
    assert probe.read <= 4 * MAX_CPUS
