"""Memory that grows without a plateau, and when it will be full.

It speaks when the floor of the memory in use, the least of each tenth of the last five minutes or
more, rises beyond chance by at least 1 % of all memory and still rises at the end. It is silent for
memory that comes and goes, for one that was loaded once, and for one whose growth levels off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuforge.monitor.anomaly import Anomaly
from gpuforge.monitor.series import Subject, drift
from gpuforge.units import format_bytes, format_seconds

AT_LEAST_SECONDS = 300.0
AT_LEAST_SHARE = 0.01
FORECAST_WITHIN_SECONDS = 86400.0


def find(subjects: Sequence[Subject]) -> Iterator[Anomaly]:
    """Yield the devices and hosts whose memory grows."""
    for subject in subjects:
        total = subject.last("memory_total_bytes")
        used = subject.series.get("memory_used_bytes", ())
        moved = drift(used, at_least_seconds=AT_LEAST_SECONDS, of_block=min)
        if not total or moved is None or not (moved.surely and moved.continuing):
            continue
        if moved.change < AT_LEAST_SHARE * total:
            continue
        forecast = moved.until(total)
        soon = forecast.seconds < FORECAST_WITHIN_SECONDS
        reason = (
            f"memory in use has grown by {format_bytes(round(moved.change))} within "
            f"{format_seconds(moved.seconds)} and does not level off"
            + (f": memory full {forecast}" if soon else "")
        )
        yield Anomaly(
            "memory_growth", subject.name, "warning", reason,
            "look for arrays that a list, a cache or a closure keeps; the list of processes shows"
            " which of them grows",
            forecast if soon else None,
        )  # fmt: skip
