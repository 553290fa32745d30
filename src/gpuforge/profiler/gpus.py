"""Finding the detected GPU of a backend by the backend's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VENDORS = {
    "cuda": ("nvidia", "amd"), "rocm": ("amd",), "xpu": ("intel",), "mps": ("apple",),
    "metal": ("apple",), "gpu": ("nvidia", "amd", "intel", "apple", "other"),
}  # fmt: skip
"""The vendors that a device name of a backend may stand for. PyTorch calls AMD's GPUs ``cuda``,
too."""


def name_of(gpu: Mapping[str, Any]) -> str:
    """Return the name under which the readings of a GPU are recorded."""
    return f"gpu {gpu.get('index')}"


def kind_of(backend: str) -> str:
    """Return the device name of a GPU backend, such as ``cuda``; empty for other backends."""
    library, _, rest = backend.partition(":")
    kind = (rest or ("cuda" if library == "cupy" else "")).partition(":")[0]
    return kind if kind in VENDORS else ""


def gpu_of(header: Mapping[str, Any], backend: str) -> dict[str, Any]:
    """Return the detected facts about the GPU of a backend; empty if unknown.

    Libraries number the GPUs of a vendor from the fastest on, detection by PCI address. So if there
    are several different GPUs, the answer is unknown.
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
