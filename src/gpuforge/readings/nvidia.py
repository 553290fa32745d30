"""Live values of NVIDIA GPUs, through NVML.

Source: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/ (device queries, clock event
reasons, field values, event sets) and ``nvml.h``. Nothing here creates a CUDA context.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from gpuforge.detect import nvml
from gpuforge.facts import Absent, Device, Failed, Reading, known
from gpuforge.probe import Probe
from gpuforge.readings import identity, unread
from gpuforge.readings.model import DeviceReading, ProcessOnDevice
from gpuforge.readings.rate import Rate

MHZ = 1e6
# Field: NVML function, its arguments, unit. The last five fields never change.
_QUERIES: dict[str, tuple[str, tuple[int, ...], float]] = {
    "power_watts": ("nvmlDeviceGetPowerUsage", (), 1e-3),
    "power_limit_watts": ("nvmlDeviceGetEnforcedPowerLimit", (), 1e-3),
    "energy_joules": ("nvmlDeviceGetTotalEnergyConsumption", (), 1e-3),
    "temperature_celsius": ("nvmlDeviceGetTemperature", (0,), 1.0),
    "core_clock_hertz": ("nvmlDeviceGetClockInfo", (0,), MHZ),
    "memory_clock_hertz": ("nvmlDeviceGetClockInfo", (2,), MHZ),
    "link_generation": ("nvmlDeviceGetCurrPcieLinkGeneration", (), 1),
    "link_width": ("nvmlDeviceGetCurrPcieLinkWidth", (), 1),
    "ecc_corrected": ("nvmlDeviceGetTotalEccErrors", (0, 0), 1),
    "ecc_uncorrected": ("nvmlDeviceGetTotalEccErrors", (1, 0), 1),
    "temperature_limit_celsius": ("nvmlDeviceGetTemperatureThreshold", (1,), 1.0),
    "core_clock_max_hertz": ("nvmlDeviceGetMaxClockInfo", (0,), MHZ),
    "memory_clock_max_hertz": ("nvmlDeviceGetMaxClockInfo", (2,), MHZ),
    "link_generation_max": ("nvmlDeviceGetMaxPcieLinkGeneration", (), 1),
    "link_width_max": ("nvmlDeviceGetMaxPcieLinkWidth", (), 1),
}
_FIXED = (*list(_QUERIES)[-5:],)
# nvmlClocksEventReasons. An idle GPU (1) and clocks set on purpose (2, 16, 256) are no throttling.
_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "temperature",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}
_SENT, _RECEIVED = 197, 198  # NVML_FI_DEV_PCIE_COUNT_TX_BYTES, ..._RX_BYTES
_XID = 8  # nvmlEventTypeXidCriticalError
_NOT_SUPPORTED, _NOT_FOUND, _TIMEOUT, _NO_FUNCTION = 3, 6, 10, 13


class Reader:
    """Reads NVIDIA GPUs; NVML stays initialized until `close`."""

    def __init__(self, probe: Probe, devices: Sequence[Device]) -> None:
        self._probe, self._devices = probe, devices
        self._nvml: Any = None
        self._gpus: list[_Gpu | Absent | Failed] = []
        self._why: Absent | Failed = Absent("NVML is not installed")
        self._open()

    def _open(self) -> None:
        library: Any = None
        for name in nvml.LIBRARIES.get(self._probe.platform, nvml.LINUX_LIBRARIES):
            library = library or known(self._probe.load_library(name))
        if library is None:
            return
        try:
            import pynvml

            pynvml.nvmlLib = pynvml.nvmlLib or library
            pynvml.nvmlInit()
        except ImportError as error:
            self._why = Absent(f"NVML cannot be used: {error}")
        except pynvml.NVMLError as error:
            self._why = _failure(error)
        else:
            self._nvml = pynvml
            self._gpus = [self._gpu(device) for device in self._devices]

    def _gpu(self, device: Device) -> _Gpu | Absent | Failed:
        uuid, address = known(device.uuid), known(device.pci_address)
        try:
            if uuid:
                handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
            elif address:
                handle = self._nvml.nvmlDeviceGetHandleByPciBusId(address)
            else:
                return Absent("neither its UUID nor its PCI address is known")
        except self._nvml.NVMLError as error:
            return _failure(error)
        return _Gpu(self._nvml, handle, identity(device), self._probe.clock)

    def read(self) -> list[DeviceReading]:
        """Return one reading for each GPU."""
        if self._nvml is None:
            return [unread(identity(device), self._why) for device in self._devices]
        return [
            unread(identity(device), gpu) if isinstance(gpu, Absent | Failed) else gpu.read()
            for device, gpu in zip(self._devices, self._gpus, strict=True)
        ]

    def close(self) -> None:
        """Release the GPUs' event sets and shut NVML down."""
        if self._nvml is not None:
            for gpu in self._gpus:
                if isinstance(gpu, _Gpu):
                    gpu.close()
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
            self._nvml = None


def _failure(error: Any) -> Absent | Failed:
    """Return an NVML error as the reason why a value is missing."""
    if error.value == _NOT_SUPPORTED:
        return Absent("NVML does not support it on this GPU")
    if error.value == _NO_FUNCTION:
        return Absent("the NVML of this driver does not report it")
    return Failed(f"NVML: {error}", kind=nvml.KINDS.get(error.value, nvml.UNKNOWN))


class _Gpu:
    """One GPU, with its constant values and the counters of the last reading."""

    def __init__(
        self, library: Any, handle: Any, blank: DeviceReading, clock: Callable[[], float]
    ) -> None:
        self._nvml, self._handle, self._blank = library, handle, blank
        self._fixed: dict[str, Reading[Any]] = {}
        self._sent, self._received = Rate(clock), Rate(clock)
        self._seen = 0
        self._xids: deque[int] = deque(maxlen=100)
        self._events = self._call(library.nvmlEventSetCreate)
        if not isinstance(self._events, Absent | Failed):
            begun = self._call(library.nvmlDeviceRegisterEvents, handle, _XID, self._events)
            if isinstance(begun, Absent | Failed):
                self._release()
                self._events = begun

    def _call(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return ask(*arguments)
        except self._nvml.NVMLError as error:
            return _failure(error)

    def _query(self, name: str, *arguments: Any) -> Any:
        ask = getattr(self._nvml, name, None)
        if ask is None:
            return Absent(f"nvidia-ml-py has no {name}")
        return self._call(ask, self._handle, *arguments)

    def _field(self, field: str) -> Reading[Any]:
        """Return one field of `_QUERIES`; constant and unsupported ones are queried only once."""
        if field in self._fixed:
            return self._fixed[field]
        name, arguments, unit = _QUERIES[field]
        value = self._query(name, *arguments)
        if not isinstance(value, Absent | Failed):
            value = value * unit
        if isinstance(value, Absent) or (field in _FIXED and not isinstance(value, Failed)):
            self._fixed[field] = value
        return value

    def read(self) -> DeviceReading:
        """Return the current values."""
        busy, memory = self._query("nvmlDeviceGetUtilizationRates"), self._memory()
        busy_known = not isinstance(busy, Absent | Failed)
        sent, received, origin = self._traffic()
        plain: dict[str, Any] = {field: self._field(field) for field in _QUERIES}
        return replace(
            self._blank,
            utilization_ratio=busy.gpu / 100 if busy_known else busy,
            memory_activity_ratio=busy.memory / 100 if busy_known else busy,
            throttle_reasons=self._throttled(),
            link_sent_bytes_per_second=sent,
            link_received_bytes_per_second=received,
            xids=self._errors(),
            processes=self._processes(),
            origins={"link_sent_bytes_per_second": origin} if origin else {},
            **memory,
            **plain,
        )

    def _memory(self) -> dict[str, Any]:
        found = self._query("nvmlDeviceGetMemoryInfo")
        if isinstance(found, Absent | Failed):
            return {"memory_used_bytes": found}
        if not found.total:
            return {"memory_used_bytes": Absent("the GPU shares the CPU's memory")}
        return {"memory_used_bytes": found.used, "memory_total_bytes": found.total}

    def _throttled(self) -> Reading[tuple[str, ...]]:
        mask = self._query("nvmlDeviceGetCurrentClocksEventReasons")
        if isinstance(mask, Absent):  # before driver 535 the function has another name
            mask = self._query("nvmlDeviceGetCurrentClocksThrottleReasons")
        if isinstance(mask, Absent | Failed):
            return mask
        return tuple(reason for bit, reason in _REASONS.items() if mask & bit)

    def _traffic(self) -> tuple[Reading[float], Reading[float], str]:
        """Return bytes/s sent and received from counters, else NVML's 20 ms average, and which."""
        found = self._query("nvmlDeviceGetFieldValues", [_SENT, _RECEIVED])
        if isinstance(found, Failed):
            return found, found, ""
        if not isinstance(found, Absent) and not any(one.nvmlReturn for one in found):
            sent, received = (one.value.ullVal for one in found)
            return self._sent.per_second(sent), self._received.per_second(received), ""
        sent, received = (
            value if isinstance(value, Absent | Failed) else value * 1e3
            for value in (self._query("nvmlDeviceGetPcieThroughput", way) for way in (0, 1))
        )
        return sent, received, "over the last 20 ms"

    def _errors(self) -> Reading[tuple[int, ...]]:
        """Return the codes of the Xid errors since this reader was opened."""
        if isinstance(self._events, Absent | Failed):
            return self._events
        try:
            while True:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
                self._xids.append(event.eventData)
        except self._nvml.NVMLError as error:
            return tuple(self._xids) if error.value == _TIMEOUT else _failure(error)

    def _processes(self) -> Reading[tuple[ProcessOnDevice, ...]]:
        found: dict[int, ProcessOnDevice] = {}
        busy = self._busy()
        for kind in ("Compute", "Graphics"):
            listed = self._query(f"nvmlDeviceGet{kind}RunningProcesses")
            if isinstance(listed, Absent | Failed):
                return listed
            for one in listed:
                memory = one.usedGpuMemory
                shown = Absent("Windows does not report memory per process")
                found[one.pid] = ProcessOnDevice(
                    one.pid,
                    shown if memory is None else memory,
                    busy if isinstance(busy, Absent | Failed) else busy.get(one.pid, 0.0),
                )
        return tuple(found.values())

    def _busy(self) -> Reading[dict[int, float]]:
        """Return each process's mean utilization in the driver's samples since the last reading."""
        samples = self._query("nvmlDeviceGetProcessUtilization", self._seen)
        if isinstance(samples, Failed) and samples.kind == nvml.KINDS[_NOT_FOUND]:
            return {}  # nothing ran since
        if isinstance(samples, Absent | Failed):
            return samples
        shares: dict[int, list[float]] = {}
        for one in samples:
            self._seen = max(self._seen, one.timeStamp)
            shares.setdefault(one.pid, []).append(one.smUtil / 100)
        return {pid: sum(seen) / len(seen) for pid, seen in shares.items()}

    def _release(self) -> None:
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlEventSetFree(self._events)

    def close(self) -> None:
        """Release the event set."""
        if not isinstance(self._events, Absent | Failed):
            self._release()
