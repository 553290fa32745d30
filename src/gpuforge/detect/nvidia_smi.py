"""Parsers for every output format of ``nvidia-smi`` since driver 300; pure functions.

Headings were renamed (driver 610: ``KMD Version``, ``CUDA UMD Version``), columns vary, names are
truncated with ``...``, and any value may be ``N/A``, ``[Not Supported]`` or ``ERR!``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuforge.detect.notation import (
    Facts,
    kept,
    lines_of,
    name_of,
    pci_address,
    pci_id,
    rows_of,
    size,
    told,
    usage_of,
    whole,
    word,
    words_of,
)
from gpuforge.detect.report import Report, first_error
from gpuforge.facts import Absent

UNIFIED = Absent("shared with the CPU: nvidia-smi shows no dedicated GPU memory")
GPUS_AT_MOST = 1024
_LOST = re.compile(r"device handle for GPU ?\d{0,3}(?:: )?([0-9A-F]{4,8}:\S+?): ", re.I)
PRODUCT = re.compile(r"\b(NVIDIA|Tesla|GeForce|Quadro|GRID|TITAN|RTX|GTX)\b")


def parse(text: str) -> Report:
    """Parse an output of any format; a lost GPU sets the report's error."""
    report = _parse(text)
    lost = first_error(text, "nvidia", "gpu_lost")
    numbers = {device["index"] for device in report.devices if "index" in device}
    missing = [str(n) for n in range(max(numbers, default=-1)) if n not in numbers]
    if lost and missing and len(missing) <= len(numbers):
        lost = (lost[0], f"{lost[1]} (not listed: GPU {', '.join(missing)})")
    none = re.search(r"<attached_gpus>0<|^\s*Attached GPUs\s*:\s*0\s*$", text, re.M)
    if lost and not report.devices:
        places = dict.fromkeys(map(pci_address, _LOST.findall(text)))
        report.devices = [{"pci_address": place} for place in places if place]
    report.error = report.error or lost or (("no_devices", "Attached GPUs: 0") if none else None)
    return report


def _parse(text: str) -> Report:
    if "<nvidia_smi_log" in text or "<gpu id=" in text:
        return parse_xml(text)
    if "NVSMI LOG" in text or _BLOCKS.search(text) or _CUT.search(text):
        return parse_query(text)
    if re.search(r"^[ \t]*([+|][-= |+]{6}|\| *NVIDIA-SMI )", text, re.M):
        return parse_table(text)
    return parse_csv(text) or parse_list(text)


def _versions(text: str) -> tuple[str | None, str | None]:
    """Return the versions of the driver and of CUDA from old and new headings."""
    number = r"\s*:\s*([0-9]+\.[0-9][0-9.]*)"
    driver = re.search(r"(?:KMD|Driver)[ _]version\s*:\s*(\d{2,3}\.\d[\d.]*)", text, re.I)
    cuda = re.search(rf"CUDA(?: UMD)?[ _]version{number}", text, re.I)
    return driver[1] if driver else None, cuda[1] if cuda else None


def _device(said: Mapping[str, str]) -> Facts:
    """Return the facts of one GPU from the tool's fields."""
    total, capability = said.get("total"), said.get("capability", "")
    device_id = re.fullmatch(r"(?:0x)?([0-9a-f]{4})(10de)", said.get("ids", "").strip(), re.I)
    uuid, family = word(said.get("uuid")), word(said.get("architecture"))
    product = name_of(said.get("name"))
    facts = kept(
        index=whole(said.get("number")),
        name=product,
        pci_address=pci_address(said.get("address", "")),
        pci_id=pci_id(device_id[2], device_id[1]) if device_id else None,
        uuid=uuid if uuid and re.fullmatch(r"GPU-[0-9a-fA-F-]{8,}", uuid) else None,
        memory_total_bytes=size(total, "M") if total else None,
        memory_free_bytes=size(said.get("free"), "M"),
        compute_capability=capability if re.fullmatch(r"\d+\.\d", capability) else None,
        architecture=family.lower() if family else None,
    )
    if "memory_free_bytes" in facts and "memory_total_bytes" not in facts:
        del facts["memory_free_bytes"]
    if total and "memory_total_bytes" not in facts and "not supported" in total.lower():
        facts["memory_total_bytes"] = UNIFIED
    if word(said.get("mig")) == "Disabled":
        facts["partitions"] = ()
    if said.get("virtual") == "VGPU":
        facts["virtual"] = True
    return facts


def _add(report: Report, fields: Mapping[str, str], instances: int = 0) -> None:
    said = told(fields, "nvidia-smi")
    version = said.get("driver", "")
    if re.fullmatch(r"\d+\.[\d.]+", version):
        report.driver = report.driver or version
    facts = _device(said)
    if instances:
        facts["partitions"] = ("MIG",) * instances
    report.devices.append(facts)


def parse_xml(text: str) -> Report:
    """Parse ``nvidia-smi -q -x``, as far as it goes if it is truncated.

    With patterns, not an XML parser, which fails on truncated input and may expand entities.
    """
    head, *blocks = re.split(r"<gpu id=", text)
    top = _tags(head)
    report = Report(driver=word(top.get("kmd_version", top.get("driver_version"))))
    report.runtime = word(top.get("cuda_umd_version", top.get("cuda_version")))
    for block in blocks[:GPUS_AT_MOST]:
        block = block.partition("</gpu>")[0]
        whole = re.sub(r"<mig_devices>.*?(</mig_devices>|$)", "", block, flags=re.S)
        memory = re.search(r"<(?:fb_)?memory_usage>(.*?)(?:</(?:fb_)?memory_usage>|$)", whole, re.S)
        inside = _tags(memory[1]) if memory else {}
        fields = _tags(whole) | {f"fb/{key}": value for key, value in inside.items()}
        fields.setdefault("pci_bus_id", block.partition(">")[0])
        _add(report, fields, len(re.findall(r"<mig_device>", block)))
    return report


def _tags(text: str) -> dict[str, str]:
    """Return the text of each leaf element; the first of a name counts."""
    found: dict[str, str] = {}
    for name, value in re.findall(r"<(\w{1,60})>([^<]{0,400})</\1>", text):
        found.setdefault(name, value.strip().replace("&amp;", "&"))
    return found


_BLOCKS = re.compile(r"^(?=GPU (?:[0-9A-Fa-f]{1,8}:[0-9A-Fa-f]{1,2}:|\d+\s*$))", re.M)

# What only a GPU's part of ``-q`` has, whose heading may be cut off.
_CUT = re.compile(r"^ *(?:Bus Id|GPU UUID|Product Name) {8,}: ", re.M)


def parse_query(text: str) -> Report:
    """Parse ``nvidia-smi -q``: keys under headings, which have no value."""
    head, *blocks = _BLOCKS.split(text)
    blocks = blocks or ["\n" + head] * bool(_CUT.search(head))  # cut at the beginning
    report = Report([], *_versions(head))
    for block in blocks[:GPUS_AT_MOST]:
        # Whatever is indented below a "MIG Device" heading belongs to the instance.
        instances = len(re.findall(r"^\s*MIG Device\s*$", block, re.M))
        fields: dict[str, str] = {}
        section, deeper = "", 0
        for line in lines_of(block)[1:]:
            depth = len(line) - len(line.lstrip())
            key, mark, value = (part.strip() for part in line.partition(" : "))
            if depth <= deeper:
                deeper = 0
            if key == "MIG Device":
                deeper = depth
            elif mark and not deeper:
                fields.setdefault(key, value)
                fields.setdefault(f"{section}/{key}", value)
            elif key:
                section = key
        fields.setdefault("Bus Id", block.partition("\n")[0])
        _add(report, fields, instances)
    return report


def parse_csv(text: str) -> Report | None:
    """Parse ``--query-gpu=... --format=csv`` by its header, or return None if it is no CSV.

    Without a header, only the cells that are unambiguous are read.
    """
    rows = rows_of(text[:200_000])
    names = [cell.partition("[")[0].strip() for cell in rows[0]] if rows else []
    report = Report()
    if any(set(names).intersection(known) for known in words_of("nvidia-smi").values()):
        for row in rows[1:]:
            if len(row) >= len(names):
                _add(report, dict(zip(names, row, strict=False)))
        return report
    for row in rows:
        if len(row) > 1 and any(PRODUCT.search(cell) for cell in row):
            _add(report, _guessed(row))
    return report if report.devices else None


def _guessed(row: list[str]) -> dict[str, str]:
    """Return the cells of a row without header that are recognisable by their form."""
    found = {"index": row[0]} if row[0].isdigit() else {}
    forms = (
        ("uuid", r"GPU-[0-9a-f-]{8,}"),
        ("pci.bus_id", r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.\d"),
        ("driver_version", r"\d{3}\.\d{2,3}(\.\d+)?"),
        ("compute_cap", r"\d{1,2}\.\d"),
        ("name", rf".*{PRODUCT.pattern}.*"),
    )
    for cell in row:
        key = next((key for key, form in forms if re.fullmatch(form, cell, re.I)), None)
        if key:
            found.setdefault(key, cell)
    sizes = [cell for cell in row if re.fullmatch(r"\d+ MiB", cell)]
    if sizes:
        found["memory.total"] = max(sizes, key=lambda cell: size(cell) or 0)
    return found


def parse_list(text: str) -> Report:
    """Parse ``nvidia-smi -L`` with its MIG devices, or count the GPUs of ``topo -m``."""
    report = Report([], *_versions(text))
    rows = columns = 0
    for line in lines_of(text):
        gpu = re.match(r"\s*GPU (\d+): (.+?)(?: \((?:UUID|S/N): ([^)]*)\))?\s*$", line)
        mig = re.match(r"\s+MIG (\S+)\s+Device\s+\d+:", line)
        if gpu:
            said = {"number": gpu[1], "name": gpu[2], "uuid": gpu[3] or ""}
            report.devices.append(_device(said))
        elif mig and report.devices:
            names = report.devices[-1].get("partitions", ())
            report.devices[-1]["partitions"] = (*names, mig[1])
        elif re.match(r"\s*GPU\d+\s+(?!GPU|XGMI|PCIE|NIC\d)(X|[A-Z]{2,4}\d*)\s", line):
            rows += 1  # of `topo -m`, whose last ones may be cut off
        elif heads := re.match(r"\s*(?:GPU\d+\s+)+(?=\S|$)", line):
            columns = max(columns, heads[0].count("GPU"))
    if rows and not report.devices:
        report.devices = [{} for _ in range(min(max(rows, columns), GPUS_AT_MOST))]
    report.trust = 2 if re.search(r"^[ \t]*Link \d+", text, re.M) else 0
    return report


def parse_table(text: str) -> Report:
    """Parse the default table, which has two or three lines of cells per GPU."""
    above = re.split(r"\|\s*(?:Processes|MIG devices|Compute processes)", text)[0]
    report = Report([], *_versions(above))
    for line in lines_of(above):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        head = re.match(r"(\d+)\s+(\S.*?)(?:\s+(On|Off|WDDM|TCC|MCDM|N/A|ERR!))?$", cells[0])
        if head and len(cells) > 1 and re.match(r"[0-9A-Fa-f:.]{7,}\s|N/A", cells[1] + " "):
            said = {"number": head[1], "name": head[2], "address": cells[1]}
            report.devices.append(_device(said))
        elif report.devices and len(cells) > 1:
            _second_line(report.devices[-1], cells)
    return report


def _second_line(device: Facts, cells: list[str]) -> None:
    if "memory_total_bytes" not in device:
        device.update(usage_of(cells[1]))
    if re.fullmatch(r"Not Supported", cells[1], re.I):
        device.setdefault("memory_total_bytes", UNIFIED)
    if len(cells) > 2 and cells[2] == "Disabled":
        device["partitions"] = ()


def parse_settings(text: str) -> list[Facts]:
    """Parse ``nvidia-settings -q all``."""
    devices: list[Facts] = []
    blocks = re.split(r"^Attributes queryable via ", text, flags=re.M)[1:]
    gpus = [block for block in blocks if "[gpu:" in block.partition("\n")[0]]
    # The first block is the screen's and repeats the attributes of its GPU.
    for block in gpus[:GPUS_AT_MOST] or blocks[:1]:
        fields = dict(re.findall(r"^[ \t]+(\w+):[ \t]*(\S.*)", block, re.M))
        if "CUDACores" not in fields:
            continue
        own = size(fields.get("TotalDedicatedGPUMemory"), "M")
        devices.append(
            kept(
                memory_total_bytes=own or size(fields.get("VideoRam"), "K"),
                uuid=word(fields.get("GpuUUID")),
                version=word(fields.get("NvidiaDriverVersion")),
            )
        )
    listed = re.findall(r"^[ \t]*\[\d+\] .*?\[gpu:\d+\] \((.{1,200})\)", text, re.M)
    return devices or [kept(name=name_of(name)) for name in listed]  # of `-q gpus`
