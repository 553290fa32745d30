"""How well a profile fits a machine, from 0 to 100: by its memory, then by its GPU generation.

More memory or a newer compute capability never lowers the score, and a profile whose minimum memory
is met always scores higher than one whose minimum is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuforge.compat import rocm
from gpuforge.compat.versions import parse_version
from gpuforge.environment.obstacles import capabilities, device_name, gfx_target, intel_family
from gpuforge.environment.profile import Profile
from gpuforge.facts import Device, Machine, known

_UNMET_LIMIT = 9
_FULL_CAPABILITY = 9.0
_GB = 10**9
# Smallest memory of Macs with Apple GPUs (M1, 2020), and of cards that frameworks still support.
_LEAST_APPLE_GB, _LEAST_GB = 8, 2


@dataclass(frozen=True)
class Fit:
    """How well a profile fits a machine.

    Attributes
    ----------
    score : 0-100
    met : whether the minimum memory of the profile is met
    device : the name of the device that it would use, or ``CPU``
    reason : one sentence on the score
    """

    score: int
    met: bool
    device: str
    reason: str


def fit_profile(machine: Machine, profile: Profile, *, cpu_only: bool = False) -> Fit:
    """Return the fit of `profile` on the best device of `machine`."""
    options = [_on_cpu(machine, profile)]
    if not cpu_only:
        options += [_on_device(machine, device, profile) for device in machine.devices]
    return max(options, key=lambda fit: fit.score)


def _on_device(machine: Machine, device: Device, profile: Profile) -> Fit:
    name, need = device_name(device), profile.minimum_memory_gb * _GB
    shown = known(device.memory_total_bytes)
    if shown is None and device.vendor == "apple":
        # Apple GPUs share the memory of the host.
        shown = known(machine.host.memory_total_bytes)
    memory = shown if shown is not None else _least_memory(device)
    share = memory / need if need else 2.0
    told = "" if shown is not None else "at least "
    amount = f"{name} has {told}{memory / _GB:.3g} GB, {profile.minimum_memory_gb:g} GB needed"
    if share < 1:
        return Fit(int(_UNMET_LIMIT * share), False, name, f"too little memory: {amount}")
    score = 50 + 25 * min(1.0, share - 1) + _generation(device)
    return Fit(int(score), True, name, amount)


def _least_memory(device: Device) -> float:
    """Return the memory, in bytes, that a device of this name, target or vendor has at least."""
    if named := re.search(r"\b(\d+) ?GB\b", device_name(device)):
        return int(named[1]) * _GB
    target = gfx_target(device) if device.vendor == "amd" else None
    gigabytes = _LEAST_APPLE_GB if device.vendor == "apple" else rocm.min_memory_gb(target or "")
    return (gigabytes or _LEAST_GB) * _GB


def _generation(device: Device) -> float:
    """Return 0 to 25 points for how recent a device is; 0 if that is unknown."""
    if device.vendor == "nvidia":
        numbers = parse_version(next(iter(capabilities(device)), ""))
        value = numbers[0] + min(numbers[1], 9) / 10 if len(numbers) > 1 else 0.0
        return 25 * min(1.0, value / _FULL_CAPABILITY)
    if device.vendor == "amd":
        gfx = gfx_target(device) or ""
        return 25.0 if rocm.official(gfx, 7) else 15.0 if rocm.wheels(gfx) else 0.0
    if device.vendor == "intel":
        family = intel_family(device)
        return 15.0 if family and family.xpu else 0.0
    return 20.0 if device.vendor == "apple" else 0.0


def _on_cpu(machine: Machine, profile: Profile) -> Fit:
    need = profile.minimum_memory_gb * _GB
    memory = known(machine.host.memory_total_bytes)
    if memory is not None and memory < need:
        share = memory / need
        return Fit(
            int(_UNMET_LIMIT * share), False, "CPU", "this machine has too little memory for it"
        )
    score = 10 + profile.cpu_fit * 0.38
    how = "well" if profile.cpu_fit >= 60 else "slowly"
    return Fit(int(score), True, "CPU", f"runs {how} on the CPU")
