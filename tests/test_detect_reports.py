"""Machines that were pasted into reports are read as a person reads them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuforge.detect.text import machine_from_text
from gpuforge.facts import Device, Machine, known

FOLDER = Path(__file__).parent / "reports"
REPORTS = [
    report
    for path in sorted(FOLDER.glob("*.toml"))
    for report in tomllib.loads(path.read_text(encoding="utf-8"))["report"]
]


def device_facts(device: Device) -> dict[str, Any]:
    driver = known(device.driver)
    memory = known(device.memory_total_bytes)
    return {
        "vendor": device.vendor,
        "name": known(device.name),
        "address": known(device.pci_address),
        "id": known(device.pci_id),
        "uuid": known(device.uuid),
        "mib": memory >> 20 if memory else False,
        "capability": known(device.compute_capability),
        "architecture": known(device.architecture),
        "integrated": known(device.integrated),
        "virtual": known(device.virtual),
        "kernel_driver": driver.name if driver else None,
        "driver": known(driver.version) if driver else None,
        "runtime": [known(toolkit.version) for toolkit in device.runtimes],
    }


def judged(report: dict[str, Any], machine: Machine) -> Iterator[tuple[str, bool]]:
    """Yield each fact of a report, and whether the machine holds it."""
    gpus = report.get("gpu")
    yield f"status {machine.status}", machine.status == report["status"]
    if "error" in report:
        kind = machine.error.kind if machine.error else None
        yield f"error {kind}", kind == report["error"]
    if "says" in report:
        said = machine.error.message if machine.error else ""
        yield f"says {said}", report["says"] in said
    host = {
        "platform": known(machine.host.platform),
        "machine": known(machine.host.machine),
        "cpu": known(machine.host.cpu_model),
        "cores": known(machine.host.cores),
        "libc": known(machine.host.libc),
    }
    for name, value in host.items():
        if name in report:
            yield f"{name} {value}", value == report[name]
    told = {tool.name: known(tool.version) for tool in machine.toolkits}
    for name, version in report.get("versions", {}).items():
        found = told.get("cuda toolkit" if name == "cuda" else name)
        yield f"version {name} {found}, wanted {version}", found == version
    if gpus is None:
        return
    yield f"count {len(machine.devices)}", len(machine.devices) == len(gpus)
    found = [device_facts(device) for device in machine.devices]
    for name in ("driver", "runtime"):
        if name in report:
            values = [value for facts in found for value in flat(facts[name])]
            yield f"{name} {values}", report[name] in values
    for place, gpu in enumerate(gpus):
        facts = found[place] if place < len(found) else {}
        for name, wanted in gpu.items():
            value = facts.get(name)
            same = wanted in (value or "") if name == "name" else wanted == value
            yield f"gpu {place} {name} {value}, wanted {wanted}", bool(facts) and same


def flat(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report["source"])
def test_pasted_report_is_read_as_a_person_reads_it(report: dict[str, Any]) -> None:
    machine = machine_from_text(report["text"])
    wrong = [said for said, right in judged(report, machine) if not right]
    unread = set(report.get("unread", ()))  # what a person reads and no reader does
    assert not [said for said in wrong if said.split()[0] not in unread]
    assert {said.split()[0] for said in wrong} == unread
