"""Samples made of values, to show and to keep."""

from __future__ import annotations

from typing import Any

from gpuforge.monitor.sample import ProcessSample, Sample
from gpuforge.published import BackendUse, Published
from gpuforge.readings import DeviceReading, HostReading, ProcessOnDevice

HOST = HostReading(8, 0.37, 2**35, 2**34, 2**30, 2**31, (0.5, 1.0, 2.0), 0.1, 0.0, 0.02)


def gpu(index: int = 0, **values: Any) -> DeviceReading:
    found: dict[str, Any] = {
        "name": "NVIDIA GeForce RTX 3080", "pci_address": "0000:0c:00.0",
        "utilization_ratio": 0.65, "memory_used_bytes": 9 * 2**30,
        "memory_total_bytes": 10 * 2**30, "power_watts": 142.33, "power_limit_watts": 320.0,
        "temperature_celsius": 71.0, "core_clock_hertz": 1950e6, "core_clock_max_hertz": 2100e6,
        "throttle_reasons": (), "link_generation": 4, "link_generation_max": 4, "link_width": 16,
        "link_width_max": 16, "link_received_bytes_per_second": 2.0**30,
        "link_sent_bytes_per_second": 0.0, "processes": (ProcessOnDevice(7, 2**30),), **values,
    }  # fmt: skip
    return DeviceReading(index, "nvidia", **found)


BACKENDS = (BackendUse("numpy", 10, 0.5, 0.0), BackendUse("torch:cuda:0", 12_345, 9.5, 1.5))


def process(pid: int = 7, **values: Any) -> ProcessSample:
    found: dict[str, Any] = {
        "program": "train.py", "started_at": 1.0, "updated_at": 2.0, "span": "epoch 3",
        "backends": BACKENDS,
        "queued": 3, "running": 1, "done": 20, "failed": 0, "batches": 5, "settled": 0,
        "retries": 0, **values,
    }  # fmt: skip
    return ProcessSample(Published(pid, **found), 2**28, 1.25)


def sample(
    devices: tuple[DeviceReading, ...] = (), processes: tuple[ProcessSample, ...] = (),
    at: float = 1e9, **values: Any,
) -> Sample:  # fmt: skip
    return Sample(at, HOST, devices, processes, 0.002, **values)
