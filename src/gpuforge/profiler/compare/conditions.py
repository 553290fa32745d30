"""What times depend on besides the code: machine, drivers, libraries, clocks, power caps."""

from __future__ import annotations

import hashlib
import platform
import sys
from dataclasses import dataclass, field
from importlib import metadata

from gpuforge.detect import read_machine
from gpuforge.facts import Absent, Failed, Machine, Reading, known
from gpuforge.probe import LiveProbe, Output, Probe

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
GPU_FIELDS = {
    "power cap (W)": "power.limit",
    "highest clock (MHz)": "clocks.max.sm",
    "application clock (MHz)": "clocks.applications.graphics",
    "throttling": "clocks_throttle_reasons.active",
}
_SLOWED = 0xE8  # of the throttle reasons: heat, hardware protection, power brake; not the power cap
_TOOL_SECONDS = 5.0


@dataclass(frozen=True)
class Conditions:
    """Facts that times depend on, as text, and why others are not known.

    Attributes
    ----------
    machine : digest of CPU, cores and GPUs: times of different ones are never of one series
    facts : name to value, such as ``cpu governor`` to ``performance``
    unknown : name to the reason
    """

    machine: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)


def read_conditions(probe: Probe | None = None, machine: Machine | None = None) -> Conditions:
    """Return the conditions that hold now.

    Parameters
    ----------
    probe, machine
        Another machine to read and what was detected there; this one by default.
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
    readings["kernel"] = platform.release() or Absent("the system shows no release")
    readings["python"] = f"{platform.python_implementation()} {sys.version.split()[0]}"
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


def _text(reading: Reading[int]) -> Reading[str]:
    return reading if isinstance(reading, Absent | Failed) else str(reading)


def _version(library: str) -> Reading[str]:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return Absent("not installed")


def _gpu_readings(probe: Probe, machine: Machine) -> dict[str, Reading[str]]:
    """Return power cap and clocks of every GPU, as far as its vendor's tool shows them."""
    found: dict[str, Reading[str]] = {
        f"gpu {device.index} {name}": Absent(f"not read from a GPU of {device.vendor}")
        for device in machine.devices
        for name in GPU_FIELDS
    }
    of_nvidia = [device for device in machine.devices if device.vendor == "nvidia"]
    if not of_nvidia:
        return found
    query = f"--query-gpu=pci.bus_id,{','.join(GPU_FIELDS.values())}"
    output = probe.run(
        ["nvidia-smi", query, "--format=csv,noheader,nounits"], timeout=_TOOL_SECONDS
    )
    rows = _rows(output) if isinstance(output, Output) else {}
    for device in of_nvidia:
        cells = rows.get((known(device.pci_address) or "").lower())
        for place, name in enumerate(GPU_FIELDS):
            key = f"gpu {device.index} {name}"
            if not isinstance(output, Output):
                found[key] = output
            elif cells is None:
                found[key] = Absent("nvidia-smi does not list the GPU")
            else:
                found[key] = _cell(name, cells[place])
    return found


def _rows(output: Output) -> dict[str, list[str]]:
    """Return the cells behind each PCI address, which nvidia-smi writes with a domain of eight."""
    rows = {}
    for line in output.stdout.splitlines():
        address, *cells = (cell.strip() for cell in line.split(","))
        if len(cells) == len(GPU_FIELDS):
            rows[address.lower()[-12:]] = cells
    return rows


def _cell(name: str, cell: str) -> Reading[str]:
    if not cell or cell.startswith("["):
        return Absent(f"nvidia-smi shows {cell or 'nothing'}")
    if name == "throttling":
        try:
            return "yes" if int(cell, 16) & _SLOWED else "no"
        except ValueError:
            return Failed(f"nvidia-smi shows {cell!r}, which is no mask of reasons")
    return cell


def differences(base: Conditions, new: Conditions) -> list[str]:
    """Return in what two conditions differ, a sentence each: what is unknown on one side, too."""
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
