"""Every recorded machine agrees with what is certain of it."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuforge.detect import detect_machine
from gpuforge.facts import Device, Machine, known
from gpuforge.probe import SnapshotProbe

# What xpu-smi prints is the same on every system.
PLATFORM_NOT_SHOWN = {"intel-flex170-windows-xpu-smi"}


def disagreements(machine: Machine, expected: dict[str, Any]) -> list[str]:
    """Return every fact on which `machine` contradicts or misses what is certain."""
    wrong = []

    def compare(what: str, found: object, wanted: object) -> None:
        if found != wanted:
            wrong.append(f"{what}: found {found!r}, expected {wanted!r}")

    compare("status", machine.status, expected["status"])
    if expected["id"] not in PLATFORM_NOT_SHOWN:
        compare("platform", known(machine.host.platform), expected["platform"])
    if "error_kind" in expected:
        compare("error kind", machine.error and machine.error.kind, expected["error_kind"])
    gpus = expected.get("gpu", [])
    compare("count", len(machine.devices), len(gpus))
    for device, gpu in zip(machine.devices, gpus, strict=False):
        wrong += [
            f"gpu {device.index} {line}" for line in device_disagreements(device, gpu, expected)
        ]
    found_addresses = {known(device.pci_address) for device in machine.devices}
    for other in expected.get("not_gpu", []):
        if other.get("pci_bus_id", "none") in found_addresses:
            wrong.append(f"{other} counted as a GPU")
    return wrong


def device_disagreements(device: Device, gpu: dict[str, Any], top: dict[str, Any]) -> list[str]:
    runtimes = {toolkit.name: known(toolkit.version) for toolkit in device.runtimes}
    driver = known(device.driver)
    version = known(driver.version) if driver else None
    memory = known(device.memory_total_bytes)
    found = {
        "index": device.index,
        "vendor": device.vendor,
        "name": known(device.name),
        "memory_total_mib": memory and memory >> 20,
        "memory_total_bytes": memory,
        "compute_capability": known(device.compute_capability),
        "gfx": known(device.architecture),
        "pci_bus_id": known(device.pci_address),
        "pci_id": known(device.pci_id),
        "uuid": known(device.uuid),
        "kernel_driver": driver.name if driver else None,
        "driver_version": version,
        "integrated": known(device.integrated),
    }
    wrong = [
        f"{key}: found {found[key]!r}, expected {gpu[key]!r}"
        for key in found
        if key in gpu and found[key] != gpu[key]
    ]
    tops = {
        "driver_version": version,
        "cuda_version": runtimes.get("cuda"),
        "rocm_version": runtimes.get("rocm"),
        "rocm_smi_driver_version": version,
        "kernel_module_version": version,
        "level_zero_driver_version": runtimes.get("level_zero"),
        "opencl_driver_version": runtimes.get("opencl"),
    }
    if gpu["vendor"] != top["vendor"] and "driver_version" in top:
        return wrong
    for key, value in tops.items():
        others = len({g["vendor"] for g in top["gpu"]}) > 1
        if key in top and not others and value != top[key]:
            wrong.append(f"{key}: found {value!r}, expected {top[key]!r}")
    if "mig_devices" in gpu and list(known(device.partitions) or ()) != gpu["mig_devices"]:
        wrong.append(f"mig: found {device.partitions}, expected {gpu['mig_devices']}")
    if "mig_enabled" in gpu and bool(known(device.partitions)) != gpu["mig_enabled"]:
        wrong.append(f"mig: found {device.partitions}, expected {gpu['mig_enabled']}")
    if gpu.get("vgpu") and known(device.virtual) is not True:
        wrong.append("not known as a vGPU")
    return wrong


def test_every_recorded_machine_agrees(corpus: Path) -> None:
    folders = sorted(path for path in (corpus / "devices").iterdir() if path.is_dir())
    assert len(folders) >= 114
    wrong = {}
    for folder in folders:
        expected = tomllib.loads((folder / "expected.toml").read_text())
        found = disagreements(detect_machine(SnapshotProbe(folder), vendor_seconds=60), expected)
        if found:
            wrong[folder.name] = found
    listing = "\n".join(f"{name}: {'; '.join(lines)}" for name, lines in wrong.items())
    assert not wrong, f"{len(wrong)} of {len(folders)} disagree:\n{listing}"


COPIES: dict[str, Callable[[bytes], bytes]] = {
    "line ends of Windows": lambda text: text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
    "indented as a whole": lambda text: b"\n".join(b"    " + line for line in text.split(b"\n")),
    "no blanks at line ends": lambda text: b"\n".join(map(bytes.rstrip, text.split(b"\n"))),
    "blanks for tabs": lambda text: text.expandtabs(8),
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text,
    "with the prompt": lambda text: b"user@host:~$ command --flag\n" + text + b"\nuser@host:~$ \n",
}


@pytest.mark.parametrize("way", COPIES)
def test_outputs_agree_however_they_were_copied(corpus: Path, tmp_path: Path, way: str) -> None:
    wrong = {}
    for folder in sorted(path for path in (corpus / "devices").iterdir() if path.is_dir()):
        expected = tomllib.loads((folder / "expected.toml").read_text())
        copied = shutil.copytree(folder, tmp_path / folder.name)
        for path in copied.iterdir():
            content = path.read_bytes() if path.is_file() else b"\0"
            whole = "prompt" not in way or path.suffix not in (".xml", ".csv")
            if b"\0" not in content and path.suffix != ".toml" and whole:
                path.write_bytes(COPIES[way](content))
        found = disagreements(detect_machine(SnapshotProbe(copied), vendor_seconds=60), expected)
        if found:
            wrong[folder.name] = found
    assert not wrong


@pytest.mark.parametrize("field", ["memory_total_bytes", "name", "pci_address"])
def test_every_known_fact_has_an_origin(corpus: Path, field: str) -> None:
    for folder in sorted(path for path in (corpus / "devices").iterdir() if path.is_dir()):
        for device in detect_machine(SnapshotProbe(folder), vendor_seconds=60).devices:
            if known(getattr(device, field)) is not None:
                assert device.origins.get(field), (folder.name, field)
