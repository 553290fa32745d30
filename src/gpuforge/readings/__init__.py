"""Live values of the devices that detection found, each by its vendor's own way, and of the host.

A module here is named after its vendor and holds a ``Reader``: it is opened once for that vendor's
devices, reads them any number of times, and is closed. Reading changes nothing on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from itertools import groupby
from operator import attrgetter
from typing import Any, Protocol

from gpuforge.facts import Absent, Device, Failed
from gpuforge.probe import Probe
from gpuforge.readings.model import DeviceReading, HostReading, ProcessOnDevice

__all__ = ["DeviceReading", "DeviceReaders", "HostReading", "ProcessOnDevice", "identity", "unread"]

VENDORS = ("amd", "apple", "intel", "nvidia")
KEPT = ("memory_total_bytes", "origins")


class Reader(Protocol):
    """Reads the devices of one vendor."""

    def __init__(self, probe: Probe, devices: Sequence[Device]) -> None: ...

    def read(self) -> list[DeviceReading]:
        """Return the devices now, in the order in which they were given."""

    def close(self) -> None:
        """Let go of what reading needs."""


def identity(device: Device) -> DeviceReading:
    """Return a reading that holds no more than who a device is and what memory it has."""
    return DeviceReading(
        device.index, device.vendor, device.name, device.pci_address, device.uuid,
        memory_total_bytes=device.memory_total_bytes,
    )  # fmt: skip


def unread(blank: DeviceReading, why: Absent | Failed) -> DeviceReading:
    """Return a reading in which the live values are missing, all for the same reason."""
    names = list(vars(blank))
    live = [n for n in names[names.index("utilization_ratio") :] if n not in KEPT]
    missing: dict[str, Any] = dict.fromkeys(live, why)
    return replace(blank, **missing)


class DeviceReaders:
    """The readers of all vendors of a machine."""

    def __init__(self, probe: Probe, devices: Sequence[Device]) -> None:
        self._others = [device for device in devices if device.vendor not in VENDORS]
        known = sorted((d for d in devices if d.vendor in VENDORS), key=attrgetter("vendor"))
        self._readers: list[Reader] = [
            import_module(f"{__name__}.{vendor}").Reader(probe, list(own))
            for vendor, own in groupby(known, attrgetter("vendor"))
        ]

    def read(self) -> tuple[DeviceReading, ...]:
        """Return every device now, by its index."""
        found = [reading for reader in self._readers for reading in reader.read()]
        why = Absent("gpuforge has no reader for GPUs of this vendor")
        found += [unread(identity(device), why) for device in self._others]
        return tuple(sorted(found, key=attrgetter("index")))

    def close(self) -> None:
        """Let go of what the readers need."""
        for reader in self._readers:
            reader.close()
