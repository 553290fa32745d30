"""NVIDIA's GPUs: recorded ``nvidia-smi``, and a stand-in for NVML that replays recorded values."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuforge.detect import detect_machine
from gpuforge.facts import Absent, Device, Failed
from gpuforge.probe import LiveProbe, SnapshotProbe
from gpuforge.readings import DeviceReaders, identity
from gpuforge.readings.nvidia import Reader, parse_smi

pynvml = pytest.importorskip("pynvml")


def recorded(corpus: Path, name: str) -> list[Any]:
    probe = SnapshotProbe(corpus / "devices" / name)
    readers = DeviceReaders(probe, detect_machine(probe, vendor_seconds=60.0).devices)
    found = readers.read()
    readers.close()
    return list(found)


def test_a_recorded_gpu_under_load(corpus: Path) -> None:
    (gpu,) = recorded(corpus, "nv-rtx3080-595-v13-xml")
    assert gpu.utilization_ratio == 0.65 and gpu.memory_activity_ratio == 0.09
    assert gpu.memory_used_bytes == 9184 * 2**20 and gpu.memory_total_bytes == 10240 * 2**20
    assert (gpu.power_watts, gpu.power_limit_watts) == (142.33, 320.0)
    assert gpu.core_clock_hertz == 1950e6 and gpu.core_clock_max_hertz == 2100e6
    assert (gpu.link_generation, gpu.link_width) == (4, 16)
    assert gpu.throttle_reasons == ()
    assert isinstance(gpu.energy_joules, Absent)


def test_processes_and_unsupported_values(corpus: Path) -> None:
    (gpu,) = recorded(corpus, "nv-t4-515-xml")
    assert {one.pid: one.memory_bytes for one in gpu.processes} == {
        675: 22 * 2**20, 5762: 1005 * 2**20,
    }  # fmt: skip
    (divided,) = recorded(corpus, "nv-a100-mig-510-xml")
    assert isinstance(divided.utilization_ratio, Absent)
    assert "N/A" in divided.utilization_ratio.reason


def test_a_gpu_that_only_the_bus_shows_says_why(corpus: Path) -> None:
    gpus = recorded(corpus, "nv-a100-8x-azure-lspci")
    assert len(gpus) == 8
    assert all(isinstance(gpu.power_watts, Absent) for gpu in gpus)


@pytest.mark.parametrize("flag", ["sw_power_cap", "hw_thermal_slowdown", "gpu_idle"])
def test_reasons_of_throttling(flag: str) -> None:
    block = (
        "<clocks_throttle_reasons><clocks_throttle_reason_"
        f"{flag}>Active</clocks_throttle_reason_{flag}></clocks_throttle_reasons>"
    )
    expected = {
        "sw_power_cap": ("power cap",),
        "hw_thermal_slowdown": ("temperature (hardware)",),
        "gpu_idle": (),
    }
    assert parse_smi(identity(Device(0, "nvidia")), block).throttle_reasons == expected[flag]


class Replayed:
    """A stand-in for ``pynvml``: answers what was recorded of an RTX 3080, counts the calls."""

    NVMLError = pynvml.NVMLError
    nvmlLib: Any = None

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.errors: dict[str, int] = {}
        self.events: list[int] = []
        self.mask, self.sent = 0x1, 1000
        self.opened = 0
        self.answers: dict[str, Any] = {
            "UtilizationRates": SimpleNamespace(gpu=65, memory=9),
            "MemoryInfo": SimpleNamespace(total=10240 * 2**20, used=9184 * 2**20),
            "PowerUsage": 142330, "EnforcedPowerLimit": 320000,
            "TotalEnergyConsumption": 5_000_000, "Temperature": 27, "TemperatureThreshold": 95,
            "ClockInfo": {0: 1950, 2: 9251}, "MaxClockInfo": {0: 2100, 2: 9501},
            "CurrPcieLinkGeneration": 4, "MaxPcieLinkGeneration": 4, "CurrPcieLinkWidth": 8,
            "MaxPcieLinkWidth": 16, "TotalEccErrors": 0, "GraphicsRunningProcesses": [],
            "ComputeRunningProcesses": [SimpleNamespace(pid=42, usedGpuMemory=2**30)],
            "ProcessUtilization": [SimpleNamespace(pid=42, smUtil=60, timeStamp=7),
                                   SimpleNamespace(pid=42, smUtil=20, timeStamp=9)],
        }  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def ask(*arguments: Any) -> Any:
            self.asked.append(name)
            if name in self.errors:
                raise pynvml.NVMLError(self.errors[name])
            return self._answer(name, arguments)

        return ask

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if name == "nvmlInit":
            self.opened += 1
        elif name == "nvmlShutdown":
            self.opened -= 1
        elif name == "nvmlDeviceGetCurrentClocksEventReasons":
            return self.mask
        elif name == "nvmlDeviceGetFieldValues":
            self.sent += 500
            values = (self.sent, 2 * self.sent)
            return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(ullVal=v)) for v in values]
        elif name == "nvmlEventSetWait_v2":
            if not self.events:
                raise pynvml.NVMLError(10)
            return SimpleNamespace(eventData=self.events.pop(0))
        found = self.answers.get(name.removeprefix("nvmlDeviceGet"))
        return found[arguments[1]] if isinstance(found, dict) else found


class Clock(LiveProbe):
    """This machine with a library by NVML's name, and a clock that goes on by two seconds."""

    seconds = 0.0

    def load_library(self, name: str) -> Any:
        return object()

    def clock(self) -> float:
        self.seconds += 2.0
        return self.seconds


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Replayed]:
    made = Replayed()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    yield made
    assert made.opened == 0, "NVML was left open"


@pytest.fixture
def reader(library: Replayed) -> Iterator[Reader]:
    device = Device(0, "nvidia", name="NVIDIA GeForce RTX 3080", uuid="GPU-19d6d965")
    made = Reader(Clock(), [device])
    yield made
    made.close()


def test_nvml_gives_every_value(reader: Reader) -> None:
    reader.read()
    (gpu,) = reader.read()
    missing = {n for n, v in vars(gpu).items() if isinstance(v, Absent | Failed)}
    assert missing == {"pci_address"}
    assert gpu.utilization_ratio == 0.65 and gpu.power_watts == pytest.approx(142.33)
    assert gpu.energy_joules == 5000.0 and gpu.core_clock_hertz == 1950e6
    assert gpu.memory_clock_max_hertz == 9501e6
    assert gpu.link_sent_bytes_per_second == 125.0  # 500 bytes; the clock was asked twice
    assert gpu.link_received_bytes_per_second == 250.0
    assert gpu.throttle_reasons == () and gpu.xids == ()
    (process,) = gpu.processes  # type: ignore[misc]
    assert (process.pid, process.memory_bytes) == (42, 2**30)
    assert process.utilization_ratio == pytest.approx(0.4)


def test_what_never_changes_is_asked_once(library: Replayed, reader: Reader) -> None:
    for _ in range(5):
        reader.read()
    assert library.asked.count("nvmlDeviceGetMaxPcieLinkWidth") == 1
    assert library.asked.count("nvmlDeviceGetMaxClockInfo") == 2
    assert library.asked.count("nvmlDeviceGetPowerUsage") == 5


def test_what_is_not_supported_is_absent_and_asked_once(library: Replayed, reader: Reader) -> None:
    library.errors = {"nvmlDeviceGetTotalEccErrors": 3, "nvmlDeviceGetUtilizationRates": 3}
    for _ in range(3):
        (gpu,) = reader.read()
    assert isinstance(gpu.ecc_corrected, Absent) and isinstance(gpu.utilization_ratio, Absent)
    assert library.asked.count("nvmlDeviceGetTotalEccErrors") == 2  # corrected and uncorrected


def test_a_gpu_that_is_lost_meanwhile_fails_by_name(library: Replayed, reader: Reader) -> None:
    (before,) = reader.read()
    assert before.power_watts == pytest.approx(142.33)
    library.errors = dict.fromkeys((n for n in set(library.asked) if "DeviceGet" in n), 15)
    (gpu,) = reader.read()
    for reading in (gpu.utilization_ratio, gpu.power_watts, gpu.memory_used_bytes, gpu.processes):
        assert isinstance(reading, Failed) and reading.kind == "gpu_lost"
    library.errors = {}
    assert reader.read()[0].power_watts == pytest.approx(142.33)


def test_throttling_and_errors_are_told(library: Replayed, reader: Reader) -> None:
    library.mask, library.events = 0x4 | 0x40, [79, 48]
    (gpu,) = reader.read()
    assert gpu.throttle_reasons == ("power cap", "temperature (hardware)")
    assert gpu.xids == (79, 48)


def test_without_counters_traffic_is_that_of_a_short_time(
    library: Replayed, reader: Reader
) -> None:
    library.errors = {"nvmlDeviceGetFieldValues": 13}
    library.answers["PcieThroughput"] = 337
    (gpu,) = reader.read()
    assert gpu.link_sent_bytes_per_second == 337e3
    assert "20 ms" in gpu.origins["link_sent_bytes_per_second"]


def test_names_of_older_drivers_are_understood(library: Replayed, reader: Reader) -> None:
    library.errors = {"nvmlDeviceGetCurrentClocksEventReasons": 13}
    library.answers["CurrentClocksThrottleReasons"] = 0x20
    assert reader.read()[0].throttle_reasons == ("temperature",)


def test_windows_books_no_memory_to_processes(library: Replayed, reader: Reader) -> None:
    library.answers["ComputeRunningProcesses"][0].usedGpuMemory = None
    (process,) = reader.read()[0].processes  # type: ignore[misc]
    assert isinstance(process.memory_bytes, Absent)


def test_a_driver_that_does_not_start_is_a_failure_of_every_value(library: Replayed) -> None:
    library.errors = {"nvmlInit": 18}
    made = Reader(Clock(), [Device(0, "nvidia")])
    (gpu,) = made.read()
    assert isinstance(gpu.power_watts, Failed) and gpu.power_watts.kind == "version_mismatch"
    made.close()
