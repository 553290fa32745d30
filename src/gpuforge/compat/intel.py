"""Intel: which GPUs PyTorch's XPU build serves, by the name of the device.

Source: PyTorch's notes on Intel GPUs; each entry of ``intel.toml`` names its own.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuforge.compat.tables import entries

_MARKS = re.compile(r"\((?:r|tm)\)|[®™]", re.IGNORECASE)


class Family(NamedTuple):
    """A family of GPUs: its name, and whether XPU builds serve it, on Windows too."""

    name: str
    xpu: bool
    windows: bool


def family_of(name: str) -> Family | None:
    """Return the family that the name of a device tells, None for a name in no family."""
    plain = re.sub(r"\s+", " ", _MARKS.sub(" ", name)).lower()
    for entry in entries("intel", "family"):
        if re.search(entry["pattern"], plain):
            return Family(entry["name"], entry["xpu"], entry.get("windows", False))
    return None
