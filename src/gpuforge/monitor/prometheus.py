"""The newest sample for Prometheus, under gpuforge's names and those of NVIDIA's exporter.

gpuforge's metrics are in base units. An unknown value has no series. Names that end in ``_total``
are counters. NVIDIA's names have no type, because its counters do not follow that convention.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from gpuforge.facts import known
from gpuforge.monitor.anomaly import Anomaly
from gpuforge.monitor.sample import ProcessSample, Sample
from gpuforge.readings.model import DeviceReading, HostReading

Row = tuple[str, Any, Mapping[str, str]]
"""Name, value or reading, and labels."""

_HELP = {
    "gpuforge_gpu_info": "What the GPU is",
    "gpuforge_gpu_utilization_ratio": "Share of the time in which any work was running",
    "gpuforge_gpu_memory_used_bytes": "Device memory in use, of all processes",
    "gpuforge_gpu_memory_total_bytes": "Device memory",
    "gpuforge_gpu_memory_activity_ratio": "Share of the time in which memory was read or written",
    "gpuforge_gpu_power_watts": "Power draw",
    "gpuforge_gpu_power_limit_watts": "Limit at which the driver caps the power draw",
    "gpuforge_gpu_energy_joules_total": "Energy since the driver was loaded",
    "gpuforge_gpu_temperature_celsius": "Temperature",
    "gpuforge_gpu_temperature_limit_celsius": "Temperature at which the GPU slows down",
    "gpuforge_gpu_clock_hertz": "Current clock",
    "gpuforge_gpu_throttle_seconds_total": "Time for which throttling was observed",
    "gpuforge_gpu_pcie_lanes": "Current lanes of the PCIe link",
    "gpuforge_gpu_pcie_lanes_max": "Lanes that both ends of the PCIe link support",
    "gpuforge_gpu_pcie_bytes_per_second": "Traffic of the PCIe link",
    "gpuforge_gpu_errors_total": "Memory errors, and Xid errors since the start",
    "gpuforge_gpu_process_memory_bytes": "Device memory of a process",
    "gpuforge_host_utilization_ratio": "Busy share of all logical CPUs",
    "gpuforge_host_memory_total_bytes": "Main memory, or the limit of the control group",
    "gpuforge_host_memory_available_bytes": "Main memory available to programs",
    "gpuforge_host_swap_used_bytes": "Swap in use",
    "gpuforge_host_pressure_ratio": ("Share of ten seconds in which a task waited for it"),
    "gpuforge_process_resident_bytes": "Main memory used by a program",
    "gpuforge_process_cpu_ratio": "CPU time of a program divided by wall time",
    "gpuforge_process_tasks": "Current tasks of a program's executors",
    "gpuforge_process_tasks_ended_total": "Tasks of a program's executors that ended",
    "gpuforge_process_calls_total": "Calls on a backend",
    "gpuforge_process_call_seconds_total": "Time of calls on a backend",
    "gpuforge_process_transfer_seconds_total": "Time spent moving arrays for calls",
    "gpuforge_process_transfer_bytes_total": "Bytes of arrays moved for calls",
    "gpuforge_process_compared_calls_total": "Calls for which the time on another backend is known",
    "gpuforge_process_regret_seconds_total": ("Extra time over the best known backend"),
    "gpuforge_process_memory_events_total": ("Times that a device was short of memory"),
    "gpuforge_process_released_bytes_total": "Memory released by a library",
    "gpuforge_process_settled_total": "Calls that NumPy had to compute again",
    "gpuforge_anomaly": "An anomaly is detected",
    "gpuforge_monitor_overhead_ratio": "CPU time of the monitor, as a share of one core",
    "gpuforge_monitor_last_sample_timestamp_seconds": "When the newest sample was taken",
}


class Now(NamedTuple):
    """The data to export.

    Attributes
    ----------
    throttled_seconds : time for which each (index of a GPU, reason) was seen
    """

    sample: Sample | None
    anomalies: Sequence[Anomaly]
    overhead_ratio: float
    throttled_seconds: Mapping[tuple[str, str], float]


def exposition(now: Now, accept: str, *, dcgm: bool = False) -> tuple[bytes, str]:
    """Return the metrics as text, and the content type.

    Parameters
    ----------
    accept
        The ``Accept`` header, which selects Prometheus' text format or OpenMetrics.
    dcgm
        Whether to add the metrics under the names of NVIDIA's dcgm-exporter.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(_rows(now, dcgm=dcgm)))
    encode, kind = choose_encoder(accept)
    return encode(registry), kind


class _Families:
    """A collector that groups rows into metric families by name."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = rows

    def collect(self) -> Iterable[Metric]:
        found: dict[str, Metric] = {}
        for name, reading, labels in self._rows:
            value = known(reading)
            if value is not None:
                base = name.removesuffix("_total")
                kind = "gauge" if name in _HELP else "unknown"
                told = f"{_HELP.get(name, 'As dcgm-exporter names it')}."
                family = found.setdefault(
                    name, Metric(base, told, "counter" if base != name else kind)
                )
                family.add_sample(name, labels, float(value))
        return found.values()


def _rows(now: Now, *, dcgm: bool) -> Iterator[Row]:
    sample = now.sample
    if sample is None:
        return
    for device in sample.devices:
        yield from ((f"gpuforge_gpu_{name}", v, labels) for name, v, labels in _device(device))
        yield from _dcgm(device) if dcgm else ()
    for (gpu, reason), seconds in now.throttled_seconds.items():
        yield "gpuforge_gpu_throttle_seconds_total", seconds, {"gpu": gpu, "reason": reason}
    yield from ((f"gpuforge_host_{name}", v, labels) for name, v, labels in _host(sample.host))
    for process in sample.processes:
        for name, value, labels in _process(process):
            shown = process.published
            who = {"pid": str(shown.pid), "program": shown.program}
            yield f"gpuforge_process_{name}", value, {**who, **labels}
    for one in now.anomalies:
        yield "gpuforge_anomaly", 1, {"rule": one.rule, "subject": one.subject, "state": one.state}
    yield "gpuforge_monitor_overhead_ratio", now.overhead_ratio, {}
    yield "gpuforge_monitor_last_sample_timestamp_seconds", sample.taken_at, {}


def _device(d: DeviceReading) -> Iterator[Row]:
    gpu = {"gpu": str(d.index)}
    names = {"model": d.name, "uuid": d.uuid, "pci_address": d.pci_address}
    yield "info", 1, {**gpu, "vendor": d.vendor, **{n: known(v) or "" for n, v in names.items()}}
    yield "utilization_ratio", d.utilization_ratio, gpu
    yield "memory_used_bytes", d.memory_used_bytes, gpu
    yield "memory_total_bytes", d.memory_total_bytes, gpu
    yield "memory_activity_ratio", d.memory_activity_ratio, gpu
    yield "power_watts", d.power_watts, gpu
    yield "power_limit_watts", d.power_limit_watts, gpu
    yield "energy_joules_total", d.energy_joules, gpu
    yield "temperature_celsius", d.temperature_celsius, gpu
    yield "temperature_limit_celsius", d.temperature_limit_celsius, gpu
    yield "clock_hertz", d.core_clock_hertz, {**gpu, "domain": "core"}
    yield "clock_hertz", d.memory_clock_hertz, {**gpu, "domain": "memory"}
    yield "pcie_lanes", d.link_width, gpu
    yield "pcie_lanes_max", d.link_width_max, gpu
    received, sent = d.link_received_bytes_per_second, d.link_sent_bytes_per_second
    yield "pcie_bytes_per_second", received, {**gpu, "direction": "received"}
    yield "pcie_bytes_per_second", sent, {**gpu, "direction": "sent"}
    yield "errors_total", d.ecc_corrected, {**gpu, "type": "ecc_corrected"}
    yield "errors_total", d.ecc_uncorrected, {**gpu, "type": "ecc_uncorrected"}
    for number, times in Counter(known(d.xids) or ()).items():
        yield "errors_total", times, {**gpu, "type": f"xid_{number}"}
    for use in known(d.processes) or ():
        yield "process_memory_bytes", use.memory_bytes, {**gpu, "pid": str(use.pid)}


def _host(h: HostReading) -> Iterator[Row]:
    yield "utilization_ratio", h.utilization_ratio, {}
    yield "memory_total_bytes", h.memory_total_bytes, {}
    yield "memory_available_bytes", h.memory_available_bytes, {}
    yield "swap_used_bytes", h.swap_used_bytes, {}
    yield "pressure_ratio", h.cpu_pressure_ratio, {"resource": "cpu"}
    yield "pressure_ratio", h.memory_pressure_ratio, {"resource": "memory"}
    yield "pressure_ratio", h.io_pressure_ratio, {"resource": "io"}


def _process(process: ProcessSample) -> Iterator[Row]:
    shown = process.published
    yield "resident_bytes", process.resident_bytes, {}
    yield "cpu_ratio", process.cpu_ratio, {}
    yield "tasks", shown.queued, {"state": "waiting"}
    yield "tasks", shown.running, {"state": "running"}
    yield "tasks_ended_total", shown.done, {"state": "done"}
    yield "tasks_ended_total", shown.failed, {"state": "failed"}
    yield "settled_total", shown.settled, {}
    for use in shown.backends:
        backend = {"backend": use.name}
        yield "calls_total", use.calls, backend
        yield "call_seconds_total", use.seconds, backend
        yield "transfer_seconds_total", use.transfer_seconds, backend
        yield "transfer_bytes_total", use.put_bytes, {**backend, "direction": "to_device"}
        yield "transfer_bytes_total", use.got_bytes, {**backend, "direction": "from_device"}
        yield "compared_calls_total", use.compared_calls, backend
        yield "regret_seconds_total", use.lost_seconds, backend
        for event in ("warnings", "criticals", "exhausted", "released"):
            times = getattr(use.pressure, event)
            yield "memory_events_total", times, {**backend, "event": event.removesuffix("s")}
        yield "released_bytes_total", use.pressure.released_bytes, backend


def _dcgm(d: DeviceReading) -> Iterator[Row]:
    """Yield rows with the names and units of dcgm-exporter: MiB, MHz, percent, millijoules."""
    total, used, xids = known(d.memory_total_bytes), known(d.memory_used_bytes), known(d.xids)
    free = None if total is None or used is None else total - used
    last_xid = None if xids is None else (*xids[-1:], 0)[0]
    values = {
        "GPU_UTIL": (d.utilization_ratio, 100),
        "MEM_COPY_UTIL": (d.memory_activity_ratio, 100),
        "FB_USED": (used, 2**-20),
        "FB_FREE": (free, 2**-20),
        "POWER_USAGE": (d.power_watts, 1),
        "TOTAL_ENERGY_CONSUMPTION": (d.energy_joules, 1000),
        "GPU_TEMP": (d.temperature_celsius, 1),
        "SM_CLOCK": (d.core_clock_hertz, 1e-6),
        "MEM_CLOCK": (d.memory_clock_hertz, 1e-6),
        "ECC_SBE_VOL_TOTAL": (d.ecc_corrected, 1),
        "ECC_DBE_VOL_TOTAL": (d.ecc_uncorrected, 1),
        "XID_ERRORS": (last_xid, 1),
    }
    labels = {
        "gpu": str(d.index), "UUID": known(d.uuid) or "", "modelName": known(d.name) or "",
        "pci_bus_id": (known(d.pci_address) or "").upper(), "device": f"{d.vendor}{d.index}",
        "Hostname": socket.gethostname(),
    }  # fmt: skip
    for name, (reading, factor) in values.items():
        value = known(reading)
        yield f"DCGM_FI_DEV_{name}", None if value is None else value * factor, labels
