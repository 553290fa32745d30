"""Apple GPUs: macOS documents no way for ordinary users to read their live values.

``powermetrics`` needs root. The ``PerformanceStatistics`` that ``ioreg`` prints are undocumented,
and starting a process for each sample would cost too much.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuforge.facts import Absent, Device
from gpuforge.probe import Probe
from gpuforge.readings import identity, unread
from gpuforge.readings.model import DeviceReading

NOT_SHOWN = Absent("macOS shows it to root only (powermetrics)")


class Reader:
    """Returns readings that say why the live values of Apple GPUs are missing."""

    def __init__(self, probe: Probe, devices: Sequence[Device]) -> None:
        self._readings = [unread(identity(device), NOT_SHOWN) for device in devices]

    def read(self) -> list[DeviceReading]:
        """Return the GPUs, without live values."""
        return self._readings

    def close(self) -> None:
        """Do nothing: there are no resources to release."""
