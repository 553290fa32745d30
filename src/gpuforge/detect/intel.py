"""Intel GPUs.

1. sysfs, read by the PCI detector; i915 and xe show no memory size there
2. ``xpu-smi`` for cards, and ``sycl-ls`` where no other route knows the GPU or its memory
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpuforge.detect import pci, pci_ids
from gpuforge.detect.notation import (
    Facts,
    fields_of,
    json_of,
    kept,
    lines_of,
    name_of,
    pci_address,
    pci_id,
    records,
    rows_of,
    size,
    told,
    usage_of,
    word,
)
from gpuforge.detect.report import Report, Teller
from gpuforge.detect.seen import Seen
from gpuforge.facts import Driver, Toolkit, Vendor
from gpuforge.probe import Probe

INTEL = Teller("intel", "level_zero", "level_zero")


def detect(probe: Probe) -> Seen:
    """Return the GPUs that Intel's tools show; the PCI detector reads the rest."""
    seen = Seen()
    functions = [f for f in pci.read_sysfs(probe) if f.vendor == "8086" and f.kind in pci.DISPLAY]
    needed = not functions or any(pci_ids.integrated(f.pci_id) is False for f in functions)
    command = ["discovery", "-d", "0", "-j"]
    for output in seen.outputs("intel", probe, "xpu-smi", command, ask=needed):
        INTEL.take(seen, output, parse_xpu_smi)
    unseen = not (seen.sightings or functions)
    for output in seen.outputs("intel", probe, "sycl-ls", [], ask=unseen):
        INTEL.take(seen, output, parse_sycl_ls)
        for vendor, name in parse_sycl_ls_of_others(output.stdout):
            seen.add(vendor, output.source, [{"name": name}], trust=2)
    return seen


def _device(said: Mapping[str, object], runtimes: tuple[Toolkit, ...] = ()) -> Facts:
    product = name_of(said.get("name"))
    found = pci_id("8086", str(said.get("ident") or "").strip()[-6:])
    shared = pci_ids.integrated(found)
    if shared is None:  # the oldest releases of sycl-ls show only the platform
        shown = product or str(said.get("platform") or "")
        shared = pci_ids.integrated_by_name("intel", shown, "")
    driver = word(said.get("driver"))
    return kept(
        name=product,
        pci_address=pci_address(said.get("address")),
        pci_id=found,
        uuid=word(said.get("uuid")),
        memory_total_bytes=size(said.get("memory")),
        driver=Driver("level_zero", driver) if driver else None,
        runtimes=runtimes or None,
        integrated=shared,
    )


def parse_xpu_smi(text: str) -> Report:
    """Parse ``xpu-smi``: JSON, its old and new tables, or a CSV dump."""
    value = json_of(text, '"device_')
    if value is not None:
        return _report(records(value))
    if re.search(r"\|\s*Bus-Id", text):
        return Report(_of_table(text))
    if re.match(r"(\w[\w ]+,)*Device Name(,|\s*$)", text.partition("\n")[0]):
        heading, *rows = rows_of(text)
        return _report(dict(zip(heading, row, strict=False)) for row in rows)
    blocks = re.split(r"^\|?\s*\d+\s*(?:\||(?=\s{3}Device \w+:))", text, flags=re.M)[1:]
    bare = (re.sub(r"^[| ]+|[| ]+$", "", block, flags=re.M) for block in blocks)
    return _report(fields_of(block) for block in bare)


def _report(entries: Iterable[Mapping[str, object]]) -> Report:
    return Report([facts for entry in entries for facts in _of_fields(entry)])


def _of_fields(fields: Mapping[str, object]) -> list[Facts]:
    """Return the GPU that an entry describes, in a list that is empty for anything else."""
    said = told(fields, "xpu-smi")
    if said.get("name") is None and said.get("address") is None:
        return []
    if said.get("function") == "virtual" or not str(said.get("kind", "GPU")).endswith("GPU"):
        return []
    if not str(said.get("maker") or "8086").lower().endswith("8086"):
        said.pop("ident", None)
    version = word(said.get("driver"))
    return [_device(said, (Toolkit("level_zero", version),) if version else ())]


def _of_table(text: str) -> list[Facts]:
    """Return the GPUs of the table in the style of ``nvidia-smi`` that ``xpu-smi`` 2 prints."""
    devices: list[Facts] = []
    runtime = re.search(r"Level Zero:\s*([\d.]+)", text)
    for line in lines_of(text.partition("Processes:")[0]):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        head = re.match(r"(\d+)\s+(\S.*?)(?:\s+(On|Off|N/A))?$", cells[0])
        if head and len(cells) > 1 and pci_address(cells[1]):
            toolkits = (Toolkit("level_zero", runtime[1]),) if runtime else ()
            devices.append(_device({"name": head[2], "address": cells[1]}, toolkits))
        elif devices and (usage := usage_of(line)):
            devices[-1].update(usage)
        elif (
            devices
            and "memory_total_bytes" not in devices[-1]
            and re.fullmatch(r"[A-Za-z][\w() ]*", cells[0])
        ):
            devices[-1]["name"] = f"{devices[-1].get('name', '')} {cells[0]}".strip()
    return devices


_SYCL_LINE = re.compile(
    r"\[(?:ext_oneapi_)?(\w+):(?:gpu(?::\d+)?\]|\d+\]\s*GPU\s*:)(?:\[[^\]]*\])?\s*(.+)"
)


def parse_sycl_ls(text: str) -> Report:
    """Return the Intel GPUs of ``sycl-ls``, each once even if several backends list it."""
    lines: dict[str, list[tuple[str | None, str, str]]] = {}
    for line in lines_of(text):
        match = _SYCL_LINE.search(line)
        if match and match[1] in ("level_zero", "opencl") and re.search("intel", match[2], re.I):
            device = (*_split_device(match[2]), match[2].partition(",")[0])
            lines.setdefault(match[1], []).append(device)
    runtimes = tuple(
        Toolkit(backend, lines[backend][0][1])
        for backend in ("level_zero", "opencl")
        if backend in lines
    )
    main = max((lines.get(one, []) for one in ("level_zero", "opencl")), key=len)  # either is cut
    return Report([_device({"name": n, "driver": v, "platform": p}, runtimes) for n, v, p in main])


def parse_sycl_ls_of_others(text: str) -> list[tuple[Vendor, str]]:
    """Return vendor and name of the other vendors' GPUs that ``sycl-ls`` lists."""
    found: list[tuple[Vendor, str]] = []
    vendors: dict[str, Vendor] = {"cuda": "nvidia", "hip": "amd"}
    for line in lines_of(text):
        match = _SYCL_LINE.search(line)
        vendor = vendors.get(match[1]) if match else None
        name = _split_device(match[2])[0] if match else None
        if vendor and name:
            found.append((vendor, name))
    return found


def _split_device(text: str) -> tuple[str | None, str]:
    """Return the device's name and driver version from the part after the backend.

    The oldest releases name only the platform.
    """
    version = re.search(r"\[([^\]]*)\]\s*$", text)
    body = text[: version.start()] if version else text
    name = body.partition(", ")[2]
    name = re.sub(r"\s+((OpenCL )?\d+\.\d+(\.\d+)*(\s+NEO)?|gfx\w+)\s*$", "", name)
    name = re.sub(r"\s+OpenCL \d.*$", "", name).strip()
    return name_of(name), version[1] if version else ""
