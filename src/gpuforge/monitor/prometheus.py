"""The newest sample for Prometheus: our names in base units, and the names of NVIDIA's exporter.

A value that is unknown has no series. Counters that a device does not keep (seconds of throttling)
are counted from the samples.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import CollectorRegistry

from gpuforge.facts import known
from gpuforge.monitor.anomaly import Anomaly
from gpuforge.monitor.sample import ProcessSample, Sample
from gpuforge.readings.model import DeviceReading

Row = tuple[tuple[str, ...], float | None]


class Now(NamedTuple):
    """What is exported.

    Attributes
    ----------
    throttled_seconds : (GPU, reason) to the seconds for which it was seen since the start
    """

    sample: Sample | None
    anomalies: Sequence[Anomaly]
    overhead_ratio: float
    throttled_seconds: Mapping[tuple[str, str], float]


class _OfDevice(NamedTuple):
    name: str
    field: str
    told: str
    label: tuple[str, str] | None = None
    counter: bool = False


_DEVICE = (
    _OfDevice("utilization_ratio", "utilization_ratio", "Share of the time in which any work ran"),
    _OfDevice("memory_used_bytes", "memory_used_bytes", "Device memory in use, of all processes"),
    _OfDevice("memory_total_bytes", "memory_total_bytes", "Device memory"),
    _OfDevice("memory_activity_ratio", "memory_activity_ratio", "Share of the time of memory use"),
    _OfDevice("power_watts", "power_watts", "Power draw"),
    _OfDevice("power_limit_watts", "power_limit_watts", "Power draw at which the driver caps"),
    _OfDevice("energy_joules", "energy_joules", "Energy since the driver was loaded", None, True),
    _OfDevice("temperature_celsius", "temperature_celsius", "Temperature"),
    _OfDevice("temperature_limit_celsius", "temperature_limit_celsius", "Where it slows down"),
    _OfDevice("clock_hertz", "core_clock_hertz", "Clock now", ("domain", "core")),
    _OfDevice("clock_hertz", "memory_clock_hertz", "Clock now", ("domain", "memory")),
    _OfDevice("pcie_lanes", "link_width", "Lanes of the PCIe link now"),
    _OfDevice("pcie_lanes_max", "link_width_max", "Lanes that both ends of the link have"),
    _OfDevice("pcie_bytes_per_second", "link_received_bytes_per_second", "Traffic of the link",
              ("direction", "received")),
    _OfDevice("pcie_bytes_per_second", "link_sent_bytes_per_second", "Traffic of the link",
              ("direction", "sent")),
    _OfDevice("errors", "ecc_corrected", "Errors", ("type", "ecc_corrected"), True),
    _OfDevice("errors", "ecc_uncorrected", "Errors", ("type", "ecc_uncorrected"), True),
)  # fmt: skip
_HOST = {
    "utilization_ratio": "Busy share of all logical CPUs",
    "memory_total_bytes": "Main memory, or the limit of the control group",
    "memory_available_bytes": "Main memory that programs could still take",
    "swap_used_bytes": "Swap in use",
    "cpu_pressure_ratio": "Share of ten seconds in which some task waited for a CPU",
    "memory_pressure_ratio": "Share of ten seconds in which some task waited for memory",
    "io_pressure_ratio": "Share of ten seconds in which some task waited for input or output",
}
# Names and units of NVIDIA's dcgm-exporter: MiB, MHz, percent, millijoules.
_DCGM: dict[str, tuple[str, Callable[[DeviceReading], float | None]]] = {
    "DCGM_FI_DEV_GPU_UTIL": ("percent", lambda d: _times(d.utilization_ratio, 100)),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("percent", lambda d: _times(d.memory_activity_ratio, 100)),
    "DCGM_FI_DEV_FB_USED": ("MiB", lambda d: _times(d.memory_used_bytes, 1 / 2**20)),
    "DCGM_FI_DEV_FB_FREE": ("MiB", lambda d: _free_mebibytes(d)),
    "DCGM_FI_DEV_POWER_USAGE": ("W", lambda d: _times(d.power_watts)),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("mJ", lambda d: _times(d.energy_joules, 1000)),
    "DCGM_FI_DEV_GPU_TEMP": ("C", lambda d: _times(d.temperature_celsius)),
    "DCGM_FI_DEV_SM_CLOCK": ("MHz", lambda d: _times(d.core_clock_hertz, 1e-6)),
    "DCGM_FI_DEV_MEM_CLOCK": ("MHz", lambda d: _times(d.memory_clock_hertz, 1e-6)),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": ("errors", lambda d: _times(d.ecc_corrected)),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("errors", lambda d: _times(d.ecc_uncorrected)),
    "DCGM_FI_DEV_XID_ERRORS": ("last Xid", lambda d: _last_xid(d)),
}
_OF_PROCESS: tuple[tuple[str, str, str, Callable[[ProcessSample], float | None]], ...] = (
    ("resident_bytes", "", "Main memory held", lambda p: known(p.resident_bytes)),
    ("cpu_ratio", "", "CPU time over wall time", lambda p: known(p.cpu_ratio)),
    ("tasks", "waiting", "Tasks of executors now", lambda p: p.published.queued),
    ("tasks", "running", "Tasks of executors now", lambda p: p.published.running),
    ("tasks_ended", "done", "Tasks that ended", lambda p: p.published.done),
    ("tasks_ended", "failed", "Tasks that ended", lambda p: p.published.failed),
    ("calls_settled", "", "Calls that NumPy settled", lambda p: p.published.settled),
)
_COUNTERS_OF_PROCESS = {"tasks_ended", "calls_settled"}


def exposition(now: Now, accept: str, *, dcgm: bool = False) -> tuple[bytes, str]:
    """Return the metrics as text, and its content type.

    Parameters
    ----------
    accept
        The header of the request: Prometheus' text format or OpenMetrics.
    dcgm
        Whether the names of NVIDIA's exporter come too.
    """
    from prometheus_client.exposition import choose_encoder

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Now(now, dcgm=dcgm))
    encode, kind = choose_encoder(accept)
    return encode(registry), kind


class _Now:
    """Gives one sample to a registry."""

    def __init__(self, now: Now, *, dcgm: bool) -> None:
        self._now, self._dcgm = now, dcgm

    def collect(self) -> Iterator[Metric]:
        now, sample = self._now, self._now.sample
        if sample is None:
            return
        yield from _devices(sample.devices)
        yield from _family(
            "gpuforge_gpu_throttle_seconds", "Time for which a clock was seen held down",
            ("gpu", "reason"), now.throttled_seconds.items(), counter=True,
        )  # fmt: skip
        for name, told in _HOST.items():
            rows: list[Row] = [((), _times(getattr(sample.host, name)))]
            yield from _family(f"gpuforge_host_{name}", told, (), rows)
        yield from _processes(sample.processes)
        found = [((a.rule, a.subject, a.state), 1.0) for a in now.anomalies]
        yield from _family(
            "gpuforge_anomaly", "Something unusual is seen", ("rule", "subject", "state"), found
        )
        yield from _family(
            "gpuforge_monitor_overhead_ratio", "CPU time of watching, over one core's time",
            (), [((), now.overhead_ratio)],
        )  # fmt: skip
        yield from _family(
            "gpuforge_monitor_last_sample_timestamp_seconds", "When the sample was taken",
            (), [((), sample.taken_at)],
        )  # fmt: skip
        if self._dcgm:
            yield from _dcgm(sample.devices)


def _devices(devices: Sequence[DeviceReading]) -> Iterator[Metric]:
    families: dict[str, list[_OfDevice]] = {}
    for one in _DEVICE:
        families.setdefault(one.name, []).append(one)
    for name, ones in families.items():
        label = ones[0].label
        rows: list[Row] = [
            ((str(d.index), *(one.label[1:] if one.label else ())), _times(getattr(d, one.field)))
            for one in ones
            for d in devices
        ]
        if name == "errors":
            rows += [
                ((str(d.index), f"xid_{number}"), count)
                for d in devices
                for number, count in Counter(known(d.xids) or ()).items()
            ]
        labels = ("gpu", label[0]) if label else ("gpu",)
        yield from _family(
            f"gpuforge_gpu_{name}", ones[0].told, labels, rows, counter=ones[0].counter
        )
    uses = [(str(d.index), use) for d in devices for use in known(d.processes) or ()]
    yield from _family(
        "gpuforge_gpu_process_memory_bytes", "Device memory of a process", ("gpu", "pid"),
        [((gpu, str(use.pid)), _times(use.memory_bytes)) for gpu, use in uses],
    )  # fmt: skip
    yield from _family(
        "gpuforge_gpu_info", "What the GPU is", ("gpu", "vendor", "model", "uuid", "pci_address"),
        [((str(d.index), d.vendor, *_texts(d.name, d.uuid, d.pci_address)), 1.0) for d in devices],
    )  # fmt: skip


def _processes(processes: Sequence[ProcessSample]) -> Iterator[Metric]:
    names = dict.fromkeys((name, told) for name, _, told, _ in _OF_PROCESS)
    for name, told in names:
        ways = [(word, value) for n, word, _, value in _OF_PROCESS if n == name]
        labels = ("pid", "program", *(("state",) if ways[0][0] else ()))
        rows = [
            ((*_who(process), *((word,) if word else ())), value(process))
            for process in processes
            for word, value in ways
        ]
        counter = name in _COUNTERS_OF_PROCESS
        yield from _family(f"gpuforge_process_{name}", told, labels, rows, counter=counter)
    uses = [(_who(process), use) for process in processes for use in process.published.backends]
    for name, field, told in (
        ("calls", "calls", "Calls on a backend"),
        ("call_seconds", "seconds", "Time of calls on a backend"),
        ("transfer_seconds", "transfer_seconds", "Time in which arrays were moved for calls"),
    ):
        rows = [((*who, use.name), float(getattr(use, field))) for who, use in uses]
        labels = ("pid", "program", "backend")
        yield from _family(f"gpuforge_process_{name}", told, labels, rows, counter=True)


def _dcgm(devices: Sequence[DeviceReading]) -> Iterator[Metric]:
    host = socket.gethostname()
    for name, (unit, value) in _DCGM.items():
        # Not typed as counters, whose names would have to end in _total here.
        metric = Metric(name, f"As dcgm-exporter names it ({unit})", "unknown")
        for device in devices:
            number = value(device)
            if number is not None:
                model, uuid, address = _texts(device.name, device.uuid, device.pci_address)
                labels = {
                    "gpu": str(device.index), "UUID": uuid, "pci_bus_id": address.upper(),
                    "device": f"{device.vendor}{device.index}", "modelName": model,
                    "Hostname": host,
                }  # fmt: skip
                metric.add_sample(name, labels, number)
        if metric.samples:
            yield metric


def _family(
    name: str, told: str, labels: Sequence[str], rows: Iterable[Row], *, counter: bool = False
) -> Iterator[Metric]:
    """Yield a family of the rows that have a value; none where none has."""
    kind: Any = CounterMetricFamily if counter else GaugeMetricFamily
    family = kind(name, f"{told}.", labels=labels)
    for values, number in rows:
        if number is not None:
            family.add_metric(values, number)
    if family.samples:
        yield family


def _who(process: ProcessSample) -> tuple[str, str]:
    return str(process.published.pid), process.published.program


def _texts(*readings: Any) -> tuple[str, ...]:
    return tuple(known(reading) or "" for reading in readings)


def _times(reading: Any, factor: float = 1.0) -> float | None:
    value = known(reading)
    return None if value is None else value * factor


def _free_mebibytes(device: DeviceReading) -> float | None:
    total, used = known(device.memory_total_bytes), known(device.memory_used_bytes)
    return None if total is None or used is None else (total - used) / 2**20


def _last_xid(device: DeviceReading) -> float | None:
    xids = known(device.xids)
    return None if xids is None else float(xids[-1]) if xids else 0.0
