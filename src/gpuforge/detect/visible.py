"""Which GPUs the visible-devices variables leave to this process; pure functions.

Sources: CUDA C++ Programming Guide, environment variables; ROCm documentation, GPU isolation;
intel/llvm ``sycl/doc/EnvironmentVariables.md`` (ONEAPI_DEVICE_SELECTOR).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpuforge.facts import Device, known

# AMD's variables apply in turn: HIP's indices count the devices that ROCR leaves.
VARIABLES = {
    "CUDA_VISIBLE_DEVICES": "nvidia",
    "ROCR_VISIBLE_DEVICES": "amd",
    "HIP_VISIBLE_DEVICES": "amd",
    "ONEAPI_DEVICE_SELECTOR": "intel",
}
SHOWN = (*VARIABLES, "CUDA_DEVICE_ORDER", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK")


def settings_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are set, by name."""
    return {name: environ[name] for name in SHOWN if name in environ}


def split(
    devices: Sequence[Device], environ: Mapping[str, str]
) -> tuple[list[Device], list[Device]]:
    """Return the devices that this process may use, and those that a variable hides from it."""
    visible = list(devices)
    vendors = {device.vendor for device in devices}
    for variable, vendor in VARIABLES.items():
        text = environ.get(variable)
        if variable == "HIP_VISIBLE_DEVICES" and text is None and "nvidia" not in vendors:
            text = environ.get("CUDA_VISIBLE_DEVICES")  # HIP falls back to it
        if text is None:
            continue
        own = [device for device in visible if device.vendor == vendor]
        kept = _selected(text, own) if vendor == "intel" else _listed(text, own)
        visible = [device for device in visible if device.vendor != vendor or device in kept]
    shown = {id(device) for device in visible}
    return visible, [device for device in devices if id(device) not in shown]


def _listed(text: str, own: Sequence[Device]) -> list[Device]:
    """Return the devices in a list of ordinals and UUIDs, which ends at the first invalid entry."""
    kept: list[Device] = []
    for entry in text.split(","):
        entry = entry.strip()
        if entry.isdecimal():
            found = own[int(entry)] if int(entry) < len(own) else None
        elif re.match(r"(GPU|MIG)-", entry):
            found = next((d for d in own if (known(d.uuid) or "").startswith(entry)), None)
            if found is None and entry.startswith("MIG-"):
                found = next((d for d in own if known(d.partitions)), None)
        else:
            found = None
        if found is None or found in kept:
            break
        kept.append(found)
    return kept


def _selected(text: str, own: Sequence[Device]) -> list[Device]:
    """Return the devices that oneAPI's selector leaves: ``backend:devices``, separated by ``;``."""
    kept: set[int] = set()
    left: set[int] = set()
    only_refused = True
    for term in text.split(";"):
        refused = term.strip().startswith("!")
        backend, _, choice = term.strip().lstrip("!").partition(":")
        if backend.lower() not in ("*", "level_zero", "opencl"):
            only_refused = only_refused and refused
            continue
        chosen = {place for part in choice.split(",") for place in _places(part, len(own))}
        only_refused = only_refused and refused
        (left if refused else kept).update(chosen)
    if only_refused:
        kept = set(range(len(own)))
    return [device for place, device in enumerate(own) if place in kept - left]


def _places(part: str, count: int) -> range:
    part = part.strip().partition(".")[0]
    if part in ("*", "gpu", ""):
        return range(count)
    return range(int(part), min(count, int(part) + 1)) if part.isdecimal() else range(0)
