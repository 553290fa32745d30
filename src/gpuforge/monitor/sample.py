"""One look at the whole machine: its host, its devices, and this user's gpuforge processes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gpuforge.detect import read_machine
from gpuforge.facts import NOT_SHOWN, Device, Reading
from gpuforge.probe import LiveProbe, Probe
from gpuforge.published import Published
from gpuforge.readings import DeviceReaders
from gpuforge.readings.host import HostReader
from gpuforge.readings.model import DeviceReading, HostReading


@dataclass(frozen=True)
class ProcessSample:
    """One gpuforge process of this user.

    Attributes
    ----------
    published : what it shows of itself
    resident_bytes : main memory that it holds
    cpu_ratio : CPU time since the last sample over wall time; 2.0 is two cores
    """

    published: Published
    resident_bytes: Reading[int] = NOT_SHOWN
    cpu_ratio: Reading[float] = NOT_SHOWN


@dataclass(frozen=True)
class Sample:
    """What was read at one time.

    Attributes
    ----------
    taken_at : seconds since the epoch
    cost_seconds : CPU time that taking it took
    """

    taken_at: float
    host: HostReading
    devices: tuple[DeviceReading, ...]
    processes: tuple[ProcessSample, ...]
    cost_seconds: float


class Sampler:
    """Takes samples of one machine; it is closed after use.

    Parameters
    ----------
    probe
        The machine; this one by default.
    devices
        The GPUs to read; those that detection finds by default.
    """

    def __init__(
        self, probe: Probe | None = None, devices: tuple[Device, ...] | None = None
    ) -> None:
        self._probe = probe or LiveProbe()
        found = read_machine(self._probe).devices if devices is None else devices
        self._devices = DeviceReaders(self._probe, found)
        self._host = HostReader(self._probe)

    def take(self) -> Sample:
        """Return what is to be seen now."""
        started = time.thread_time()
        host, devices = self._host.read(), self._devices.read()
        processes: tuple[ProcessSample, ...] = ()
        return Sample(time.time(), host, devices, processes, time.thread_time() - started)

    def close(self) -> None:
        """Let go of the devices."""
        self._devices.close()
