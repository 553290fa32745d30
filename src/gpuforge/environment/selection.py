"""Which build of a framework a machine gets, or why none and what single change would help most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuforge.compat import rocm
from gpuforge.compat.builds import ACCELERATORS, FRAMEWORKS, Accelerator, Build, builds_for
from gpuforge.compat.versions import parse_version
from gpuforge.environment.obstacles import (
    Obstacle,
    capabilities,
    device_name,
    driver_version,
    gfx_target,
    obstacles,
)
from gpuforge.environment.target import Target
from gpuforge.facts import Device, Machine, known

ACCELERATOR_OF: dict[str, Accelerator] = {
    "nvidia": "cuda",
    "amd": "rocm",
    "intel": "xpu",
    "apple": "metal",
}
_WORDS = {
    "python": "use Python {need}",
    "version": "take version {need}",
    "driver": "install driver {need} or newer",
    "system": "use a system with {need}",
    "framework": "use {need}",
    "repair": "repair the driver (see '{need}')",
}
_EASE = ("python", "version", "framework", "driver", "system")


@dataclass(frozen=True)
class Change:
    """One thing to change so that a build fits: its kind, the value needed, what it brings."""

    kind: str
    need: str
    brings: str

    def __str__(self) -> str:
        return f"{_WORDS[self.kind].format(need=self.need)}: {self.brings} then fits"


@dataclass(frozen=True)
class Refusal:
    """Why nothing is planned, and the single change that would help most, if any would."""

    reason: str
    change: Change | None = None


@dataclass(frozen=True)
class Selection:
    """A build that runs, on which devices (none for the CPU), and why this one."""

    build: Build
    devices: tuple[Device, ...]
    reason: str
    warnings: tuple[str, ...] = ()


def devices_for(machine: Machine, accelerator: Accelerator) -> tuple[Device, ...]:
    """Return the devices that an accelerator's builds could use, the fittest first."""
    own = [d for d in machine.devices if ACCELERATOR_OF.get(d.vendor) == accelerator]
    return tuple(sorted(own, key=lambda d: (-(known(d.score) or 0), d.index)))


def accelerators_of(machine: Machine) -> tuple[Accelerator, ...]:
    """Return the accelerators of a machine, that of its fittest device first."""
    first: dict[Accelerator, int] = {}
    for accelerator in ACCELERATORS:
        for device in devices_for(machine, accelerator)[:1]:
            first[accelerator] = known(device.score) or 0
    return tuple(sorted(first, key=lambda a: -first[a]))


def select(
    framework: str,
    accelerator: Accelerator,
    devices: tuple[Device, ...],
    target: Target,
    version: str = "",
    cuda_major: int | None = None,
) -> Selection | Refusal:
    """Return the best build that runs on the first of `devices`, or why there is none.

    A build that serves every device is taken before one that serves the first alone.

    Parameters
    ----------
    devices
        Fittest first; empty for the CPU.
    version
        The framework version that is wanted, empty for any.
    cuda_major
        The CUDA major that the environment already has, None for any.
    """
    candidates = [
        build
        for build in builds_for(framework, accelerator, target.platform)
        if cuda_major in (None, build.cuda_major)
    ]
    first = devices[0] if devices else None
    if accelerator != "cpu" and first is None:
        return Refusal(f"the machine shows no device for {accelerator}")
    if not candidates:
        change = _other_framework(framework, accelerator, devices, target)
        reason = f"there is no {accelerator} build of {framework} for {target.platform}"
        return Refusal(reason, change)
    found = [(build, obstacles(build, first, target, version)) for build in candidates]
    fitting = [build for build, met in found if not met]
    if not fitting:
        return _refuse(framework, accelerator, devices, target, found)
    serving_all = [b for b in fitting if not _unserved(b, devices, target)]
    build = max(serving_all or fitting, key=_preference)
    warnings = [*_warnings(build, devices, target), *_step_back(build, found, version)]
    return Selection(build, devices, _why(build, first, target, fitting, version), tuple(warnings))


def _preference(build: Build) -> tuple[object, ...]:
    """Sort key: certain, newest release, on the default index, the usual one, newest CUDA."""
    return (
        build.sure,
        parse_version(build.version),
        not build.index,
        build.usual,
        parse_version(build.variant),
    )


def _unserved(build: Build, devices: Iterable[Device], target: Target) -> list[Device]:
    return [device for device in devices if obstacles(build, device, target)]


def _refuse(
    framework: str,
    accelerator: Accelerator,
    devices: tuple[Device, ...],
    target: Target,
    found: list[tuple[Build, list[Obstacle]]],
) -> Refusal:
    nearest, met = max(found, key=lambda pair: (-len(pair[1]), _preference(pair[0])))
    reason = "; ".join(obstacle.reason for obstacle in met)
    other = _other_framework(framework, accelerator, devices, target)
    return Refusal(f"{_title(nearest)}: {reason}", _single_change(found) or other)


def _single_change(found: list[tuple[Build, list[Obstacle]]]) -> Change | None:
    """Return the change that alone brings the newest release, the easiest one among equals."""
    single = [
        (build, met[0])
        for build, met in found
        if len(met) == 1 and met[0].kind != "device" and met[0].need
    ]
    if not single:
        return None
    build, obstacle = max(
        single, key=lambda pair: (_preference(pair[0])[:2], -_EASE.index(pair[1].kind))
    )
    return Change(obstacle.kind, obstacle.need, _title(build))


def _other_framework(
    framework: str, accelerator: Accelerator, devices: tuple[Device, ...], target: Target
) -> Change | None:
    first = devices[0] if devices else None
    for other in FRAMEWORKS:
        known = builds_for(other, accelerator, target.platform)
        fitting = [build for build in known if not obstacles(build, first, target)]
        if other != framework and fitting:
            best = max(fitting, key=_preference)
            return Change("framework", other, _title(best))
    return None


def _step_back(
    build: Build, found: list[tuple[Build, list[Obstacle]]], version: str
) -> Iterable[str]:
    """Yield what would bring a newer release than the one that fits, so that none is silent."""
    newer = [
        (other, met)
        for other, met in found
        if parse_version(other.version) > parse_version(build.version) and other.sure
    ]
    change = _single_change(newer)
    if change is not None and not version:
        yield f"{_title(build)} is not the newest: {change}"


def _title(build: Build) -> str:
    return f"{build.framework} {build.version} ({build.variant})"


def _why(
    build: Build, device: Device | None, target: Target, fitting: list[Build], version: str
) -> str:
    what = "the release asked for" if version else "the newest known release"
    parts = [f"{what}, for Python {target.python} on {target.platform}"]
    if device is not None:
        parts[0] += f" that serves {device_name(device)}"
        parts += list(_evidence(build, device))
    newer = [b for b in fitting if parse_version(b.version) > parse_version(build.version)]
    if newer:
        parts.append(
            f"{_title(newer[0])} is passed over: {newer[0].note or 'its entry is not sure'}"
        )
    return "; ".join(parts)


def _evidence(build: Build, device: Device) -> Iterable[str]:
    if build.cuda_major:
        yield f"compute capability {' or '.join(capabilities(device))}"
        yield f"driver {driver_version(device)} runs CUDA {build.cuda_major}"
    if build.accelerator == "rocm":
        yield gfx_target(device) or ""


def _warnings(build: Build, devices: tuple[Device, ...], target: Target) -> Iterable[str]:
    for device in _unserved(build, devices[1:], target):
        met = obstacles(build, device, target)
        yield f"{device_name(device)} is not served: {'; '.join(o.reason for o in met)}"
    if not build.sure:
        yield f"{_title(build)} rests on an uncertain entry: {build.note or build.source}"
    elif build.framework == "jax" and build.note and build.accelerator != "cuda":
        yield f"{_title(build)}: {build.note}"
    gfx = gfx_target(devices[0]) if build.accelerator == "rocm" else None
    if gfx and rocm.note(gfx):
        yield f"{gfx}: {rocm.note(gfx)}"
