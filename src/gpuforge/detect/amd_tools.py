"""What ``rocm-smi``, ``amd-smi``, ``rocminfo`` and ``amdgpu_top`` print; pure functions.

Keys change between releases (``GPU ID`` became ``Device ID``, ``Card series`` became
``Card Series``), an id may stand in place of a name, and warnings may precede the JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gpuforge.detect import pci_ids
from gpuforge.detect.notation import (
    Facts,
    fields_of,
    flat,
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
    words_of,
)
from gpuforge.detect.report import Report
from gpuforge.facts import Toolkit

T = TypeVar("T")
AGENTS_AT_MOST = 512

_VERSION = re.compile(r"\d+\.\d+(\.\d+)*([-+.]\w+)*")


def _told(fields: Mapping[str, Any], fact: str, read: Callable[[object], T | None]) -> T | None:
    """Return the value of the first of a fact's field names that `read` can parse."""
    values = (read(fields[name]) for name in words_of("amd")[fact] if name in fields)
    return next((value for value in values if value is not None), None)


def _version(text: object) -> str | None:
    found = word(text)
    return found if found and _VERSION.fullmatch(found) else None


def _unique(text: object) -> str | None:
    number = whole(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]{4,16}", str(text).strip()) else None
    return f"GPU-{number:016x}" if number else None


def _device(fields: Mapping[str, Any], unit: str = "", **better: Any) -> Facts:
    """Return the facts of one GPU from a tool's fields; `better` ones take precedence.

    Parameters
    ----------
    unit
        Unit of memory sizes that name none.
    """
    found = _told(fields, "ident", lambda text: pci_id("1002", text))
    total = _told(fields, "total", lambda text: size(text, unit))
    facts = {
        "name": _told(fields, "name", name_of),
        "pci_address": _told(fields, "address", pci_address),
        "pci_id": found,
        "uuid": _told(fields, "unique", _unique) or _told(fields, "uuid", word),
        "memory_total_bytes": total,
        "memory_free_bytes": free_of(total, _told(fields, "used", whole)),
        "architecture": _told(fields, "architecture", gfx),
        "integrated": pci_ids.integrated(found),
    }
    return kept(**facts | better)


def parse_rocm_smi(text: str) -> Report:
    """Parse ``rocm-smi``: JSON, CSV, its ``GPU[0] : key: value`` lines or its default table."""
    value = json_of(text, '"card')
    said = value if isinstance(value, dict) else _cards_of_lines(text) or _cards_of_csv(text)
    cards = {name: flat(card) for name, card in said.items() if isinstance(card, dict)}
    report = Report(driver=_told(cards.get("system", {}), "driver", _version))
    for name, card in cards.items():
        if re.fullmatch(r"card\d+", name):
            # Since ROCm 6 the model field holds the device id; the board has an id of its own.
            model = {"model id": card.get("card model")} if "subsystem id" in card else {}
            report.devices.append(_device(card | model))
    if not report.devices:
        report.devices = _concise(text)
    return report


def _cards_of_lines(text: str) -> dict[str, dict[str, Any]]:
    cards: dict[str, dict[str, Any]] = {}
    for card, block in re.findall(r'"(card\d+|system)"\s*:\s*\{([^{}]*)', text):  # truncated JSON
        cards[card] = dict(re.findall(r'"([^"]{1,80})"\s*:\s*"([^"]{0,200})"', block))
    for line in lines_of(text):
        match = re.match(r"GPU\[(\d+)\]\s*:\s*([^:]+):\s*(.*)", line)
        if match:
            cards.setdefault(f"card{match[1]}", {}).setdefault(match[2].strip(), match[3].strip())
        elif line.lower().startswith("driver version:"):
            cards.setdefault("system", {})["driver version"] = line.partition(":")[2].strip()
    return cards


def _cards_of_csv(text: str) -> dict[str, dict[str, Any]]:
    start = re.search(r"^device,", text, re.M)
    rows = rows_of(text[start.start() :]) if start else []
    return {row[0]: dict(zip(rows[0], row, strict=False)) for row in rows[1:]}


def _concise(text: str) -> list[Facts]:
    """Return the GPUs of the table that ``rocm-smi`` prints without arguments."""
    devices: list[Facts] = []
    for line in lines_of(text):
        new = re.match(r"\d+\s+\d+\s+(0x[0-9a-f]{4}),\s+\d+\s", line)
        old = re.match(r"\s*(?:GPU\[)?\d+\]?\s+:?\s*(\d+(\.\d+)?\s?°?c|N/A)\s", line, re.I)
        first = re.match(r"\s*\d+\s+([0-9a-f]{4})\s+\d+(?:\.\d+)?\s?°?c\s", line, re.I)
        between = re.match(r"\d+\s+\[0x[0-9a-f]+\s*:\s*0x[0-9a-f]+\]\s", line, re.I)
        if shown := new or first:
            devices.append(_device({"device id": f"0x{shown[1].removeprefix('0x')}"}))
        elif old or between:
            devices.append(_device({}))
    return devices


def parse_amd_smi(text: str) -> Report:
    """Parse ``amd-smi``: ``list`` and ``static`` as JSON or text, or its default table."""
    value = json_of(text, '"gpu"')
    said = records(value) if value is not None else _entries_of_csv(text) or _entries_of_lines(text)
    entries = [flat(one) for one in said]
    report = Report([_device(entry, "M") for entry in entries if "gpu" in entry])
    report.devices = report.devices or _amd_smi_table(text)
    heading = dict(re.findall(r"(ROCm version|amdgpu version):\s*([\d.]+)\b", text))
    for entry in (*entries, flat(heading)):
        report.driver = report.driver or _told(entry, "driver", _version)
        report.runtime = report.runtime or _told(entry, "runtime", _version)
    return report


def _entries_of_csv(text: str) -> list[dict[str, Any]]:
    """Return the entries of a CSV, in which a single row covers every section."""
    rows = rows_of(text) if re.match(r"gpu,", text) else []
    cells = [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]
    sections = ("asic", "bus", "vram", "board", "driver")
    return [{"uuid": row.get("gpu_uuid"), **row, **dict.fromkeys(sections, row)} for row in cells]


def _entries_of_lines(text: str) -> list[dict[str, Any]]:
    """Return the entries of ``amd-smi list`` and ``static``, whose sections are indented."""
    entries: list[dict[str, Any]] = []
    section = ""
    for line in lines_of(text):
        key, mark, value = (part.strip() for part in line.partition(":"))
        depth = len(line) - len(line.lstrip())
        if mark and depth == 0 and key == "GPU" and value.isdigit():
            entries.append({"gpu": int(value)})
        elif mark and depth and entries and value:
            entries[-1].setdefault(f"{section}/{key}" if depth > 4 else key, value)
        elif mark and 0 < depth <= 4:
            section = key
    return [entry for entry in entries if len(entry) > 1]  # other tools print "GPU: 0" too


def _amd_smi_table(text: str) -> list[Facts]:
    """Return the GPUs of the table that ``amd-smi`` prints by default: two lines each."""
    devices: list[Facts] = []
    for line in lines_of(text.partition("Processes:")[0]):
        head = re.match(r"\|\s*([0-9a-f:.]{7,})\s+(\S.*?)\s*\|", line, re.I)
        if head and pci_address(head[1]):
            # A name, or an id in its place.
            words = {"pci": head[1], "device name": head[2], "device id": head[2]}
            devices.append(_device(words))
        elif devices and "memory_total_bytes" not in devices[-1]:
            devices[-1].update(usage_of(line))
    return devices


def parse_rocminfo(text: str) -> Report:
    """Return the GPU agents of ``rocminfo``; its BDFID is decimal."""
    version = re.search(r"ROCk module version ([\d.]+) is loaded", text)
    report = Report(driver=version[1] if version else None)
    shared = 0
    head = r"^Agent \d+[ \t]*$"
    if not re.search(head, text, re.M):  # picked lines, or cut off at the beginning
        head = r"^(?=[ \t]*Name:[ \t]+gfx)"
    for agent in re.split(head, text, maxsplit=AGENTS_AT_MOST, flags=re.M):
        fields = flat(fields_of(agent))
        # A truncated listing may end before the type.
        kind = fields.get("device type", fields.get("vendor name", fields.get("name", "")[:3]))
        if kind == "CPU":
            shared = max(_pools(agent), default=0)
        elif kind in ("GPU", "AMD", "gfx"):
            report.devices.append(_agent(agent, fields, shared))
    return report


def _pools(agent: str) -> list[int]:
    """Return the sizes of an agent's global memory pools, in bytes."""
    pools = re.findall(r"Segment:\s+GLOBAL;.*\n\s+Size:\s+(\d+)", agent)
    return [found for pool in pools if (found := size(pool, "K"))]


def _agent(agent: str, fields: dict[str, str], shared: int) -> Facts:
    place = whole(fields.get("bdfid"))
    chip = re.search(r"\((0x[0-9a-f]{4})\)", fields.get("chip id", ""))
    sizes = _pools(agent)
    facts = _device(
        {**fields, "device id": chip[1] if chip else None},
        pci_address=pci_address_of(0, place >> 8, place >> 3 & 31, place & 7) if place else None,
    )
    if "APU" in fields.get("memory properties", ""):
        facts["integrated"] = True
    # A pool of the CPU's size is the CPU's; an integrated GPU may also have its own.
    if sizes and not (facts.get("integrated") and max(sizes) >= shared > 0):
        facts["memory_total_bytes"] = max(sizes)
    facts["runtimes"] = (Toolkit("rocm"),)  # an agent is what the runtime can use
    return facts


def parse_amdgpu_top(text: str) -> Report:
    """Return the GPUs of ``amdgpu_top``'s JSON dump."""
    report = Report()
    for entry in map(flat, records(json_of(text, '"DeviceName"')) or _cut_entries(text)):
        number = whole(entry.get("deviceid") or entry.get("devicepath/deviceid"))
        report.runtime = report.runtime or _told(entry, "runtime", _version)
        kinds = {"APU": True, "dGPU": False}
        report.devices.append(
            _device(
                {**entry, "device id": f"{number:x}" if number else None},
                integrated=kinds.get(str(entry.get("gpu type"))),
            )
        )
    return report


def _cut_entries(text: str) -> list[dict[str, Any]]:
    """Return each card's entry from truncated ``amdgpu_top`` JSON."""
    found = []
    for block in re.split(r'(?="ASIC Name"\s*:)', text)[1:]:
        values = dict(
            reversed(re.findall(r'"(\w[\w ]{1,30})"\s*:\s*"?([^",{}\[\]]{1,200})', block))
        )
        found.append({**values, "gfx version": values.get("ASIC Name")})
    return found
