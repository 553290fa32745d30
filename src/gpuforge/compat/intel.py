"""Intel: which GPUs PyTorch's XPU builds support, by the name of the device.

Source: PyTorch's notes on Intel GPUs; each entry of ``intel.toml`` names its own.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuforge.compat.tables import entries

_ID = re.compile(r"\b0x([0-9a-f]{4})\b")
_TRADEMARKS = re.compile(r"\((?:r|tm)\)|[®™]", re.IGNORECASE)


class Family(NamedTuple):
    """A family of GPUs, and whether XPU builds support it at all and on Windows."""

    name: str
    xpu: bool
    windows: bool


def family_of(name: str, device_id: str = "") -> Family | None:
    """Return the family of a device by its name or PCI id, or None if no table lists it."""
    plain = re.sub(r"\s+", " ", _TRADEMARKS.sub(" ", name)).lower()
    written = _ID.search(plain)
    device_id = device_id or (written[1] if written else "")
    for entry in entries("intel", "family"):
        if re.search(entry["pattern"], plain) or device_id in entry.get("pci", ()):
            return Family(entry["name"], entry["xpu"], entry.get("windows", False))
    return None
