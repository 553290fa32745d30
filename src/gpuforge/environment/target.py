"""The target of an environment: its platform, Python version and system libraries."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from gpuforge.compat.builds import PLATFORMS
from gpuforge.compat.cuda import DriverKind
from gpuforge.errors import InvalidSettings, UnknownName
from gpuforge.facts import Device, Machine, known

_SYSTEMS = {"linux": "linux", "wsl2": "linux", "jetson": "linux", "macos": "osx", "windows": "win"}
_MACHINES = {"x86_64": "64", "amd64": "64", "aarch64": "aarch64", "arm64": "aarch64"}
_PYTHON = re.compile(r"3\.\d{1,2}", re.ASCII)


@dataclass(frozen=True)
class Target:
    """The system an environment is planned for.

    Attributes
    ----------
    platform : one of `PLATFORMS`, or another one, for which there are no builds
    python : ``"3.12"``
    glibc, macos : versions; None if unknown or another system
    driver_kind : the system whose driver version numbers apply; WSL uses the driver of Windows
    assumed : assumptions about unknown facts, one sentence each
    """

    platform: str
    python: str
    glibc: str | None = None
    macos: str | None = None
    driver_kind: DriverKind = "linux"
    assumed: tuple[str, ...] = ()

    @property
    def platform_name(self) -> str:
        """The platform for use in a sentence: ``FreeBSD on amd64``, or a name in `PLATFORMS`."""
        system, _, processor = self.platform.partition("-")
        if self.platform in PLATFORMS:
            return self.platform
        if processor.endswith("musl"):
            return f"{self.platform} (musl instead of glibc)"
        name = {"freebsd": "FreeBSD", "osx": "macOS", "win": "Windows"}.get(system, system)
        return f"{name} on {'x86_64' if processor == '64' else processor}"


def target_of(
    machine: Machine,
    *,
    python: str | None = None,
    platform: str | None = None,
    macos: str | None = None,
) -> Target:
    """Return a machine as a target, with the Python and platform that the caller requests.

    Parameters
    ----------
    macos
        The version of macOS, which the facts of a machine do not include.

    Raises
    ------
    UnknownName
        If `platform` is not in the tables.
    InvalidSettings
        If `python` is not a version such as ``3.12``.
    """
    if python is not None and not _PYTHON.fullmatch(python):
        raise InvalidSettings(f"{python!r} is not a Python version", hint="use for example 3.12")
    if platform is not None and platform not in PLATFORMS:
        raise UnknownName.among("platform", platform, PLATFORMS)
    own, assumed = _own_platform(machine)
    chosen = platform or own
    same = chosen == own
    libc = known(machine.host.libc) if same else None
    system = known(machine.host.platform)
    if libc and "musl" in libc and chosen.startswith("linux"):
        # The frameworks' wheels for Linux need glibc.
        chosen, libc = f"{chosen}-musl", None
    on_windows = chosen.startswith("win") or (same and system == "wsl2")
    return Target(
        platform=chosen,
        python=python or f"{sys.version_info[0]}.{sys.version_info[1]}",
        glibc=libc,
        macos=macos if same and chosen.startswith("osx") else None,
        driver_kind="windows" if on_windows else "linux",
        assumed=assumed if platform is None else (),
    )


def _own_platform(machine: Machine) -> tuple[str, tuple[str, ...]]:
    """Return the platform of a machine, and the assumptions that this needed."""
    system, processor = known(machine.host.platform), known(machine.host.machine)
    assumed = []
    if system is None:
        on_windows = any(map(_has_windows_driver, machine.devices))
        system = "macos" if _has_apple_gpu(machine) else "windows" if on_windows else "linux"
        assumed.append(f"the operating system is unknown; {system} is assumed")
    name = _SYSTEMS.get(system, system)
    if processor is None:
        on_arm = system == "jetson" or _has_apple_gpu(machine) or _has_arm_gpu(machine)
        processor = "aarch64" if on_arm else "x86_64"
        assumed.append(f"the processor is unknown; {processor} is assumed")
    width = _MACHINES.get(processor.lower(), processor)
    if name == "osx" and width == "aarch64":
        width = "arm64"
    return f"{name}-{width}", tuple(assumed)


def _has_arm_gpu(machine: Machine) -> bool:
    """Return whether the machine has an NVIDIA GPU that comes with an Arm processor."""
    names = " ".join(known(device.name) or "" for device in machine.devices)
    return re.search(r"\b(?:GB10|GB200|GB300|GH200|Xavier|Orin|Thor)\b", names) is not None


def _has_windows_driver(device: Device) -> bool:
    """Return whether the driver version has four parts, as only Windows drivers have."""
    driver = known(device.driver)
    return re.fullmatch(r"\d+(\.\d+){3}", (driver and known(driver.version)) or "") is not None


def _has_apple_gpu(machine: Machine) -> bool:
    return any(device.vendor == "apple" for device in machine.devices)
