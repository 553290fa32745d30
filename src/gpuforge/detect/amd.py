"""AMD GPUs.

1. KFD's topology in sysfs: compute nodes, their gfx target, memory and partitions
2. the amdgpu driver's sysfs: memory in use, product name
3. ``amd-smi``, ``rocm-smi``, ``rocminfo``, one after the other until one answers, and only where
   sysfs did not
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuforge.detect import amd_tools, pci
from gpuforge.detect.notation import (
    Facts,
    fields_of,
    free_of,
    gfx_of_target,
    kept,
    lines_of,
    name_of,
    pci_address_of,
    pci_id,
    size,
    whole,
    word,
)
from gpuforge.detect.report import Report, Teller
from gpuforge.detect.seen import Seen
from gpuforge.facts import Driver, Toolkit
from gpuforge.probe import Probe

NODES = "/sys/class/kfd/kfd/topology/nodes"
CARDS = "/sys/class/drm"
IDS = "/usr/share/libdrm/amdgpu.ids"
# Memory of the GPU's own, seen by the CPU or not (hsakmttypes.h, HSA_HEAPTYPE).
FRAME_BUFFERS = ("1", "2")

AMD = Teller("amd", "amdgpu", "rocm", amd_tools.ERRORS)
Parser = Callable[[str], Report]


def detect(probe: Probe) -> Seen:
    """Return the GPUs that KFD, the amdgpu driver or AMD's tools show."""
    seen = Seen()
    runtime = _rocm(probe)
    if runtime:
        seen.toolkits.append(runtime)
    common = kept(runtimes=(runtime,) if runtime else None)
    nodes = [{**common, **facts} for facts in read_kfd(probe)]
    cards = [{**common, **facts} for facts in read_cards(probe)]
    seen.add("amd", "amdgpu sysfs", cards)
    seen.add("amd", "KFD topology", nodes)
    complete = bool(cards) and all("memory_total_bytes" in facts for facts in cards)
    tools: tuple[tuple[str, list[str], Parser], ...] = (
        ("amd-smi", ["static", "--json"], amd_tools.parse_amd_smi),
        ("rocm-smi", ["-a", "--json"], amd_tools.parse_rocm_smi),
        ("rocminfo", [], amd_tools.parse_rocminfo),
        ("amdgpu_top", ["-J", "-d"], amd_tools.parse_amdgpu_top),
    )
    for tool, arguments, parse in tools:
        for output in probe.outputs(tool, *([] if complete else [arguments])):
            complete = AMD.take(seen, output, parse) or complete
    if any(sighting.facts for sighting in seen.sightings):
        seen.failures = [f for f in seen.failures if f.kind != "tool_failed"]
    return seen


def _rocm(probe: Probe) -> Toolkit | None:
    text = probe.read_text("/opt/rocm/.info/version")
    version = word(text.partition("-")[0]) if isinstance(text, str) else None
    return Toolkit("rocm", version) if version else None


def read_kfd(probe: Probe) -> list[Facts]:
    """Return KFD's compute nodes in their order; a partitioned card is several."""
    names = probe.list_dir(NODES)
    found = []
    numbers = (
        sorted(int(name) for name in names if name.isdigit()) if isinstance(names, tuple) else []
    )
    for number in numbers:
        text = probe.read_text(f"{NODES}/{number}/properties")
        facts = parse_node(text) if isinstance(text, str) else None
        if facts is None:
            continue
        if not facts.get("integrated"):
            total = _node_memory(probe, f"{NODES}/{number}/mem_banks")
            facts.update(kept(memory_total_bytes=total))
        found.append(facts)
    return found


def parse_node(text: str) -> Facts | None:
    """Return the GPU that a node's ``properties`` describe, or None for a CPU."""
    values = fields_of(text, " ")
    if not whole(values.get("simd_count")) or values.get("vendor_id") != "4098":
        return None
    place = whole(values.get("location_id")) or 0
    unique = whole(values.get("unique_id"))
    ident = pci_id("1002", f"{whole(values.get('device_id')) or 0:x}")
    shared = pci.integrated(ident) or (whole(values.get("cpu_cores_count")) or 0) > 0
    target = whole(values.get("gfx_target_version"))
    return kept(
        pci_address=pci_address_of(
            values.get("domain", "0"), place >> 8 & 255, place >> 3 & 31, place & 7
        ),
        pci_id=ident,
        architecture=gfx_of_target(target),
        integrated=shared,
        uuid=f"GPU-{unique:016x}" if unique else None,
    )


def _node_memory(probe: Probe, folder: str) -> int | None:
    banks = probe.list_dir(folder)
    total = 0
    for bank in banks if isinstance(banks, tuple) else ():
        text = probe.read_text(f"{folder}/{bank}/properties")
        values = fields_of(text, " ") if isinstance(text, str) else {}
        if values.get("heap_type") in FRAME_BUFFERS:
            total += size(values.get("size_in_bytes")) or 0
    return total or None


def read_cards(probe: Probe) -> list[Facts]:
    """Return what the amdgpu driver shows of each card."""
    names = probe.list_dir(CARDS)
    found = []
    for name in names if isinstance(names, tuple) else ():
        folder = f"{CARDS}/{name}/device"
        function = pci.function_at(probe, folder) if re.fullmatch(r"card\d+", name) else None
        if function is None or function.vendor != "1002":
            continue
        total = size(_line(probe, f"{folder}/mem_info_vram_total"))
        used = whole(_line(probe, f"{folder}/mem_info_vram_used"))
        revision = _line(probe, f"{folder}/revision")
        product = name_of(_line(probe, f"{folder}/product_name"))
        facts = kept(
            pci_address=function.address,
            pci_id=function.pci_id,
            memory_total_bytes=total,
            memory_free_bytes=free_of(total, used),
            name=product or _marketing(probe, function.device, revision),
            driver=_driver(probe, function.driver),
        )
        found.append(facts)
    return found


def _driver(probe: Probe, name: str) -> Driver | None:
    """Return the driver; the one inside the kernel has no version of its own."""
    version = word(_line(probe, f"/sys/module/{name}/version")) if name else None
    return (Driver(name, version) if version else Driver(name)) if name else None


def _line(probe: Probe, path: str) -> str:
    text = probe.read_text(path)
    return text.strip(" \r\n\0") if isinstance(text, str) else ""


def _marketing(probe: Probe, device: str, revision: str) -> str | None:
    """Return the product name from libdrm's table, by device id and revision."""
    text = probe.read_text(IDS)
    number, step = whole(device, 16), whole(revision, 16)
    if not isinstance(text, str) or number is None or step is None:
        return None
    for line in lines_of(text):
        parts = line.split(",", 2)
        if len(parts) == 3 and whole(parts[0], 16) == number and whole(parts[1], 16) == step:
            return name_of(parts[2])
    return None
