"""AMD: which ROCm releases support a GPU target.

Sources: AMD's compatibility matrices and the architecture lists of the PyTorch ROCm wheels; each
entry of ``rocm.toml`` names its own.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from gpuforge.compat.products import value_of
from gpuforge.compat.tables import entries
from gpuforge.compat.versions import parse_version


def target_of(name: str) -> str | None:
    """Return the target of a product by its name, or None if no table lists it."""
    return value_of(name, "rocm", "gpu", "gfx")


def wheels(gfx: str) -> tuple[str, ...]:
    """Return the PyTorch ROCm builds that contain kernels for a target: ``("rocm7.2", ...)``.

    Empty if no known build does, or the target is unknown.
    """
    entry = _targets().get(gfx)
    return tuple(entry.get("torch_rocm_wheels", ())) if entry else ()


def official(gfx: str, major: int) -> bool:
    """Return whether a ROCm release of that major version officially supports the target."""
    listed = (_targets().get(gfx) or {}).get("rocm_official", ())
    return any(parse_version(release)[0] == major for release in listed)


def note(gfx: str) -> str:
    """Return a note about running ROCm on a target; empty if there is none."""
    return str((_targets().get(gfx) or {}).get("note", ""))


def releases_for_driver(driver: str) -> tuple[str, ...] | None:
    """Return the ROCm releases that a version of AMD's kernel module supports: ``("6.1", ...)``.

    None for a version that no table lists, such as that of the Linux kernel's own module.
    """
    known = {entry["module"]: tuple(entry["rocm"]) for entry in entries("rocm", "driver")}
    if driver in known:
        return known[driver]
    of_amd = re.fullmatch(r"\d+\.\d+\.\d+", driver) is not None
    return () if of_amd and parse_version(driver) < min(map(parse_version, known)) else None


def module_for(release: str) -> str:
    """Return the oldest version of AMD's kernel module that supports a ROCm release."""
    fitting = [e["module"] for e in entries("rocm", "driver") if release in e["rocm"]]
    return min(fitting, key=parse_version, default="")


def min_memory_gb(gfx: str) -> float | None:
    """Return the smallest memory of any device with a target, in GB; None if unknown."""
    found = (_targets().get(gfx) or {}).get("memory_gb")
    return float(found) if found else None


@cache
def _targets() -> dict[str, dict[str, Any]]:
    return {entry["gfx"]: entry for entry in entries("rocm", "gpu")}
