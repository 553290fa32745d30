"""What ``nvidia-smi`` prints, in each of its forms since driver 300; pure functions.

Headings were renamed (driver 610: ``KMD Version``, ``CUDA UMD Version``), columns came and went,
names are cut with ``...``, and any value may read ``N/A``, ``[Not Supported]`` or ``ERR!``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuforge.detect.notation import (
    Facts,
    first_error,
    kept,
    lines_of,
    name_of,
    pci_address,
    pci_id,
    rows_of,
    size,
    word,
)
from gpuforge.facts import Absent

UNIFIED = Absent("shared with the CPU: nvidia-smi shows no memory of the GPU's own")
# Lines of a failed nvidia-smi, the most telling first; kinds as `detect --json` names them.
ERRORS = (
    ("version_mismatch", r"driver/library version mismatch"),
    ("os_blocked", r"gpu access blocked by the operating system"),
    ("gpu_lost", r"gpu is lost|unable to determine the device handle|gpu requires reset"),
    ("driver_not_loaded", r"couldn'?t communicate with the nvidia driver|driver (is )?not loaded"),
    ("nvml_unknown_error", r"failed to initialize nvml: unknown error"),
    ("no_devices", r"no devices (were )?found"),
    ("nvml_unknown_error", r"failed to initialize nvml"),
)


GPUS_AT_MOST = 1024


@dataclass
class Report:
    """The GPUs of one output, and what holds for all of them."""

    devices: list[Facts] = field(default_factory=list)
    driver: str | None = None
    cuda: str | None = None
    error: tuple[str, str] | None = None
    trust: int = 0


def parse(text: str) -> Report:
    """Return what one output says, whichever form it has."""
    if "<nvidia_smi_log" in text or "<gpu id=" in text:
        return parse_xml(text)
    if "NVSMI LOG" in text or re.search(r"^GPU [0-9A-F]{4,8}:[0-9A-F]{2}:", text, re.M | re.I):
        return parse_query(text)
    if re.search(r"^[ \t]*[+|][-= |+]{6}", text, re.M):
        return parse_table(text)
    if {"name", "gpu_name"} & {cell.strip() for cell in text.partition("\n")[0].split(",")}:
        return parse_csv(text)
    listed = parse_list(text)
    report = Report(listed, *_versions(text))
    report.trust = 2 if re.search(r"^[ \t]*Link \d+", text, re.M) else 0
    report.error = None if listed else parse_error(text)
    return report


def parse_error(text: str) -> tuple[str, str] | None:
    """Return the kind and the line of the error that `text` holds, or None."""
    return first_error(text, ERRORS)


def _versions(text: str) -> tuple[str | None, str | None]:
    """Return the driver's and CUDA's version from headings old and new."""
    number = r"\s*:\s*([0-9]+\.[0-9][0-9.]*)"
    driver = re.search(rf"(?:KMD|Driver)[ _]version{number}", text, re.I)
    cuda = re.search(rf"CUDA(?: UMD)?[ _]version{number}", text, re.I)
    return driver[1] if driver else None, cuda[1] if cuda else None


def _device(
    *,
    name: str | None = None,
    address: str | None = None,
    ids: str | None = None,
    uuid: str | None = None,
    total: str | None = None,
    free: str | None = None,
    capability: str | None = None,
    architecture: str | None = None,
    mig: str | None = None,
    virtualisation: str | None = None,
) -> Facts:
    """Return the facts of one GPU from the words of the tool."""
    device_id = re.fullmatch(r"(?:0x)?([0-9a-f]{4})(10de)", (ids or "").strip(), re.I)
    found = word(uuid)
    family = word(architecture)
    product = name_of(name)
    facts = kept(
        name=product,
        pci_address=pci_address(address or ""),
        pci_id=pci_id(device_id[2], device_id[1]) if device_id else None,
        uuid=found if found and re.fullmatch(r"GPU-[0-9a-fA-F-]{8,}", found) else None,
        memory_total_bytes=size(total, "M") if total else None,
        memory_free_bytes=size(free, "M") if free else None,
        compute_capability=capability if re.fullmatch(r"\d+\.\d", capability or "") else None,
        architecture=family.lower() if family else None,
    )
    if total and "memory_total_bytes" not in facts and "not supported" in total.lower():
        facts["memory_total_bytes"] = UNIFIED
    if word(mig) == "Disabled":
        facts["partitions"] = ()
    if virtualisation == "VGPU" or re.match(r"GRID |.+-\d+[ABCQ]$", product or ""):
        facts["virtual"] = True
    return facts


def _tag(block: str, *names: str) -> str | None:
    for name in names:
        match = re.search(rf"<{name}>([^<]{{0,400}})</{name}>", block)
        if match:
            return match[1].strip().replace("&amp;", "&")
    return None


def parse_xml(text: str) -> Report:
    """Return what ``nvidia-smi -q -x`` says; a file that is cut off gives what it still holds.

    Read with patterns, not an XML parser: those fail on a cut file and can be made to expand.
    """
    head, *blocks = re.split(r"<gpu id=", text)
    report = Report(driver=word(_tag(head, "kmd_version", "driver_version")))
    report.cuda = word(_tag(head, "cuda_umd_version", "cuda_version"))
    for block in blocks[:GPUS_AT_MOST]:
        block = block.partition("</gpu>")[0]
        whole = re.sub(r"<mig_devices>.*?(</mig_devices>|$)", "", block, flags=re.S)
        memory = whole.partition("<fb_memory_usage>")[2].partition("</fb_memory_usage>")[0]
        facts = _device(
            name=_tag(whole, "product_name"),
            address=_tag(whole, "pci_bus_id") or block.partition(">")[0],
            ids=_tag(whole, "pci_device_id"),
            uuid=_tag(whole, "uuid"),
            total=_tag(memory, "total"),
            free=_tag(memory, "free"),
            architecture=_tag(whole, "product_architecture"),
            mig=_tag(whole, "current_mig"),
            virtualisation=_tag(whole, "virtualization_mode"),
        )
        count = len(re.findall(r"<mig_device>", block))
        if count:
            facts["partitions"] = ("MIG",) * count
        report.devices.append(facts)
    return report


def parse_query(text: str) -> Report:
    """Return what ``nvidia-smi -q`` says: nested headings, told apart by their indentation."""
    head, *blocks = re.split(r"^(?=GPU [0-9A-Fa-f]{4,8}:|GPU \d+\s*$)", text, flags=re.M)
    report = Report([], *_versions(head))
    for block in blocks[:GPUS_AT_MOST]:
        top: dict[str, str] = {}
        section = ""
        inside: dict[tuple[str, str], str] = {}
        for line in lines_of(block)[1:]:
            depth = len(line) - len(line.lstrip())
            key, mark, value = (part.strip() for part in line.partition(" : "))
            if depth == 4:
                section = "" if mark else key
                if mark:
                    top.setdefault(key, value)
            elif depth > 4 and mark and section:
                inside.setdefault((section, key), value)
        memory = "FB Memory Usage"
        facts = _device(
            name=top.get("Product Name"),
            address=inside.get(("PCI", "Bus Id")) or block.partition("\n")[0],
            ids=inside.get(("PCI", "Device Id")),
            uuid=top.get("GPU UUID"),
            total=inside.get((memory, "Total")),
            free=inside.get((memory, "Free")),
            architecture=top.get("Product Architecture"),
            mig=inside.get(("MIG Mode", "Current")),
            virtualisation=inside.get(("GPU Virtualization Mode", "Virtualization Mode")),
        )
        count = len(re.findall(r"^    MIG Device\s*$", block, re.M))
        if count:
            facts["partitions"] = ("MIG",) * count
        report.devices.append(facts)
    return report


def parse_csv(text: str) -> Report:
    """Return what ``nvidia-smi --query-gpu=... --format=csv`` says, by the names in its heading."""
    rows = rows_of(text)
    names = [cell.partition("[")[0].strip() for cell in rows[0]] if rows else []
    report = Report()
    for row in rows[1:]:
        cells = dict(zip(names, row, strict=False))
        if len(cells) < len(names):
            continue
        versions = [cells.get(key, "") for key in ("kmd_version", "driver_version")]
        numbers = [v for v in versions if re.fullmatch(r"\d+\.[\d.]+", v)]
        report.driver = report.driver or (numbers[0] if numbers else None)
        report.devices.append(
            _device(
                name=cells.get("name") or cells.get("gpu_name"),
                address=cells.get("pci.bus_id") or cells.get("gpu_bus_id"),
                ids=cells.get("pci.device_id"),
                uuid=cells.get("uuid") or cells.get("gpu_uuid"),
                total=cells.get("memory.total"),
                free=cells.get("memory.free"),
                capability=cells.get("compute_cap"),
                mig=cells.get("mig.mode.current"),
            )
        )
    return report


def parse_list(text: str) -> list[Facts]:
    """Return what ``nvidia-smi -L`` says, MIG devices counted under their GPU."""
    devices: list[Facts] = []
    for line in lines_of(text):
        gpu = re.match(r"GPU (\d+): (.+?)(?: \(UUID: ([^)]*)\))?\s*$", line)
        mig = re.match(r"\s+MIG (\S+)\s+Device\s+\d+:", line)
        if gpu:
            devices.append(_device(name=gpu[2], uuid=gpu[3]))
        elif mig and devices:
            devices[-1]["partitions"] = (*devices[-1].get("partitions", ()), mig[1])
    return devices


def parse_table(text: str) -> Report:
    """Return what bare ``nvidia-smi`` draws: two or three lines a GPU in cells."""
    above = re.split(r"\|\s*(?:Processes|MIG devices|Compute processes)", text)[0]
    report = Report([], *_versions(above))
    for line in lines_of(above):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        head = re.match(r"(\d+)\s+(\S.*?)(?:\s+(On|Off|WDDM|TCC|MCDM|N/A|ERR!))?$", cells[0])
        if head and len(cells) > 1 and re.match(r"[0-9A-Fa-f:.]{7,}\s|N/A", cells[1] + " "):
            report.devices.append(_device(name=head[2], address=cells[1]))
        elif report.devices and len(cells) > 1:
            _second_line(report.devices[-1], cells)
    if not report.devices:
        report.error = parse_error(text)
    return report


def _second_line(device: Facts, cells: list[str]) -> None:
    usage = re.search(r"(\d+)\s*MiB\s*/\s*(\d+)\s*MiB", cells[1])
    if usage and "memory_total_bytes" not in device:
        total, used = size(usage[2], "M"), int(usage[1]) * 2**20
        if total and used <= total:
            device.update(memory_total_bytes=total, memory_free_bytes=total - used)
    elif re.fullmatch(r"Not Supported", cells[1], re.I):
        device.setdefault("memory_total_bytes", UNIFIED)
    if len(cells) > 2 and cells[2] == "Disabled":
        device["partitions"] = ()


def parse_settings(text: str) -> list[Facts]:
    """Return what ``nvidia-settings -q all`` says of the GPUs it can query."""
    devices: list[Facts] = []
    blocks = re.split(r"^Attributes queryable via ", text, flags=re.M)[1:]
    gpus = [block for block in blocks if "[gpu:" in block.partition("\n")[0]]
    for block in (
        gpus[:GPUS_AT_MOST] or blocks[:1]
    ):  # the first block is the screen's, which repeats its GPU
        fields = dict(re.findall(r"^[ \t]+(\w+):[ \t]*(\S.*)", block, re.M))
        if "CUDACores" not in fields:
            continue
        total = size(fields.get("TotalDedicatedGPUMemory"), "M") or size(
            fields.get("VideoRam"), "K"
        )
        devices.append(
            kept(
                memory_total_bytes=total,
                uuid=word(fields.get("GpuUUID")),
                version=word(fields.get("NvidiaDriverVersion")),
            )
        )
    return devices
