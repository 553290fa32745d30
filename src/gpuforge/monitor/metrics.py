"""``gf.metrics()``: measurements of this process and its devices."""

from __future__ import annotations

import atexit
import json
import os
import re
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuforge import published
from gpuforge.errors import InvalidSettings
from gpuforge.facts import Absent, Failed, Reading, VendorFailure, known
from gpuforge.monitor.history import Recorder
from gpuforge.monitor.sample import Sample, Sampler
from gpuforge.monitor.values import document, series
from gpuforge.published import BackendUse
from gpuforge.readings.model import DeviceReading, HostReading

KEPT = 1000
# Device names in names of backends, and the vendors that they may stand for.
_VENDORS = {
    "cuda": ("nvidia", "amd"), "rocm": ("amd",), "mps": ("apple",), "xpu": ("intel",),
    "gpu": ("nvidia", "amd", "apple", "intel"),
}  # fmt: skip
NO_ARRAYS = Absent("arrays of finished calls do not stay on a device")
ORDER = Absent("which of several GPUs a backend's number means is certain only with"
               " CUDA_DEVICE_ORDER=PCI_BUS_ID and no visible-device variable")  # fmt: skip


@dataclass(frozen=True)
class DeviceMetrics:
    """One GPU, and what this process does on it.

    Attributes
    ----------
    reading : the whole reading of the device
    own_memory_bytes : memory that the driver attributes to this process, with pools and contexts
    held_bytes : size of the arrays that gpuforge keeps there between calls
    calls : number of placed calls that this process ran there so far
    compute_seconds : wall time of these calls, without transfers
    transfer_seconds : time in which these calls moved arrays to and from the device
    """

    index: int
    reading: DeviceReading
    utilization_ratio: Reading[float]
    memory_used_bytes: Reading[int]
    memory_total_bytes: Reading[int]
    own_memory_bytes: Reading[int]
    held_bytes: Reading[int]
    calls: Reading[int]
    compute_seconds: Reading[float]
    transfer_seconds: Reading[float]


@dataclass(frozen=True)
class Metrics:
    """All measurements at one time; created by `metrics`.

    Attributes
    ----------
    taken_at : seconds since the epoch
    backends : use of each backend, NumPy included, by this process so far
    cost_seconds : CPU time that the measurement took
    failures : vendors whose GPUs detection could not read
    """

    taken_at: float
    host: HostReading
    devices: tuple[DeviceMetrics, ...]
    backends: tuple[BackendUse, ...]
    cost_seconds: float
    failures: tuple[VendorFailure, ...]

    def averages(self) -> dict[str, float]:
        """Return the mean of every value over the last 1,000 samples of this process.

        Names are such as ``host.utilization_ratio`` and ``gpu0.power_watts``. Samples in which a
        value is unknown are ignored; a value that was never known is left out.
        """
        return _watch.averages()

    def log(self, path: str | os.PathLike[str]) -> None:
        """Append this and every later sample of this process to a file, as JSON lines.

        Raises
        ------
        OSError
            If the file cannot be written. If a later line cannot be written, the log ends with a
            warning of the logger ``gpuforge.monitor``.
        """
        _watch.log(Path(path).absolute(), self)


def metrics(*, every: float | None = None) -> Metrics:
    """Return measurements of this process, its devices and the host.

    Ratios are from 0 to 1; other units are bytes, seconds, watts, hertz and degrees Celsius. Each
    field is a number, or `Absent` or `Failed` with the reason. Rates, such as the host's
    utilisation, are over the time since the last sample.

    Parameters
    ----------
    every
        Also take a sample every so many seconds from now on, in a thread, and record them in the
        history; 0 stops the thread. By default no thread is started.

    Raises
    ------
    InvalidSettings
        If `every` is negative or not a number.
    """
    if every is not None and not (isinstance(every, int | float) and 0 <= every < float("inf")):
        raise InvalidSettings(f"every={every!r} is not a number of seconds", hint="use 1.0")
    if every is not None:
        _watch.repeat(every)
    return _watch.look()[1]


class _Watch:
    """The sampler of this process, with its recent samples and logs."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin anew, as in a forked child, in which the thread and NVML's state do not exist."""
        self._lock = threading.Lock()
        self._sampler: Sampler | None = None
        self._kept: deque[dict[str, float]] = deque(maxlen=KEPT)
        self._logs: set[Path] = set()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self) -> tuple[Sample, Metrics]:
        """Take a sample, keep it for the averages, and log it."""
        with self._lock:
            if self._sampler is None:
                self._sampler = Sampler()
                self._sampler.take()
            published.count_held()
            sample = self._sampler.take()
            self._kept.append(series(sample))
            found = _metrics(sample, os.environ)
            for path in list(self._logs):
                self._append(path, found)
        return sample, found

    def averages(self) -> dict[str, float]:
        """Return the mean of every value over the samples that were kept."""
        with self._lock:
            kept = list(self._kept)
        found: dict[str, list[float]] = {}
        for one in kept:
            for name, number in one.items():
                found.setdefault(name, []).append(number)
        return {name: sum(numbers) / len(numbers) for name, numbers in found.items()}

    def log(self, path: Path, first: Metrics) -> None:
        """Write `first` as a line now, and a line for each later sample."""
        with self._lock:
            if path not in self._logs:
                _write(path, first)
                self._logs.add(path)

    def _append(self, path: Path, found: Metrics) -> None:
        try:
            _write(path, found)
        except OSError as error:
            from gpuforge.log import logger

            self._logs.discard(path)
            logger("monitor").warning("%s is no longer written: %s", path, error)

    def repeat(self, seconds: float) -> None:
        """Take a sample every so many seconds from now on; 0 stops that."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        self._thread = None
        if seconds:
            self._ending = threading.Event()
            self._thread = threading.Thread(
                target=self._sample_repeatedly,
                args=(seconds, self._ending),
                name="gpuforge metrics",
                daemon=True,
            )
            self._thread.start()

    def _sample_repeatedly(self, seconds: float, ending: threading.Event) -> None:
        recorder = Recorder()
        while not ending.wait(seconds):
            recorder.add(self.look()[0])

    def close(self) -> None:
        """Stop the thread and release the devices."""
        self.repeat(0)
        with self._lock:
            sampler, self._sampler = self._sampler, None
            self._logs.clear()
            self._kept.clear()
        if sampler is not None:
            sampler.close()


def _write(path: Path, found: Metrics) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(document(found), allow_nan=False) + "\n")


def _metrics(sample: Sample, environ: Mapping[str, str]) -> Metrics:
    me = os.getpid()
    mine = next((p.published for p in sample.processes if p.published.pid == me), None)
    backends = mine.backends if mine else ()
    uses = {one.name: _device(one.name, sample.devices, environ) for one in backends}
    uncertain = any(isinstance(where, Absent) for where in uses.values())
    devices = []
    for device in sample.devices:
        own = [one for one in backends if uses[one.name] == device.index]
        transfer = sum(one.transfer_seconds for one in own)
        compute = max(0.0, sum(one.seconds for one in own) - transfer)
        done: list[Any] = [sum(one.calls for one in own), compute, transfer]
        devices.append(DeviceMetrics(
            device.index, device, device.utilization_ratio, device.memory_used_bytes,
            device.memory_total_bytes, _own_memory(device, me), NO_ARRAYS,
            *([ORDER] * 3 if uncertain else done),
        ))  # fmt: skip
    return Metrics(
        sample.taken_at, sample.host, tuple(devices), backends, sample.cost_seconds, sample.failures
    )


def _own_memory(device: DeviceReading, pid: int) -> Reading[int]:
    listed = device.processes
    if isinstance(listed, Absent | Failed):
        return listed
    return next((one.memory_bytes for one in listed if one.pid == pid), 0)


def _device(
    backend: str, devices: Sequence[DeviceReading], environ: Mapping[str, str]
) -> int | Absent | None:
    """Return the index of the device of a backend; None for the host, `ORDER` if ambiguous."""
    match = re.match(r"\w+:([a-z]+):?(\d*)", backend)
    vendors = _VENDORS.get(match[1], ()) if match else ()
    own = [device for device in devices if device.vendor in vendors]
    if match is None or not own:
        return None
    place = int(match[2] or 0)
    sorted_by_bus = environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    alike = len({(one.vendor, known(one.name)) for one in own}) == 1
    chosen = any("VISIBLE_DEVICES" in name for name in environ)
    if place >= len(own) or (len(own) > 1 and (chosen or not (alike or sorted_by_bus))):
        return ORDER
    return own[place].index


_watch = _Watch()
atexit.register(_watch.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watch.begin)
