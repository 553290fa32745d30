"""A sample of the whole machine: the host, the devices, and this user's gpuforge processes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gpuforge import published
from gpuforge.detect import read_machine
from gpuforge.facts import NOT_SHOWN, Absent, Device, Failed, Reading, VendorFailure
from gpuforge.probe import LiveProbe, Probe
from gpuforge.published import Published
from gpuforge.readings import DeviceReaders
from gpuforge.readings.host import HostReader, read_process
from gpuforge.readings.model import DeviceReading, HostReading
from gpuforge.readings.rate import Rate


@dataclass(frozen=True)
class ProcessSample:
    """One gpuforge process of this user.

    Attributes
    ----------
    published : what the process publishes about itself
    resident_bytes : resident set size
    cpu_ratio : CPU time over wall time since the last sample; 2.0 is two cores
    """

    published: Published
    resident_bytes: Reading[int] = NOT_SHOWN
    cpu_ratio: Reading[float] = NOT_SHOWN


@dataclass(frozen=True)
class Sample:
    """All readings at one time.

    Attributes
    ----------
    taken_at : seconds since the epoch
    cost_seconds : CPU time that the sample took
    failures : vendors whose GPUs detection could not read
    """

    taken_at: float
    host: HostReading
    devices: tuple[DeviceReading, ...]
    processes: tuple[ProcessSample, ...]
    cost_seconds: float
    failures: tuple[VendorFailure, ...] = ()


class Sampler:
    """Takes samples of one machine; must be closed after use.

    Parameters
    ----------
    probe
        The machine; this one by default.
    devices
        The GPUs to read; by default those that detection finds.
    """

    def __init__(
        self, probe: Probe | None = None, devices: tuple[Device, ...] | None = None
    ) -> None:
        self._probe = probe or LiveProbe()
        self._failures: tuple[VendorFailure, ...] = ()
        if devices is None:
            machine = read_machine(self._probe)
            devices, self._failures = machine.devices, machine.failures
        self._devices = DeviceReaders(self._probe, devices)
        self._host = HostReader(self._probe)
        self._cpu: dict[tuple[int, float], Rate] = {}

    def take(self) -> Sample:
        """Take one sample."""
        started = time.thread_time()
        host, devices = self._host.read(), self._devices.read()
        processes = self._processes() if isinstance(self._probe, LiveProbe) else ()
        cost = time.thread_time() - started
        return Sample(time.time(), host, devices, processes, cost, self._failures)

    def _processes(self) -> tuple[ProcessSample, ...]:
        found, cpu = [], {}
        for one in published.read_all():
            key = one.pid, one.started_at
            cpu[key] = self._cpu.get(key) or Rate(self._probe.clock)
            use = read_process(self._probe, one.pid)
            if isinstance(use, Absent | Failed):
                found.append(ProcessSample(one, use, use))
            else:
                ratio = cpu[key].per_second(use.cpu_seconds)
                found.append(ProcessSample(one, use.resident_bytes, ratio))
        self._cpu = cpu
        return tuple(found)

    def close(self) -> None:
        """Release the devices."""
        self._devices.close()
