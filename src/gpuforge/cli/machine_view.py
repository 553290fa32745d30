"""Rendering a detected machine as a JSON document and as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gpuforge.cli import render
from gpuforge.facts import Absent, Device, Failed, Machine, Reading, known
from gpuforge.units import format_bytes

HEADING = ("GPU", "name", "memory", "driver", "runtime", "architecture", "PCI address", "score")
READINGS = (
    "name memory_total_bytes memory_free_bytes compute_capability architecture pci_address pci_id"
    " uuid integrated score"
).split()
SHOWN = (*READINGS[:3], "driver_version", "runtimes", "runtime_version", *READINGS[3:])


def document(machine: Machine) -> dict[str, Any]:
    """Return the document of ``gpuforge detect --json``."""
    error = machine.error
    return {
        "status": machine.status,
        "error": {"kind": error.kind, "message": error.message} if error else None,
        "failures": [asdict(failure) for failure in machine.failures],
        "devices": [_device(device) for device in machine.devices],
        "best_device": machine.best_device,
        "host": _host(machine),
        "elapsed_seconds": round(machine.elapsed_seconds, 6),
        "from_cache": machine.from_cache,
    }


def _device(device: Device) -> dict[str, Any]:
    driver = known(device.driver)
    values = {name: getattr(device, name) for name in READINGS}
    values["driver_version"] = driver.version if driver else device.driver
    values["runtime_version"] = _runtime_version(device)
    values["runtimes"] = [toolkit.name for toolkit in device.runtimes]
    shown = {name: values[name] for name in SHOWN}
    return {"index": device.index, "vendor": device.vendor, **_with_reasons(shown)}


def _with_reasons(readings: Mapping[str, Reading[Any]]) -> dict[str, Any]:
    """Return the value of each reading, None if unknown, with the reasons under ``unknown``."""
    unknown = {n: v.reason for n, v in readings.items() if isinstance(v, Absent | Failed)}
    return {**{name: known(value) for name, value in readings.items()}, "unknown": unknown}


def _runtime_version(device: Device) -> Reading[str]:
    """Return the version of the vendor's own runtime, which is the first that a device lists."""
    if not device.runtimes:
        return Absent("no runtime of this vendor was found")
    return device.runtimes[0].version


def _host(machine: Machine) -> dict[str, Any]:
    readings = dict(vars(machine.host))
    readings["isa"] = list(readings.pop("isa"))
    readings["visibility"] = machine.visibility
    readings["hidden_devices"] = [device.index for device in machine.hidden]
    return _with_reasons(readings)


def text(machine: Machine, *, cpu_only: bool = False, pasted: bool = False) -> str:
    """Return the machine as text: a table of GPUs, failures, and the host.

    `pasted` says that it was read from a text, which need not name a GPU that is there.
    """
    lines = []
    if machine.devices:
        rows = [_row(device, machine.best_device) for device in machine.devices]
        lines.append(render.table(rows, heading=HEADING))
        if machine.best_device is not None and len(rows) > 1:
            lines.append("* best device for machine learning")
    elif machine.status == "no_gpu":
        left_out = "GPUs were not read (--cpu-only)"
        found = "the text names no GPU" if pasted else "no GPU found"
        lines.append(left_out if cpu_only else found)
    if machine.error:
        lines.append(f"driver error: {machine.error.kind}: {machine.error.message}")
    lines += [
        f"failed: {one.vendor}: {one.kind}: {one.message}"
        for one in machine.failures
        if one != machine.error
    ]
    lines += _hidden(machine)
    lines.append(host_line(machine))
    return "\n".join(lines)


def _row(device: Device, best: int | None) -> tuple[str, ...]:
    memory = known(device.memory_total_bytes)
    driver, runtime = known(device.driver), device.runtimes[:1]
    names = (known(device.compute_capability), known(device.architecture))
    return (
        f"{device.index}{' *' if device.index == best else ''}",
        known(device.name) or f"{device.vendor} {known(device.pci_id) or '(name not shown)'}",
        format_bytes(memory) if memory else "-",
        f"{driver.name} {known(driver.version) or ''}".strip() if driver else "-",
        " ".join(f"{one.name} {known(one.version) or ''}".strip() for one in runtime) or "-",
        " ".join(name for name in names if name) or "-",
        known(device.pci_address) or "-",
        str(known(device.score)),
    )


def _hidden(machine: Machine) -> list[str]:
    if not machine.visibility:
        return []
    variables = ", ".join(f"{name}={value!r}" for name, value in machine.visibility.items())
    count = len(machine.hidden)
    return [f"{variables} hides {count} GPU{'' if count == 1 else 's'}" if count else variables]


def host_line(machine: Machine) -> str:
    """Return the host of a machine in one line."""
    host = machine.host
    cores, memory = known(host.cores), known(host.memory_total_bytes)
    parts = [
        known(host.cpu_model) or "unknown model",
        f"{cores} core{'' if cores == 1 else 's'}" if cores else None,
        format_bytes(memory) if memory else None,
        " ".join(p for p in (known(host.platform), known(host.machine)) if p),
        known(host.libc),
        known(host.cloud_instance) or known(host.virtual_machine),
        known(host.container),
    ]
    return "CPU: " + ", ".join(part for part in parts if part)


def reasons(machine: Machine) -> str:
    """Return the source of each fact, the parts of each score, and what is not a GPU."""
    from gpuforge.detect.score import parts_of

    lines: list[str] = []
    for device in (*machine.devices, *machine.hidden):
        lines.append(f"GPU {device.index}: score {known(device.score)}")
        for part in parts_of(device):
            share = "  - " if part.value is None else f"{part.value:4.2f}"
            lines.append(f"  {part.name:<9}  {share}  {part.why}")
        for name in sorted(device.origins):
            value = known(getattr(device, name))
            if name not in ("driver", "runtimes") and value is not None:
                lines.append(f"  {name} = {value}  (from {device.origins[name]})")
        for name in READINGS:
            reading = getattr(device, name)
            if isinstance(reading, Absent | Failed):
                lines.append(f"  {name} unknown: {reading.reason}")
    for other in machine.others:
        place = known(other.pci_address) or known(other.pci_id) or ""
        shown = known(other.name) or known(other.pci_id) or "display device"
        lines.append(f"not a GPU: {shown} {place} ({other.why})")
    named = (f"runtime: {one.name} {known(one.version) or ''}" for one in machine.toolkits)
    return "\n".join([*lines, *(line.rstrip() for line in named)])
