"""NVIDIA: which CUDA versions a driver supports, and which compiled code a device runs.

Sources: NVIDIA's CUDA compatibility pages and release notes, and PyTorch's table of device
requirements; each entry of ``cuda.toml`` and ``nvidia.toml`` names its own.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Literal

from gpuforge.compat.products import value_of
from gpuforge.compat.tables import entries
from gpuforge.compat.versions import at_least, parse_version

DriverKind = Literal["linux", "windows"]
_INTEGRATED = re.compile(r"Tegra|Xavier|Orin|Thor|not named")


@cache
def minimum_driver(major: int, kind: DriverKind = "linux") -> str | None:
    """Return the oldest driver for a CUDA major version, by CUDA's minor version compatibility.

    None if the tables do not list that major version.
    """
    for entry in entries("cuda", "minor_compat"):
        if entry["cuda_major"] == major:
            return str(entry[f"{kind}_min"])
    return None


def driver_kind(driver: str | None, system: DriverKind) -> DriverKind:
    """Return which system's version numbers a driver uses.

    A version of two parts counts as a Windows driver, also under WSL. Some Linux drivers have two
    parts too; the minimum versions for Windows are higher, so they are never overestimated.
    """
    return "windows" if driver and driver.count(".") == 1 else system


@cache
def majors(driver: str, kind: DriverKind = "linux") -> tuple[int, ...]:
    """Return the CUDA major versions that `driver` supports, newest first.

    Parameters
    ----------
    driver
        The driver's version as printed: ``"535.104.05"``.
    kind
        The system whose version numbers apply; inside WSL the driver is that of Windows.
    """
    known = sorted((e["cuda_major"] for e in entries("cuda", "minor_compat")), reverse=True)
    return tuple(m for m in known if at_least(driver, str(minimum_driver(m, kind))))


@cache
def newest_toolkit(driver: str, kind: DriverKind = "linux") -> str | None:
    """Return the newest CUDA whose bundled driver is not newer than `driver`.

    Conda calls this ``__cuda``; it limits the PTX that can be compiled. None for older drivers.
    """
    fitting = [
        entry["cuda"]
        for entry in entries("cuda", "toolkit")
        if f"toolkit_{kind}" in entry and at_least(driver, entry[f"toolkit_{kind}"])
    ]
    return max(fitting, key=parse_version, default=None)


def toolkit_driver(cuda: str, kind: DriverKind = "linux") -> str | None:
    """Return the driver bundled with a CUDA toolkit, or None if the tables do not list it."""
    for entry in entries("cuda", "toolkit"):
        if entry["cuda"] == cuda:
            return entry.get(f"toolkit_{kind}")
    return None


@cache
def runs_code(capability: str, code: str, cuda: str) -> bool:
    """Return whether a device runs machine code (not PTX) compiled for a compute capability.

    Parameters
    ----------
    capability, code
        Compute capabilities of the device and of the code: ``"8.6"``, ``"8.0"``.
    cuda
        The CUDA version that compiled it; from 13.2 on, Jetson runs code compiled for servers.
    """
    for entry in entries("nvidia", "code_compat"):
        if entry["code_cc"] == code:
            return _accepts(entry, capability, cuda)
    return capability == code


@cache
def serving_code(
    capability: str, codes: tuple[str, ...], cuda: str, toolkit: str | None
) -> str | None:
    """Return the first of a build's compiled capabilities that runs on a device, or None.

    Parameters
    ----------
    codes
        The capabilities of the build; the driver compiles ``"9.0+PTX"`` for newer devices.
    toolkit
        The newest CUDA whose PTX the driver can compile (`newest_toolkit`).
    """
    for code in codes:
        if runs_code(capability, code.removesuffix("+PTX"), cuda):
            return code
    for code in codes:
        compiles = toolkit is not None and at_least(toolkit, cuda)
        if code.endswith("+PTX") and compiles and at_least(capability, code):
            return code
    return None


def capability_of(name: str) -> str | None:
    """Return the compute capability of a product by its name, or None if no table lists it."""
    return value_of(name, "nvidia", "arch", "cc")


@cache
def capabilities_named(name: str) -> tuple[str, ...]:
    """Return the compute capabilities that the name of a card may refer to; empty if unknown.

    A name that a tool truncated ("GeForce RTX 208...") refers to every card it is a prefix of.
    """
    listed = capability_of(name)
    if listed:
        return (listed,)
    plain = " ".join(re.findall(r"[a-z0-9]+", name.lower()))
    for entry in entries("nvidia", "family"):
        if re.search(entry["pattern"], plain):
            return tuple(entry["capabilities"])
    return ()


@cache
def capabilities_for(driver: str, kind: DriverKind = "linux") -> tuple[str, ...]:
    """Return the compute capabilities of all cards that a driver supports, oldest first."""
    toolkit, branch = newest_toolkit(driver, kind), parse_version(driver)[:1]
    return tuple(
        entry["cc"]
        for entry in entries("nvidia", "arch")
        if not _INTEGRATED.search(entry["architecture"])
        and branch <= (parse_version(entry.get("last_driver_branch", "")) or branch)
        and toolkit is not None
        and at_least(toolkit, entry.get("first_cuda", "0").removeprefix("<="))
    )


def last_cudnn(capability: str, cuda_major: int) -> str:
    """Return the last cuDNN version that supports a device; empty if support has not ended."""
    for entry in entries("cuda", "cudnn"):
        below = parse_version(capability) < parse_version(entry["capability_below"])
        if entry["cuda_major"] == cuda_major and below:
            return str(entry["last"])
    return ""


@cache
def capabilities_of(architecture: str) -> tuple[str, ...]:
    """Return the compute capabilities of an architecture's cards, oldest first; empty if unknown.

    Integrated GPUs (Tegra, Xavier, Orin, Thor) are left out: no card has their capabilities.
    """
    family = architecture.casefold().split(" ")[0]
    return tuple(
        entry["cc"]
        for entry in entries("nvidia", "arch")
        if entry["architecture"].casefold().split(" ")[0] == family
        and not _INTEGRATED.search(entry["architecture"])
    )


@cache
def windows_driver(version: str) -> str:
    """Return NVIDIA's version for a Windows driver version: ``31.0.15.1694`` is ``516.94``.

    The last five digits are NVIDIA's own number. Other versions are returned unchanged.
    """
    parts = version.split(".")
    if len(parts) != 4 or not all(part.isdecimal() for part in parts):
        return version
    digits = (parts[2] + parts[3].zfill(4))[-5:]
    return f"{int(digits[:-2])}.{digits[-2:]}"


def _accepts(entry: dict[str, Any], capability: str, cuda: str) -> bool:
    if "device_only" in entry:
        return capability in entry["device_only"]
    lifted = entry.get("except_lifted_from_cuda")
    excluded = entry.get("device_except", ())
    if capability in excluded and not (lifted and at_least(cuda, lifted)):
        return False
    device = parse_version(capability)
    return parse_version(entry["device_min"]) <= device < parse_version(entry["device_below"])
