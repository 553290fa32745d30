"""The conditions that times depend on besides the code: machine, drivers, libraries, clocks."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, field

from gpuforge.detect import read_machine
from gpuforge.facts import Absent, Failed, Machine, Reading, known
from gpuforge.probe import LiveProbe, Probe
from gpuforge.readings import DeviceReaders

LIBRARIES = (
    *("gpuforge", "numpy", "scipy", "torch", "jax", "jaxlib", "mlx", "dpnp", "pyopencl"),
    *("cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"),
)
_CPU = "/sys/devices/system/cpu"
CPU_FILES = {
    "cpu governor": f"{_CPU}/cpu0/cpufreq/scaling_governor",
    "cpu lowest frequency (kHz)": f"{_CPU}/cpu0/cpufreq/scaling_min_freq",
    "cpu highest frequency (kHz)": f"{_CPU}/cpu0/cpufreq/scaling_max_freq",
    "cpu boost": f"{_CPU}/cpufreq/boost",
    "cpu turbo off": f"{_CPU}/intel_pstate/no_turbo",
}


@dataclass(frozen=True)
class Conditions:
    """Facts that times depend on, as text, and the reasons why others are unknown.

    Attributes
    ----------
    machine : digest of CPU, cores and GPUs; times of different machines are never combined
    facts : values by name, such as ``cpu governor``: ``performance``
    unknown : reasons by name
    """

    machine: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)


def read_conditions(probe: Probe | None = None, machine: Machine | None = None) -> Conditions:
    """Return the current conditions.

    Parameters
    ----------
    probe, machine
        Another machine to read, and the facts detected there; this one by default.
    """
    probe = probe or LiveProbe()
    machine = machine or read_machine(probe)
    readings: dict[str, Reading[str]] = {
        "platform": machine.host.platform,
        "cpu": machine.host.cpu_model,
        "cores": _text(machine.host.cores),
    }
    for device in machine.devices:
        readings[f"gpu {device.index}"] = device.name
    identity = {name: known(reading) or "?" for name, reading in readings.items()}
    digest = hashlib.blake2b(repr(sorted(identity.items())).encode(), digest_size=8).hexdigest()
    release = known(probe.read_text("/proc/sys/kernel/osrelease"))
    readings["kernel"] = release.strip() if release else Absent("the system shows no release")
    readings["python"] = f"{sys.implementation.name} {sys.version.split()[0]}"
    readings |= {name: _version(name) for name in LIBRARIES}
    for device in machine.devices:
        driver = device.driver
        readings[f"gpu {device.index} driver"] = (
            driver if isinstance(driver, Absent | Failed) else driver.version
        )
    for name, path in CPU_FILES.items():
        text = probe.read_text(path)
        readings[name] = text.strip() if isinstance(text, str) else text
    readings |= _gpu_readings(probe, machine)
    facts = {name: reading for name, reading in readings.items() if isinstance(reading, str)}
    unknown = {
        name: reading.reason
        for name, reading in readings.items()
        if isinstance(reading, Absent | Failed)
    }
    return Conditions(digest, facts, unknown)


def _text(reading: Reading[float]) -> Reading[str]:
    return reading if isinstance(reading, Absent | Failed) else f"{reading:g}"


def _version(library: str) -> Reading[str]:
    from importlib import metadata

    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return Absent("not installed")


def _gpu_readings(probe: Probe, machine: Machine) -> dict[str, Reading[str]]:
    """Return power cap, clocks and throttling of every GPU."""
    if not machine.devices:
        return {}
    readers = DeviceReaders(probe, machine.devices)
    try:
        devices = readers.read()
    finally:
        readers.close()
    found: dict[str, Reading[str]] = {}
    for device in devices:
        values = {
            "power cap (W)": device.power_limit_watts,
            "highest clock (Hz)": device.core_clock_max_hertz,
            "highest memory clock (Hz)": device.memory_clock_max_hertz,
        }
        found |= {f"gpu {device.index} {name}": _text(value) for name, value in values.items()}
        reasons = device.throttle_reasons
        # A busy GPU is usually at its power cap, and the cap is a condition of its own.
        found[f"gpu {device.index} throttled"] = (
            reasons
            if isinstance(reasons, Absent | Failed)
            else ", ".join(reason for reason in reasons if reason != "power cap") or "no"
        )
    return found


def differences(base: Conditions, new: Conditions) -> list[str]:
    """Return the differences, one line each, including facts that are unknown on one side."""
    found = []
    for name in dict.fromkeys([*base.facts, *new.facts]):
        before, after = base.facts.get(name), new.facts.get(name)
        if before != after:
            missing = base if before is None else new
            reason = missing.unknown.get(name, "not recorded")
            found.append(
                f"{name}: {before or f'unknown ({reason})'} → {after or f'unknown ({reason})'}"
            )
    return found
