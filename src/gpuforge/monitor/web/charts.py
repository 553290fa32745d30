"""The charts of the page, as columns of values over common times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpuforge.monitor.series import Series, Subject


@dataclass(frozen=True)
class Chart:
    """One chart: a line for each subject that has the reading.

    Attributes
    ----------
    unit : one of the units that the page can format
    highest : upper end of the axis; None if it adapts to the values
    series : returns the line of a subject; empty if it has none
    """

    name: str
    title: str
    unit: str
    highest: float | None
    series: Callable[[Subject], Series]


def _of(name: str) -> Callable[[Subject], Series]:
    return lambda subject: subject.series.get(name, ())


def _memory_share(subject: Subject) -> Series:
    total = subject.last("memory_total_bytes")
    if not total or subject.kind == "process":
        return ()
    return [
        (moment, value / total) for moment, value in subject.series.get("memory_used_bytes", ())
    ]


CHARTS = (
    Chart("utilization", "Busy share of the time", "ratio", 1.0, _of("utilization_ratio")),
    Chart("memory", "Share of memory in use", "ratio", 1.0, _memory_share),
    Chart("temperature", "Temperature", "celsius", None, _of("temperature_celsius")),
    Chart("power", "Power", "watts", None, _of("power_watts")),
    Chart("clock", "Clock", "hertz", None, _of("core_clock_hertz")),
    Chart("queue", "Waiting tasks", "count", None, _of("tasks_waiting")),
)


def history(subjects: Sequence[Subject], moments: Sequence[float]) -> dict[str, Any]:
    """Return all charts with lines; each line has a value or None for each moment."""
    drawn = []
    for chart in CHARTS:
        lines = [(subject.name, dict(chart.series(subject))) for subject in subjects]
        told = [
            {"name": name, "values": [values.get(moment) for moment in moments]}
            for name, values in lines
            if values
        ]
        if told:
            drawn.append(
                {
                    "name": chart.name, "title": chart.title, "unit": chart.unit,
                    "highest": chart.highest, "lines": told,
                }
            )  # fmt: skip
    return {"moments": list(moments), "charts": drawn}


def points(subjects: Sequence[Subject], moment: float) -> dict[str, dict[str, float | None]]:
    """Return the newest values by chart and line; None for a line without a value at `moment`."""
    found: dict[str, dict[str, float | None]] = {}
    for chart in CHARTS:
        for subject in subjects:
            if series := chart.series(subject):
                at, value = series[-1]
                found.setdefault(chart.name, {})[subject.name] = value if at == moment else None
    return found
