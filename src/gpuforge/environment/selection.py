"""Selecting the build of a framework for a machine, or the single change that would help most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpuforge.compat import rocm
from gpuforge.compat.builds import (
    ACCELERATORS,
    FRAMEWORKS,
    Accelerator,
    Build,
    build_on_default_index,
    builds_for,
)
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
from gpuforge.facts import Device, Driver, Machine, known

ACCELERATOR_OF: dict[str, Accelerator] = {
    "nvidia": "cuda",
    "amd": "rocm",
    "intel": "xpu",
    "apple": "metal",
}
_INSTRUCTIONS = {
    "python": "choose Python {need}",
    "version": "choose version {need}",
    "driver": "install driver {need} or newer",
    "system": "choose a system with {need}",
    "framework": "choose {need}",
}
_EASIEST = ("python", "version", "framework", "driver", "system")


@dataclass(frozen=True)
class Change:
    """One change after which a build works: its kind, the value needed, the build it enables."""

    kind: str
    need: str
    brings: str

    def __str__(self) -> str:
        if self.kind == "repair":
            return f"run '{self.need}' to find out why, then plan again"
        return f"{_INSTRUCTIONS[self.kind].format(need=self.need)} to use {self.brings}"


@dataclass(frozen=True)
class Refusal:
    """Why nothing is planned, and the single change that would help most, if any."""

    reason: str
    change: Change | None = None


@dataclass(frozen=True)
class Selection:
    """The selected build, its devices (none for the CPU), and why it was selected."""

    build: Build
    devices: tuple[Device, ...]
    reason: str
    warnings: tuple[str, ...] = ()


def devices_for(machine: Machine, accelerator: Accelerator) -> tuple[Device, ...]:
    """Return the devices that an accelerator's builds could use, best first."""
    own = [d for d in machine.devices if ACCELERATOR_OF.get(d.vendor) == accelerator]
    return tuple(sorted(own, key=lambda d: (-(known(d.score) or 0), d.index)))


def accelerators_of(machine: Machine) -> tuple[Accelerator, ...]:
    """Return the accelerators of a machine, that of its best device first."""
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
    *,
    default_index: bool = False,
) -> Selection | Refusal:
    """Return the best build that runs on the first of `devices`, or why there is none.

    A build that supports every device is preferred to one that supports only the first.

    Parameters
    ----------
    devices
        The devices, best first; empty for the CPU.
    version
        The requested framework version; empty for any.
    cuda_major
        The CUDA major version of the environment; None for any.
    default_index
        Whether only builds on the default index may be selected.
    """
    candidates = [
        build
        for build in builds_for(framework, accelerator, target.platform)
        if cuda_major in (None, build.cuda_major)
    ]
    if default_index:
        held = (build_on_default_index(build) for build in candidates)
        candidates = [build for build in held if build is not None]
    first = devices[0] if devices else None
    if accelerator != "cpu" and first is None:
        return Refusal(f"no device for {accelerator} was found")
    if not candidates:
        change = _other_framework(framework, accelerator, devices, target)
        what = {"cpu": "", "cuda": "CUDA ", "rocm": "ROCm ", "xpu": "XPU ", "metal": "Metal "}
        reason = f"{framework} has no {what[accelerator]}build for {target.platform_name}"
        return Refusal(reason, change)
    found = [(build, obstacles(build, first, target, version)) for build in candidates]
    fitting = [build for build, met in found if not met]
    asked = _Request(candidates, devices, target, version)
    if not fitting:
        return _refuse(framework, accelerator, asked, found)
    build = _best(fitting, devices, target)
    warnings = [*_warnings(build, devices, target), *_newer_possible(build, found, asked)]
    return Selection(build, devices, _why(build, first, target, fitting, version), tuple(warnings))


@dataclass(frozen=True)
class _Request:
    """A request: the candidate builds, the devices, the target and the framework version."""

    candidates: list[Build]
    devices: tuple[Device, ...]
    target: Target
    version: str

    def after(self, kind: str, need: str) -> Build | None:
        """Return the build that would be selected after one change, or None if still none."""
        devices, target, version = self.devices, self.target, self.version
        candidates = self.candidates
        if kind == "python":
            target = replace(target, python=need)
        elif kind == "version":
            version = need
        elif kind == "driver" and devices:
            driver = known(devices[0].driver) or Driver("")
            newer = replace(driver, version=need.rpartition(" ")[2])
            devices = tuple(replace(device, driver=newer) for device in devices)
        elif need == "Linux":
            target = replace(target, platform="linux-64", driver_kind="linux")
            one = candidates[0]
            candidates = list(builds_for(one.framework, one.accelerator, target.platform))
        elif kind == "system":
            name, _, least = need.removesuffix(" or newer").partition(" ")
            glibc, macos = (least if name == one else None for one in ("glibc", "macOS"))
            target = replace(target, glibc=glibc or target.glibc, macos=macos or target.macos)
        first = devices[0] if devices else None
        fitting = [b for b in candidates if not obstacles(b, first, target, version)]
        return _best(fitting, devices, target) if fitting else None


def _best(fitting: list[Build], devices: tuple[Device, ...], target: Target) -> Build:
    """Return the preferred build, among those that support every device if there are any."""
    serving_all = [b for b in fitting if not _unsupported(b, devices, target)]
    return max(serving_all or fitting, key=_preference)


def _preference(build: Build) -> tuple[object, ...]:
    """Return the sort key: certain, newest release, on the default index, usual, newest variant."""
    return (
        build.sure,
        parse_version(build.version),
        not build.index,
        build.usual,
        parse_version(build.variant),
    )


def _unsupported(build: Build, devices: Iterable[Device], target: Target) -> list[Device]:
    return [device for device in devices if obstacles(build, device, target)]


def _refuse(
    framework: str,
    accelerator: Accelerator,
    asked: _Request,
    found: list[tuple[Build, list[Obstacle]]],
) -> Refusal:
    nearest, met = max(found, key=lambda pair: (-len(pair[1]), _preference(pair[0])))
    reason = "; ".join(dict.fromkeys(obstacle.reason for obstacle in met))
    other = _other_framework(framework, accelerator, asked.devices, asked.target)
    return Refusal(f"{_title(nearest)}: {reason}", _single_change(found, asked) or other)


def _single_change(
    found: list[tuple[Build, list[Obstacle]]], asked: _Request, than: Build | None = None
) -> Change | None:
    """Return the single change that enables the newest release; among equals, the easiest.

    The build that would be selected after it must be newer than `than`.
    """
    single = [
        (build, met[0])
        for build, met in found
        if len(met) == 1 and met[0].kind != "device" and met[0].need
    ]
    single.sort(
        key=lambda pair: (_preference(pair[0])[:2], -_EASIEST.index(pair[1].kind)), reverse=True
    )
    for change in dict.fromkeys((obstacle.kind, obstacle.need) for _, obstacle in single):
        brought = asked.after(*change)
        newer = brought and (than is None or _release(brought) > _release(than))
        if brought and newer:
            return Change(*change, _title(brought))
    return None


def _release(build: Build) -> tuple[int, ...]:
    return parse_version(build.version)


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


def _newer_possible(
    build: Build, found: list[tuple[Build, list[Obstacle]]], asked: _Request
) -> Iterable[str]:
    """Yield a warning if one change would enable a newer release than the selected one."""
    newer = [
        (other, met) for other, met in found if _release(other) > _release(build) and other.sure
    ]
    change = _single_change(newer, asked, build) if not asked.version else None
    if change is not None:
        yield f"a newer release than {_title(build)} is possible: {change}"


def _title(build: Build) -> str:
    return f"{build.framework} {build.version} ({build.variant})"


def _why(
    build: Build, device: Device | None, target: Target, fitting: list[Build], version: str
) -> str:
    what = "the requested release" if version else "the newest known release"
    parts = [f"{what}, for Python {target.python} on {target.platform}"]
    if device is not None:
        parts[0] += f" that supports {device_name(device)}"
        parts += list(_evidence(build, device))
    newer = [b for b in fitting if _release(b) > _release(build)]
    if newer:
        parts.append(
            f"{_title(newer[0])} was not chosen: {newer[0].note or 'its support is uncertain'}"
        )
    return "; ".join(parts)


def _evidence(build: Build, device: Device) -> Iterable[str]:
    if build.cuda_major:
        yield f"compute capability {' or '.join(capabilities(device))}"
        yield f"driver {driver_version(device)} runs CUDA {build.cuda_major}"
    if build.accelerator == "rocm":
        yield gfx_target(device) or ""


def _warnings(build: Build, devices: tuple[Device, ...], target: Target) -> Iterable[str]:
    for device in _unsupported(build, devices[1:], target):
        met = obstacles(build, device, target)
        why = "; ".join(obstacle.reason for obstacle in met)
        yield f"{device_name(device)} is not supported by this build: {why}"
    if not build.sure:
        yield f"support for {_title(build)} is uncertain: {build.note or build.source}"
    elif build.note.startswith("the default index") or (
        build.framework == "jax" and build.note and build.accelerator != "cuda"
    ):
        yield f"{_title(build)}: {build.note}"
    gfx = gfx_target(devices[0]) if build.accelerator == "rocm" else None
    if gfx and rocm.note(gfx):
        yield f"{gfx}: {rocm.note(gfx)}"
