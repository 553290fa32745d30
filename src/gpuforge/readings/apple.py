"""Apple's GPUs now: only what macOS shows to every user by a documented way, which is little.

``powermetrics`` needs root. What ``ioreg`` prints as ``PerformanceStatistics`` is not documented,
and starting it for every sample costs more than a sample may.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuforge.facts import Absent, Device
from gpuforge.probe import Probe
from gpuforge.readings import identity, unread
from gpuforge.readings.model import DeviceReading

NOT_SHOWN = Absent("macOS shows it to root only (powermetrics)")


class Reader:
    """Tells why the live values of Apple's GPUs are missing."""

    def __init__(self, probe: Probe, devices: Sequence[Device]) -> None:
        self._readings = [unread(identity(device), NOT_SHOWN) for device in devices]

    def read(self) -> list[DeviceReading]:
        """Return the GPUs, without live values."""
        return self._readings

    def close(self) -> None:
        """There is nothing to let go of."""
