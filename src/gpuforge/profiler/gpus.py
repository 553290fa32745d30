"""Which GPU of the machine a backend computes on, as far as its name tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VENDORS = {
    "cuda": ("nvidia", "amd"), "rocm": ("amd",), "xpu": ("intel",), "mps": ("apple",),
    "metal": ("apple",), "gpu": ("nvidia", "amd", "intel", "apple", "other"),
}  # fmt: skip
"""What a backend's name calls its device -> the vendors that it may be of. PyTorch calls AMD's GPUs
``cuda``, too."""


def name_of(gpu: Mapping[str, Any]) -> str:
    """Return what the readings of a GPU are kept under."""
    return f"gpu {gpu.get('index')}"


def kind_of(backend: str) -> str:
    """Return what a backend's name calls its GPU, such as ``cuda``; empty where it is none."""
    library, _, rest = backend.partition(":")
    kind = (rest or ("cuda" if library == "cupy" else "")).partition(":")[0]
    return kind if kind in VENDORS else ""


def gpu_of(header: Mapping[str, Any], backend: str) -> dict[str, Any]:
    """Return what was detected of the GPU that a backend computes on; empty where it is not known.

    Libraries count the GPUs of a vendor, the fastest first; detection counts them by their place on
    the bus. Of several that differ none is named.
    """
    kind, number = kind_of(backend), [*backend.split(":"), "", "0"][2]
    machine = header.get("machine")
    devices = machine.get("devices") if isinstance(machine, dict) else None
    if not kind or not isinstance(devices, list):
        return {}
    known = [one for one in devices if isinstance(one, dict)]
    present = [v for v in VENDORS[kind] if any(one.get("vendor") == v for one in known)]
    vendors = present if kind == "gpu" else present[:1]
    own = [one for one in known if one.get("vendor") in vendors]
    place = int(number) if number.isdecimal() else 0
    alike = len({str(one.get("name")) for one in own}) == 1
    return dict(own[place]) if alike and place < len(own) else {}
