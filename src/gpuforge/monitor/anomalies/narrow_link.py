"""A PCIe link that runs with fewer lanes than both of its ends support.

Reports when every reading of the last 30 s in which the GPU was busy shows fewer lanes; some GPUs
drop lanes while idle, so idle readings are ignored. Without a utilisation, all readings count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuforge.monitor.anomaly import Anomaly
from gpuforge.monitor.series import Subject

SECONDS = 30.0
AT_LEAST = 3
BUSY = 0.05


def find(subjects: Sequence[Subject]) -> Iterator[Anomaly]:
    """Yield the GPUs whose link has fewer lanes than it could."""
    for subject in subjects:
        width_now = subject.series.get("link_width", ())
        full = subject.last("link_width_max")
        busy = dict(subject.series.get("utilization_ratio", ()))
        if not width_now or not full:
            continue
        since = width_now[-1][0] - SECONDS
        widths = [w for t, w in width_now if t >= since and (not busy or busy.get(t, 0) >= BUSY)]
        if len(widths) >= AT_LEAST and 0 < max(widths) < full:
            yield Anomaly(
                "narrow_link", subject.name, "warning",
                f"the PCIe link has {max(widths):.0f} lanes of {full:.0f}: transfers take up to "
                f"{full / max(widths):.0f} times as long",
                "reseat the card, or use a slot or riser with all lanes",
            )  # fmt: skip
