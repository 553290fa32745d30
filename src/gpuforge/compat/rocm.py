"""AMD: which ROCm serves a GPU target.

Sources: AMD's compatibility matrices and the architecture lists of the PyTorch ROCm wheels; each
entry of ``rocm.toml`` names its own.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from gpuforge.compat.products import value_of
from gpuforge.compat.tables import entries
from gpuforge.compat.versions import parse_version


def target_of(name: str) -> str | None:
    """Return the target of a product by its name, None when no list has it."""
    return value_of(name, "rocm", "gpu", "gfx")


def wheels(gfx: str) -> tuple[str, ...]:
    """Return the PyTorch ROCm builds that hold kernels for a target: ``("rocm7.2", ...)``.

    Empty for a target that none is known to hold, or that is not known at all.
    """
    entry = _targets().get(gfx)
    return tuple(entry.get("torch_rocm_wheels", ())) if entry else ()


def official(gfx: str, major: int) -> bool:
    """Return whether some ROCm release of that major lists the target officially."""
    listed = (_targets().get(gfx) or {}).get("rocm_official", ())
    return any(parse_version(release)[0] == major for release in listed)


def note(gfx: str) -> str:
    """Return what to know about running ROCm on a target, or empty text."""
    return str((_targets().get(gfx) or {}).get("note", ""))


@cache
def _targets() -> dict[str, dict[str, Any]]:
    return {entry["gfx"]: entry for entry in entries("rocm", "gpu")}
