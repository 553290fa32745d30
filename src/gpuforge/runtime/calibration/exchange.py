"""Constants of one machine, written to a file and read on another of the same hardware.

Only calibrated ratios and opening times are exchanged, as priors; timings of calls stay with the
fingerprint of the machine that they were measured on. A file may come from anywhere: its content is
validated before anything is kept, and none of it is executed.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from gpuforge.errors import EnvironmentMismatch, WorkloadError
from gpuforge.history import History
from gpuforge.runtime.backends import names
from gpuforge.runtime.calibration.fingerprint import describe_machine
from gpuforge.runtime.calibration.probes import PROBES, SIZES
from gpuforge.runtime.placement.priors import CONSTANT, Priors
from gpuforge.stored import write

FORMAT = "gpuforge calibration"
VERSION = 1
LIMIT_BYTES = 1 << 20
HARDWARE = ("system", "machine", "cpu", "cores")
"""Facts that must be the same on both machines; NumPy's version and thread variables may differ."""
_RATIO_LIMITS = (1e-6, 1e6)
Ratios = dict[str, dict[str, list[list[float]]]]


def export_constants(history: History, path: Path) -> int:
    """Write this machine's calibration to `path`; return how many points it holds.

    Raises
    ------
    WorkloadError
        If nothing was calibrated here, or the file cannot be written.
    """
    ratios = Priors(history).table
    points = _count(ratios)
    if not points:
        raise WorkloadError(
            "there is no calibration of this machine to export",
            hint="run 'gpuforge calibrate' first",
        )
    facts = describe_machine()
    content = {
        "format": FORMAT,
        "schema_version": VERSION,
        "hardware": {name: facts[name] for name in HARDWARE},
        "time_over_numpy": ratios,
    }
    try:
        write(path, json.dumps(content, indent=1) + "\n")
    except OSError as error:
        raise WorkloadError(
            f"{path} cannot be written: {error.strerror}", hint="choose another folder"
        ) from None
    return points


def import_constants(history: History, path: Path) -> int:
    """Keep the points of `path` that were not measured here; return their number.

    Raises
    ------
    WorkloadError
        If the file is not a calibration, truncated, too large, or has implausible values.
    EnvironmentMismatch
        If it was measured on other hardware.
    """
    content = _read(path)
    _check_hardware(content.get("hardware"), path)
    found = _checked(content.get("time_over_numpy"), path)
    found_before = history.constant(CONSTANT)
    kept: dict[str, Any] = found_before if isinstance(found_before, dict) else {}
    ratios: Ratios = Priors(history).table
    kept["ratios"] = ratios
    before = _count(ratios)
    for probe, backends in found.items():
        for backend, points in backends.items():
            here = ratios.setdefault(probe, {}).setdefault(backend, [])
            sizes = {size for size, _ in here}
            here += [point for point in points if point[0] not in sizes]
    history.keep_constant(CONSTANT, kept)
    return _count(ratios) - before


def _count(ratios: Ratios) -> int:
    return sum(len(points) for backends in ratios.values() for points in backends.values())


def _refuse(path: Path, what: str) -> WorkloadError:
    return WorkloadError(
        f"{path}: {what}", hint="export it again with 'gpuforge calibrate --export FILE'"
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise WorkloadError(
            f"{path} cannot be read: {error.strerror}", hint="name a file that exists"
        ) from None
    if len(raw) > LIMIT_BYTES:
        raise _refuse(path, f"larger than the {LIMIT_BYTES >> 20} MiB that a calibration can be")
    try:
        content: Any = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _refuse(path, f"it is not a complete JSON document: {str(error)[:100]}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _refuse(path, "it is not a gpuforge calibration")
    if content.get("schema_version") != VERSION:
        version = str(content.get("schema_version"))[:20]
        raise _refuse(path, f"schema version {version}, expected {VERSION}")
    return content


def _check_hardware(found: Any, path: Path) -> None:
    if not isinstance(found, dict):
        raise _refuse(path, "it does not contain the hardware on which it was measured")
    here = describe_machine()
    for name in HARDWARE:
        if found.get(name) != here[name]:
            raise EnvironmentMismatch(
                f"{path} was measured on other hardware: {name} {str(found.get(name))[:80]!r},"
                f" here {here[name]!r}",
                hint="run 'gpuforge calibrate' here",
            )


def _checked(ratios: Any, path: Path) -> Ratios:
    """Return the points of a file after validating each of them."""
    if not isinstance(ratios, dict) or not set(ratios) <= set(PROBES):
        raise _refuse(path, "its measurements belong to another version of gpuforge")
    found: Ratios = {}
    known = names()
    for probe, backends in ratios.items():
        if not isinstance(backends, dict):
            raise _refuse(path, f"{probe} contains no backends")
        for backend, points in backends.items():
            if backend.split(":")[0] not in known or len(backend) > 40:
                raise _refuse(path, f"unknown backend {backend[:40]!r}")
            if not isinstance(points, list) or not all(map(_is_point, points)):
                raise _refuse(path, f"{probe} on {backend} contains an invalid measurement")
            unique = {size: [size, ratio] for size, ratio in points}
            found.setdefault(probe, {})[backend] = list(unique.values())
    return found


def _is_point(point: Any) -> bool:
    low, high = _RATIO_LIMITS
    return (
        isinstance(point, list)
        and len(point) == 2
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in point)
        and point[0] in SIZES
        and math.isfinite(point[1])
        and low <= point[1] <= high
    )
