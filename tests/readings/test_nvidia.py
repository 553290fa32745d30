"""NVIDIA's GPUs: a stand-in for NVML replays what was recorded of real ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuforge.facts import Absent, Device, Failed
from gpuforge.probe import LiveProbe
from gpuforge.readings.nvidia import Reader

pynvml = pytest.importorskip("pynvml")

from tests.readings.replayed import Replayed  # noqa: E402


class Clock(LiveProbe):
    """This machine with a library by NVML's name, and a clock that goes on by two seconds."""

    seconds = 0.0

    def load_library(self, name: str) -> Any:
        return object()

    def clock(self) -> float:
        self.seconds += 2.0
        return self.seconds


def recorded(corpus: Path, name: str) -> Replayed:
    folder = corpus / "devices" / name
    return Replayed((folder / "nvidia-smi-q.xml").read_text(encoding="utf-8"))


@pytest.fixture
def library(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replayed]:
    made = recorded(corpus, "nv-rtx3080-595-v13-xml")
    made.answers |= {
        "TotalEnergyConsumption": 5_000_000, "TotalEccErrors": 0,
        "ComputeRunningProcesses": [SimpleNamespace(pid=42, usedGpuMemory=2**30)],
        "ProcessUtilization": [SimpleNamespace(pid=42, smUtil=60, timeStamp=7),
                               SimpleNamespace(pid=42, smUtil=20, timeStamp=9)],
    }  # fmt: skip
    monkeypatch.setitem(sys.modules, "pynvml", made)
    yield made
    assert made.opened == 0, "NVML was left open"


@pytest.fixture
def reader(library: Replayed) -> Iterator[Reader]:
    device = Device(0, "nvidia", name="NVIDIA GeForce RTX 3080", uuid="GPU-19d6d965")
    made = Reader(Clock(), [device])
    yield made
    made.close()


def counters(sent: int, received: int) -> list[Any]:
    values = (SimpleNamespace(ullVal=sent), SimpleNamespace(ullVal=received))
    return [SimpleNamespace(nvmlReturn=0, value=value) for value in values]


def test_nvml_gives_every_value(library: Replayed, reader: Reader) -> None:
    library.answers["FieldValues"] = counters(1000, 2000)
    reader.read()
    library.answers["FieldValues"] = counters(1500, 3000)
    (gpu,) = reader.read()
    missing = {n for n, v in vars(gpu).items() if isinstance(v, Absent | Failed)}
    assert missing == {"pci_address"}
    assert gpu.utilization_ratio == 0.65 and gpu.memory_activity_ratio == 0.09
    assert gpu.power_watts == pytest.approx(142.33) and gpu.energy_joules == 5000.0
    assert gpu.core_clock_hertz == 1950e6 and gpu.memory_clock_max_hertz == 9501e6
    assert gpu.link_sent_bytes_per_second == 125.0  # 500 bytes; the clock was asked twice
    assert gpu.link_received_bytes_per_second == 250.0
    assert gpu.throttle_reasons == () and gpu.xids == ()
    (process,) = gpu.processes  # type: ignore[misc]
    assert (process.pid, process.memory_bytes) == (42, 2**30)
    assert process.utilization_ratio == pytest.approx(0.4)


RECORDED = {
    "nv-t4-515-xml": (0.0, 1032 * 2**20, 26.78, 3, {675: 22 * 2**20, 5762: 1005 * 2**20}),
    "nv-a100-mig-510-xml": (None, 19 * 2**20, 66.92, 4, {}),
    "nv-rtx4090-535-xml": (0.0, 2 * 2**20, 26.84, 1, {}),
    "nv-quadro-p400-418-xml": (0.0, 0, None, 1, {}),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_gpus(name: str, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", recorded(corpus, name))
    made = Reader(Clock(), [Device(0, "nvidia", pci_address="0000:01:00.0")])
    (gpu,) = made.read()
    made.close()
    busy, used, watts, generation, processes = RECORDED[name]
    assert gpu.utilization_ratio == busy or isinstance(gpu.utilization_ratio, Absent)
    assert gpu.memory_used_bytes == used and gpu.link_generation == generation
    assert isinstance(gpu.power_watts, Absent) if watts is None else gpu.power_watts == watts
    assert isinstance(gpu.utilization_ratio, Absent) is (busy is None)
    assert {p.pid: p.memory_bytes for p in gpu.processes} == processes  # type: ignore[union-attr]


def test_a_gpu_without_an_address_is_not_mistaken_for_another(library: Replayed) -> None:
    made = Reader(Clock(), [Device(3, "nvidia")])
    (gpu,) = made.read()
    assert isinstance(gpu.power_watts, Absent) and "address" in gpu.power_watts.reason
    made.close()


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
    library.answers |= {"PcieThroughput/0": 337, "PcieThroughput/1": 5}
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
