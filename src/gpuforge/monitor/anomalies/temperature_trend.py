"""A temperature on its way to the limit.

It speaks when the temperature rises beyond chance over the last five minutes or more, by at least
3 °C, still rises at the end, and would reach the limit at which the device slows down within half
an hour. A device that warms up after a start levels off, and one far below its limit is not near
it: both are silent. Where no limit is shown, 90 °C is taken and said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuforge.monitor.anomaly import Anomaly
from gpuforge.monitor.series import Subject, drift

AT_LEAST_SECONDS = 300.0
AT_LEAST_DEGREES = 3.0
WITHIN_SECONDS = 1800.0
ASSUMED_LIMIT = 90.0


def find(subjects: Sequence[Subject]) -> Iterator[Anomaly]:
    """Yield the devices that get too hot soon."""
    for subject in subjects:
        series = subject.series.get("temperature_celsius", ())
        moved = drift(series, at_least_seconds=AT_LEAST_SECONDS)
        if moved is None or not (moved.surely and moved.continuing):
            continue
        shown = subject.last("temperature_limit_celsius")
        limit = shown or ASSUMED_LIMIT
        forecast = moved.until(limit)
        if moved.change < AT_LEAST_DEGREES or forecast.seconds > WITHIN_SECONDS:
            continue
        which = "where it slows down" if shown else "assumed, because its limit is not shown"
        yield Anomaly(
            "temperature_trend", subject.name, "warning",
            f"the temperature rose by {moved.change:.0f} °C to {series[-1][1]:.0f} °C and reaches "
            f"{limit:.0f} °C ({which}) {forecast}",
            "check the fans, the airflow and the room temperature",
            forecast,
        )  # fmt: skip
