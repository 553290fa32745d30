"""The obstacles that keep a build from running on a machine, and what each would need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpuforge.compat import cuda, intel, rocm
from gpuforge.compat.builds import Build
from gpuforge.compat.cuda import DriverKind
from gpuforge.compat.versions import at_least, parse_version
from gpuforge.environment.target import Target
from gpuforge.facts import Device, known

Kind = Literal["version", "python", "driver", "system", "device"]


@dataclass(frozen=True)
class Obstacle:
    """One reason why a build does not run.

    Attributes
    ----------
    kind : what would have to change; ``device`` means that only another GPU would help
    reason : what was found and what is needed
    need : the value that would suffice, such as a driver version; empty for a device
    """

    kind: Kind
    reason: str
    need: str = ""


def device_name(device: Device) -> str:
    """Return the name of a device for use in a sentence."""
    return known(device.name) or f"{device.vendor} GPU {device.index}"


def capabilities(device: Device) -> tuple[str, ...]:
    """Return the compute capability of an NVIDIA device, or all that it might have.

    If no source shows it, it is looked up by product name; failing that, all capabilities of the
    architecture, or else of all cards that its driver supports, are returned, and a build must
    support each of them. Empty if nothing is known.
    """
    shown, driver = known(device.compute_capability), driver_version(device)
    if shown:
        return (shown,)
    return (
        cuda.capabilities_named(known(device.name) or "")
        or cuda.capabilities_of(known(device.architecture) or "")
        or (cuda.capabilities_for(driver, cuda.driver_kind(driver, "linux")) if driver else ())
    )


def gfx_target(device: Device) -> str | None:
    """Return the gfx target of an AMD device, by its product name if no source shows it."""
    shown = known(device.architecture) or ""
    return shown if shown.startswith("gfx") else rocm.target_of(known(device.name) or "")


def intel_family(device: Device) -> intel.Family | None:
    """Return the family of an Intel device, or None if it is in no known family.

    It is found by product name; failing that, by architecture or PCI id.
    """
    name, architecture = known(device.name) or "", known(device.architecture) or ""
    found = intel.family_of(name or architecture)
    if found or "data center" in name.lower():  # those that no entry names are in no family
        return found
    ident = (known(device.pci_id) or "").removeprefix("8086:")
    return intel.family_of(architecture, ident) if architecture or ident else None


def driver_version(device: Device) -> str | None:
    """Return the version of a device's driver, converted from Windows' to NVIDIA's numbering."""
    found = known(device.driver)
    version = known(found.version) if found else None
    return cuda.windows_driver(version) if version else None


def obstacles(
    build: Build, device: Device | None, target: Target, version: str = ""
) -> list[Obstacle]:
    """Return everything that keeps `build` from running on `device` under `target`.

    Parameters
    ----------
    device
        None for a build on the CPU.
    version
        The requested framework version; empty for any.
    """
    found = list(_system(build, target))
    if version and build.version != version:
        found.append(Obstacle("version", f"version {version} was requested", build.version))
    if device is not None:
        by_accelerator = {"cuda": _nvidia, "rocm": _amd, "xpu": _intel, "metal": _apple}
        found += by_accelerator[build.accelerator](build, device, target)
    return found


def _system(build: Build, target: Target) -> Iterator[Obstacle]:
    if target.python not in build.pythons:
        need = min(build.pythons, key=lambda p: _distance(p, target.python))
        yield Obstacle("python", f"no wheel for Python {target.python}", need)
    on_linux, on_mac = target.platform.startswith("linux"), target.platform.startswith("osx")
    glibc, macos = target.glibc if on_linux else None, target.macos if on_mac else None
    for name, have, need in (("glibc", glibc, build.glibc_min), ("macOS", macos, build.macos_min)):
        if have and not at_least(have, need):
            number = ".".join(map(str, parse_version(have)))
            yield Obstacle(
                "system", f"{name} {number} is older than {need}", f"{name} {need} or newer"
            )


def _distance(python: str, wanted: str) -> tuple[int, int]:
    minor, aim = parse_version(python)[1], parse_version(wanted)[1]
    return abs(minor - aim), -minor


def _nvidia(build: Build, device: Device, target: Target) -> Iterator[Obstacle]:
    major, driver = build.cuda_major, driver_version(device)
    kind = cuda.driver_kind(driver, target.driver_kind)
    need = cuda.minimum_driver(major, target.driver_kind) if major else None
    if need is None:
        yield Obstacle("device", f"the driver needed by {build.variant} is unknown")
        return
    if driver is None:
        yield Obstacle("driver", "the driver version is unknown", need)
    elif major not in cuda.majors(driver, kind):
        if at_least(driver, need):
            need = cuda.minimum_driver(major or 0, kind) or need
        yield Obstacle("driver", f"driver {driver} does not support CUDA {major}", need)
    yield from _kernels(build, device, driver, kind)
    for have in capabilities(device) if major and build.cudnn not in ("", "any") else ():
        last = cuda.last_cudnn(have, major or 0)
        if last and not at_least(last, build.cudnn):
            yield Obstacle(
                "device", f"its cuDNN {build.cudnn} has no kernels for compute capability {have}"
            )


def _kernels(
    build: Build, device: Device, driver: str | None, kind: DriverKind
) -> Iterator[Obstacle]:
    """Yield the reasons why none of a build's compiled code runs on a device."""
    found = capabilities(device)
    if not found:
        yield Obstacle("device", "its compute capability is unknown")
    for have in found:
        yield from _kernels_for(have, build, driver, kind)


def _kernels_for(
    have: str, build: Build, driver: str | None, kind: DriverKind
) -> Iterator[Obstacle]:
    if build.codes:
        toolkit = cuda.newest_toolkit(driver, kind) if driver else None
        if cuda.serving_code(have, build.codes, build.cuda, toolkit) is not None:
            return
        if driver and cuda.serving_code(have, build.codes, build.cuda, build.cuda) is not None:
            need = cuda.toolkit_driver(build.cuda, kind) or ""
            yield Obstacle("driver", f"driver {driver} is too old to compile its PTX", need)
        else:
            held = ", ".join(build.codes)
            yield Obstacle("device", f"no kernels for compute capability {have}, only for {held}")
    elif not build.capability_min:
        yield Obstacle("device", f"it is unknown which GPUs {build.variant} was compiled for")
    elif not at_least(have, build.capability_min):
        yield Obstacle(
            "device",
            f"it needs compute capability {build.capability_min} or higher; the GPU has {have}",
        )
    elif not cuda.runs_code(have, f"{have.split('.')[0]}.0", build.cuda):
        yield Obstacle("device", f"builds for servers do not run on this Jetson ({have})")


def _amd(build: Build, device: Device, target: Target) -> Iterator[Obstacle]:
    gfx = gfx_target(device)
    if gfx is None:
        yield Obstacle("device", "its gfx target is unknown")
    elif build.framework == "pytorch" and build.variant not in rocm.wheels(gfx):
        yield Obstacle("device", f"no kernels for {gfx} in {build.variant}")
    elif build.framework != "pytorch" and not rocm.official(gfx, 7):
        yield Obstacle("device", f"ROCm 7 does not list {gfx}")
    driver = known(device.driver)
    version = known(driver.version) if driver else None
    allowed = rocm.releases_for_driver(version) if version else None
    release = ".".join(map(str, parse_version(build.variant)[:2]))
    release = release if "." in release else "7.2"
    if allowed is not None and release not in allowed:
        need = f"amdgpu {rocm.module_for(release)}"
        yield Obstacle("driver", f"ROCm {release} does not run on amdgpu {version}", need)


def _intel(build: Build, device: Device, target: Target) -> Iterator[Obstacle]:
    family = intel_family(device)
    if family is None:
        yield Obstacle(
            "device",
            f"{device_name(device)} is not in a GPU family that XPU builds are known to support",
        )
    elif not family.xpu:
        yield Obstacle("device", f"XPU builds do not support {family.name}")
    elif target.platform.startswith("win") and not family.windows:
        yield Obstacle("system", f"XPU builds do not support {family.name} on Windows", "Linux")


def _apple(build: Build, device: Device, target: Target) -> Iterator[Obstacle]:
    if device.vendor != "apple":
        yield Obstacle("device", f"Metal builds need an Apple GPU, not {device_name(device)}")
