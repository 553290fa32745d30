"""Live values of the detected devices, read through their vendors' interfaces, and of the host.

Each module named after a vendor defines a ``Reader``, which is opened once for that vendor's
devices, read any number of times, and closed. Reading changes nothing on the machine.
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
        """Return one reading for each device, in the order in which the devices were given."""

    def close(self) -> None:
        """Release the reader's resources."""


def identity(device: Device) -> DeviceReading:
    """Return a reading with only the identity of a device and its total memory."""
    return DeviceReading(
        device.index, device.vendor, device.name, device.pci_address, device.uuid,
        memory_total_bytes=device.memory_total_bytes,
    )  # fmt: skip


def unread(blank: DeviceReading, why: Absent | Failed) -> DeviceReading:
    """Return a reading whose live values are all missing for the same reason."""
    names = list(vars(blank))
    live = [n for n in names[names.index("utilization_ratio") :] if n not in KEPT]
    missing: dict[str, Any] = dict.fromkeys(live, why)
    return replace(blank, **missing)


class DeviceReaders:
    """The readers of all GPU vendors on a machine."""

    def __init__(self, probe: Probe, devices: Sequence[Device]) -> None:
        self._others = [device for device in devices if device.vendor not in VENDORS]
        known = sorted((d for d in devices if d.vendor in VENDORS), key=attrgetter("vendor"))
        self._readers: list[Reader] = [
            import_module(f"{__name__}.{vendor}").Reader(probe, list(own))
            for vendor, own in groupby(known, attrgetter("vendor"))
        ]

    def read(self) -> tuple[DeviceReading, ...]:
        """Return one reading for each device, ordered by index."""
        found = [reading for reader in self._readers for reading in reader.read()]
        why = Absent("gpuforge has no reader for GPUs of this vendor")
        found += [unread(identity(device), why) for device in self._others]
        return tuple(sorted(found, key=attrgetter("index")))

    def close(self) -> None:
        """Close all readers."""
        for reader in self._readers:
            reader.close()
