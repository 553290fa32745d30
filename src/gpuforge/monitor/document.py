"""Samples as JSON documents: base units, null for what is unknown, its reason under ``unknown``."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any

from gpuforge.facts import Absent, Failed
from gpuforge.monitor.sample import ProcessSample, Sample


def of_sample(sample: Sample) -> dict[str, Any]:
    """Return a sample as a document."""
    return {
        "schema_version": 1,
        "taken_at": sample.taken_at,
        "cost_seconds": sample.cost_seconds,
        "host": of_reading(sample.host),
        "devices": [of_reading(device) for device in sample.devices],
        "processes": [_process(process) for process in sample.processes],
    }


def of_reading(reading: Any) -> dict[str, Any]:
    """Return the fields of a dataclass of readings, those that are unknown under ``unknown``."""
    values = {field.name: getattr(reading, field.name) for field in fields(reading)}
    unknown = {n: v.reason for n, v in values.items() if isinstance(v, Absent | Failed)}
    infinite = {n for n, v in values.items() if isinstance(v, float) and not math.isfinite(v)}
    unknown.update(dict.fromkeys(infinite, "it is no finite number"))
    plain = {name: None if name in unknown else _plain(value) for name, value in values.items()}
    return {**plain, "unknown": unknown}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return of_reading(value) if is_dataclass(value) else value


def _process(process: ProcessSample) -> dict[str, Any]:
    told = of_reading(process)
    return {**told.pop("published"), **told}
