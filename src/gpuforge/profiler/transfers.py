"""Bytes moved to and from devices: how many, how long, and how fast against the link's peak."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from gpuforge.profiler.model import TRANSFER, Profile


@dataclass(frozen=True, slots=True)
class Transfers:
    """All transfers of one backend in one direction.

    Attributes
    ----------
    backend, direction : as the spans say; empty where they do not
    count : transfers
    bytes, seconds : of all together
    peak_bytes_per_second : of the link as it was measured; None if it was not
    """

    backend: str
    direction: str
    count: int
    bytes: int
    seconds: float
    peak_bytes_per_second: float | None

    @property
    def bytes_per_second(self) -> float | None:
        """How fast they were; None if no time was measured."""
        return self.bytes / self.seconds if self.seconds else None


def transfers(profile: Profile) -> list[Transfers]:
    """Return the transfers that threads made, by backend and direction, longest first."""
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
    links = profile.header.get("link_bytes_per_second") or {}
    found = [
        Transfers(backend, direction, count, moved, ns / 1e9, _peak(links, backend, direction))
        for (backend, direction), (count, moved, ns) in sums.items()
    ]
    return sorted(found, key=lambda row: -row.seconds)


def _peak(links: object, backend: str, direction: str) -> float | None:
    """Return the measured peak of a backend's link, which the header may not hold."""
    of_link = links.get(backend) if isinstance(links, dict) else None
    peak = of_link.get(direction) if isinstance(of_link, dict) else None
    sound = isinstance(peak, int | float) and math.isfinite(peak) and peak > 0
    return float(peak) if sound and peak is not None else None
