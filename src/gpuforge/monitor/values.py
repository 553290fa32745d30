"""A sample as a JSON document, and as named numbers for averages and history."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from gpuforge.facts import Absent, Failed
from gpuforge.monitor.sample import Sample

_NO_SERIES = ("index", "cores", "origins")


def document(value: Any) -> Any:
    """Return a value of dataclasses and readings in plain JSON types.

    An unknown value is null, and its reason is under ``unknown``.
    """
    if isinstance(value, tuple | list):
        return [document(one) for one in value]
    if not is_dataclass(value):
        return value
    found = {field.name: getattr(value, field.name) for field in fields(value)}
    unknown = {n: v.reason for n, v in found.items() if isinstance(v, Absent | Failed)}
    shown = {n: None if n in unknown else document(v) for n, v in found.items()}
    return {**shown, "unknown": unknown} if unknown else shown


def series(sample: Sample) -> dict[str, float]:
    """Return every known number of the host and the devices by name.

    Names are such as ``host.utilization_ratio`` and ``gpu0.power_watts``.
    """
    sources: list[tuple[str, Any]] = [("host", sample.host)]
    sources += [(f"gpu{device.index}", device) for device in sample.devices]
    return {
        f"{source}.{name}": float(number)
        for source, reading in sources
        for name, number in vars(reading).items()
        if isinstance(number, int | float) and name not in _NO_SERIES
    }
