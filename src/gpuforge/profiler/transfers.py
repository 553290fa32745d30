"""Transfers to and from devices: bytes, time, and speed compared with the link's peak."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from gpuforge.facts import Absent
from gpuforge.profiler.model import TRANSFER, Profile
from gpuforge.profiler.rates import Rate, rate
from gpuforge.units import significant

_SPEEDS = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))


@dataclass(frozen=True, slots=True)
class Transfers:
    """The transfers of one backend in one direction.

    Attributes
    ----------
    backend, direction : from the spans' attributes; empty if unknown
    count : number of transfers
    bytes, seconds : totals
    peak : peak rate of the link and its source, or why it is unknown
    """

    backend: str
    direction: str
    count: int
    bytes: int
    seconds: float
    peak: Rate | Absent

    @property
    def way(self) -> str:
        """Direction and backend as far as they are known: ``to device torch:cuda``."""
        return f"{self.direction} {self.backend}".strip()

    @property
    def bytes_per_second(self) -> float | None:
        """Mean speed; None if no time was measured."""
        return self.bytes / self.seconds if self.seconds else None

    @property
    def speed(self) -> str:
        """The mean speed as text, in decimal units as the peaks are; ``-`` if no bytes moved."""
        found = self.bytes_per_second
        scale, unit = next((one for one in _SPEEDS if (found or 0) >= one[0]), _SPEEDS[-1])
        return f"{significant(found / scale)} {unit}" if found else "-"

    @property
    def of_peak(self) -> str:
        """The speed as a share of the peak, as text; ``-`` if either is unknown."""
        speed = self.bytes_per_second
        if not speed or isinstance(self.peak, Absent):
            return "-"
        best = self.peak.per_second
        return f"{100 * speed / best:.3g} % of {best / 1e9:.3g} GB/s"


def transfers(profile: Profile) -> list[Transfers]:
    """Return the transfers by backend and direction, longest first."""
    spans = profile.spans
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for index, label in enumerate(spans.label):
        if label != TRANSFER:
            continue
        said = spans.attributes.get(index, {})
        row = sums[str(said.get("backend", "")), str(said.get("direction", ""))]
        row[0] += spans.count[index]
        row[1] += spans.bytes[index]
        row[2] += spans.duration[index]
    found = [
        Transfers(backend, direction, count, moved, ns / 1e9, rate(profile, backend, direction))
        for (backend, direction), (count, moved, ns) in sums.items()
    ]
    return sorted(found, key=lambda row: -row.seconds)


def peaks_told(found: list[Transfers]) -> str:
    """Return sentences on the sources of the links' peaks, and why others are unknown."""
    links: dict[str, list[str]] = defaultdict(list)
    for row in found:
        if row.bytes:
            why = row.peak.reason if isinstance(row.peak, Absent) else row.peak.source
            known = "no peak" if isinstance(row.peak, Absent) else "peak"
            links[f"{known}: {why}"].append(row.way)
    return ". ".join(f"{' and '.join(ways)}, {told}" for told, ways in links.items())
