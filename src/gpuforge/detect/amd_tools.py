"""What ``rocm-smi``, ``amd-smi``, ``rocminfo`` and ``amdgpu_top`` print; pure functions.

Their keys are renamed from release to release (``GPU ID`` became ``Device ID``, ``Card series``
became ``Card Series``), names may be ids, and JSON may follow a line of warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gpuforge.detect import pci_ids
from gpuforge.detect.notation import (
    Facts,
    fields_of,
    free_of,
    gfx,
    json_of,
    kept,
    lines_of,
    name_of,
    pci_address,
    pci_address_of,
    pci_id,
    records,
    rows_of,
    size,
    usage_of,
    whole,
    word,
)
from gpuforge.detect.report import Report

_VERSION = re.compile(r"\d+\.\d+(\.\d+)*([-+.]\w+)*")


def _version(text: object) -> str | None:
    found = word(text)
    return found if found and _VERSION.fullmatch(found) else None


def _device(
    ident: object = None, names: Iterable[object] = (), uuid: object = None, **facts: Any
) -> Facts:
    """Return facts, with the id made whole and the first name that is one."""
    text = str(ident or "").strip()
    number = whole(text, 16) if re.fullmatch(r"(0x)?[0-9a-fA-F]{1,4}", text) else None
    found = pci_id("1002", f"{number:x}") if number else None
    product = next((name for one in names if (name := name_of(one))), None)
    unique = whole(uuid, 16) if re.fullmatch(r"0x[0-9a-fA-F]{4,16}", str(uuid).strip()) else None
    facts.setdefault("integrated", pci_ids.integrated(found))
    return kept(pci_id=found, name=product, uuid=f"GPU-{unique:016x}" if unique else None, **facts)


def parse_rocm_smi(text: str) -> Report:
    """Return what ``rocm-smi`` says: JSON, CSV, its ``GPU[0] : key: value`` lines or its table."""
    value = json_of(text, '"card')
    if isinstance(value, dict):
        cards = {name: card for name, card in value.items() if isinstance(card, dict)}
    else:
        cards = _cards_of_lines(text) or _cards_of_csv(text)
    system = _lower(cards.pop("system", {}))
    report = Report(driver=_version(system.get("driver version")))
    for name, card in cards.items():
        if re.fullmatch(r"card\d+", name):
            report.devices.append(_card(_lower(card)))
    if not report.devices:
        report.devices = _concise(text)
    return report


def _lower(card: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in card.items():
        found.setdefault(str(key).strip(" :").lower(), value)
    return found


def _card(card: dict[str, Any]) -> Facts:
    total = size(card.get("vram total memory (b)"))
    # Since ROCm 6 the model is the device, with the board's own id beside it.
    model = card.get("card model") if "subsystem id" in card else None
    return _device(
        card.get("device id") or card.get("gpu id") or model,
        (card.get("card series"), card.get("device name"), card.get("card model")),
        card.get("unique id"),
        pci_address=pci_address(card.get("pci bus")),
        memory_total_bytes=total,
        memory_free_bytes=free_of(total, whole(card.get("vram total used memory (b)"))),
        architecture=gfx(card.get("gfx version")),
    )


def _cards_of_lines(text: str) -> dict[str, dict[str, Any]]:
    cards: dict[str, dict[str, Any]] = {}
    for line in lines_of(text):
        match = re.match(r"GPU\[(\d+)\]\s*:\s*([^:]+):\s*(.*)", line)
        if match:
            cards.setdefault(f"card{match[1]}", {}).setdefault(match[2].strip(), match[3].strip())
        elif line.lower().startswith("driver version:"):
            cards.setdefault("system", {})["Driver version"] = line.partition(":")[2].strip()
    return cards


def _cards_of_csv(text: str) -> dict[str, dict[str, Any]]:
    start = re.search(r"^device,", text, re.M)
    rows = rows_of(text[start.start() :]) if start else []
    return {row[0]: dict(zip(rows[0], row, strict=False)) for row in rows[1:]}


def _concise(text: str) -> list[Facts]:
    """Return the GPUs of the table that bare ``rocm-smi`` draws."""
    devices: list[Facts] = []
    for line in lines_of(text):
        new = re.match(r"\d+\s+\d+\s+(0x[0-9a-f]{4}),\s+\d+\s", line)
        old = re.match(r"(?:GPU\[)?\d+\]?\s+:?\s*(\d+\.\d+\s?°?c|N/A)\s", line, re.I)
        between = re.match(r"\d+\s+\[0x[0-9a-f]+\s*:\s*0x[0-9a-f]+\]\s", line, re.I)
        if new or old or between:
            devices.append(_device(new[1] if new else None))
    return devices


def parse_amd_smi(text: str) -> Report:
    """Return what ``amd-smi`` says: ``list`` and ``static`` as JSON or text, or its table."""
    value = json_of(text, '"gpu"')
    if value is not None:
        entries = [_lower(one) for one in records(value)]
    else:
        entries = _entries_of_csv(text) or _entries_of_lines(text)
    report = Report()
    for entry in entries:
        report.runtime = report.runtime or _version(entry.get("rocm_version"))
        inner = _section(entry, "driver")
        versions = (entry.get("amdgpu_version"), inner.get("version"), inner.get("driver_version"))
        report.driver = report.driver or next(filter(None, map(_version, versions)), None)
        if "gpu" in entry:
            report.devices.append(_entry(entry))
    if not report.devices:
        report.devices = _amd_smi_table(text)
    found = re.search(r"ROCm version:\s*([\d.]+)", text)
    report.runtime = report.runtime or (_version(found[1]) if found else None)
    found = re.search(r"amdgpu version:\s*([\d.]+)\b", text)
    report.driver = report.driver or (_version(found[1]) if found else None)
    return report


def _section(entry: dict[str, Any], name: str) -> dict[str, Any]:
    value = entry.get(name)
    return _lower(value) if isinstance(value, dict) else {}


def _entry(entry: dict[str, Any]) -> Facts:
    asic, bus, vram = (_section(entry, name) for name in ("asic", "bus", "vram"))
    amount = vram.get("size") or vram.get("vram_size_mb") or vram.get("vram_size")
    if isinstance(amount, dict):
        amount = f"{amount.get('value')} {amount.get('unit', 'MB')}"
    ident = word(entry.get("uuid") or asic.get("uuid"))
    facts = _device(
        asic.get("device_id"),
        (asic.get("market_name"), _section(entry, "board").get("product_name")),
        pci_address=pci_address(bus.get("bdf") or entry.get("bdf")),
        memory_total_bytes=size(amount, "M") if amount else None,
        architecture=gfx(asic.get("target_graphics_version")),
    )
    return {**facts, **kept(uuid=ident)}


def _entries_of_csv(text: str) -> list[dict[str, Any]]:
    """Return the entries of a CSV, whose one row stands for every section."""
    rows = rows_of(text) if re.match(r"gpu,", text) else []
    cells = [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]
    return [
        {"bdf": row.get("gpu_bdf"), "uuid": row.get("gpu_uuid"), "driver": row, **row}
        | dict.fromkeys(("asic", "bus", "vram", "board"), row)
        for row in cells
    ]


def _entries_of_lines(text: str) -> list[dict[str, Any]]:
    """Return the entries of ``amd-smi list`` and ``static``, nested by indentation."""
    entries: list[dict[str, Any]] = []
    section: dict[str, Any] = {}
    for line in lines_of(text):
        key, mark, value = (part.strip() for part in line.partition(":"))
        depth = len(line) - len(line.lstrip())
        if not mark:
            continue
        if depth == 0:
            if key == "GPU" and value.isdigit():
                entries.append({"gpu": int(value)})
                section = entries[-1]
        elif entries and not value:
            section = entries[-1].setdefault(key.lower(), {}) if depth <= 4 else section
        elif entries:
            place = entries[-1] if depth <= 4 else section
            if isinstance(place, dict):
                place.setdefault(key.lower(), value)
    return entries


def _amd_smi_table(text: str) -> list[Facts]:
    """Return the GPUs of the table that bare ``amd-smi`` draws: two lines each."""
    devices: list[Facts] = []
    for line in lines_of(text.partition("Processes:")[0]):
        head = re.match(r"\|\s*([0-9a-f:.]{7,})\s+(\S.*?)\s*\|", line, re.I)
        if head and pci_address(head[1]):
            ident = head[2] if re.fullmatch(r"0x[0-9a-fA-F]{4}", head[2]) else None
            devices.append(_device(ident, (head[2],), pci_address=pci_address(head[1])))
        elif devices and "memory_total_bytes" not in devices[-1]:
            devices[-1].update(usage_of(line))
    return devices


def parse_rocminfo(text: str) -> Report:
    """Return the GPU agents of ``rocminfo``; its BDFID is decimal."""
    version = re.search(r"ROCk module version ([\d.]+) is loaded", text)
    report = Report(driver=version[1] if version else None)
    for agent in re.split(r"^\*+\s*\nAgent \d+\s*\n\*+\s*$", text, flags=re.M)[1:]:
        fields = fields_of(agent)
        if fields.get("Device Type") == "GPU":
            report.devices.append(_agent(agent, fields))
    return report


def _agent(agent: str, fields: dict[str, str]) -> Facts:
    place = whole(fields.get("BDFID"))
    chip = re.search(r"\((0x[0-9a-f]{4})\)", fields.get("Chip ID", ""))
    pools = re.findall(r"Segment:\s+GLOBAL;.*\n\s+Size:\s+(\d+)", agent)
    sizes = [found for pool in pools if (found := size(pool, "K"))]
    ident = chip[1] if chip else None
    apu = "APU" in fields.get("Memory Properties", "")
    shared = True if apu else pci_ids.integrated(pci_id("1002", ident or ""))
    facts = _device(
        ident,
        (fields.get("Marketing Name"),),
        pci_address=pci_address_of(0, place >> 8, place >> 3 & 31, place & 7) if place else None,
        architecture=gfx(fields.get("Name")),
        memory_total_bytes=max(sizes) if sizes and not shared else None,
        integrated=shared,
    )
    return {**facts, **kept(uuid=word(fields.get("Uuid")))}


def parse_amdgpu_top(text: str) -> Report:
    """Return the GPUs of ``amdgpu_top``'s JSON dump."""
    report = Report()
    for entry in records(json_of(text, '"DeviceName"')):
        path = entry.get("DevicePath")
        path = path if isinstance(path, dict) else {}
        number = whole(entry.get("DeviceID") or path.get("DeviceID"))
        kind = str(entry.get("GPU Type"))
        report.runtime = report.runtime or _version(entry.get("ROCm Version"))
        total, used = size(entry.get("VRAM Size")), whole(entry.get("VRAM Usage Size"))
        report.devices.append(
            _device(
                f"{number:x}" if number else None,
                (entry.get("DeviceName") or path.get("DeviceName"),),
                pci_address=pci_address(path.get("pci") or entry.get("PCI")),
                memory_total_bytes=total,
                memory_free_bytes=free_of(total, used),
                architecture=gfx(entry.get("gfx_target_version")),
                integrated={"APU": True, "dGPU": False}.get(kind),
            )
        )
    return report
