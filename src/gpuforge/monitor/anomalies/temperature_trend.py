"""A temperature that rises towards the limit.

Reports when the temperature rises significantly over the last five minutes or more, by at least
3 °C, still rises at the end, and would reach the limit at which the device throttles within half an
hour. A device that levels off after warming up, or is far below its limit, is not reported. If no
limit is shown, 90 °C is assumed, and the message says so.
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
    """Yield the devices that will soon reach their temperature limit."""
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
