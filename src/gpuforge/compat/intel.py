"""Intel: which GPUs PyTorch's XPU build serves, by the name of the device.

Source: PyTorch's notes on Intel GPUs; each entry of ``intel.toml`` names its own.
"""

from __future__ import annotations

import re

from gpuforge.compat.tables import entries

_MARKS = re.compile(r"\((?:r|tm)\)|[®™]", re.IGNORECASE)


def serves(name: str) -> tuple[bool, str] | None:
    """Return whether a family is served and what it is called, None for a name in no family."""
    plain = re.sub(r"\s+", " ", _MARKS.sub(" ", name)).lower()
    for family in entries("intel", "family"):
        if re.search(family["pattern"], plain):
            return bool(family["xpu"]), str(family["name"])
    return None
