"""AMD GPUs.

1. KFD's topology in sysfs: compute nodes, their gfx target, memory and partitions
2. the amdgpu driver's sysfs: memory in use, product name
3. ``amd-smi``, ``rocm-smi`` and ``rocminfo``, in this order until one answers, and only where
   sysfs shows nothing
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuforge.detect import amd_tools, pci, pci_ids
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
from gpuforge.detect.source import names_in, text_at, under_wsl
from gpuforge.facts import Driver, Toolkit
from gpuforge.probe import Probe

NODES = "/sys/class/kfd/kfd/topology/nodes"
CARDS = "/sys/class/drm"
IDS = "/usr/share/libdrm/amdgpu.ids"
# Heap types of dedicated memory, CPU-visible or not (hsakmttypes.h, HSA_HEAPTYPE).
FRAME_BUFFERS = ("1", "2")

AMD = Teller("amd", "amdgpu", "rocm")
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
    # WSL has no kernel module, so only the runtime knows the version there.
    normal = ("kfd_not_loaded", "driver_not_loaded") if under_wsl(probe) else ()
    for tool, arguments, parse in tools:
        for output in seen.outputs("amd", probe, tool, arguments, ask=not complete):
            complete = AMD.take(seen, output, parse, *normal) or complete
    if any(sighting.facts for sighting in seen.sightings):
        seen.failures = [f for f in seen.failures if f.kind != "tool_failed"]
    return seen


def _rocm(probe: Probe) -> Toolkit | None:
    version = word(text_at(probe, "/opt/rocm/.info/version").partition("-")[0])
    return Toolkit("rocm", version) if version else None


def read_kfd(probe: Probe) -> list[Facts]:
    """Return KFD's compute nodes in order; a partitioned card has several."""
    found = []
    for number in sorted(int(name) for name in names_in(probe, NODES) if name.isdigit()):
        facts = parse_node(text_at(probe, f"{NODES}/{number}/properties"))
        if facts is None:
            continue
        total = _node_memory(probe, f"{NODES}/{number}/mem_banks")
        facts.update(kept(memory_total_bytes=total))
        found.append(facts)
    return found


def parse_node(text: str) -> Facts | None:
    """Return the GPU described by a node's ``properties``, or None for a CPU."""
    values = fields_of(text, " ")
    if not whole(values.get("simd_count")) or values.get("vendor_id") != "4098":
        return None
    place = whole(values.get("location_id")) or 0
    unique = whole(values.get("unique_id"))
    ident = pci_id("1002", f"{whole(values.get('device_id')) or 0:x}")
    shared = pci_ids.integrated(ident) or (whole(values.get("cpu_cores_count")) or 0) > 0
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
    total = 0
    for bank in names_in(probe, folder):
        values = fields_of(text_at(probe, f"{folder}/{bank}/properties"), " ")
        if values.get("heap_type") in FRAME_BUFFERS:
            total += size(values.get("size_in_bytes")) or 0
    return total or None


def read_cards(probe: Probe) -> list[Facts]:
    """Return what the amdgpu driver shows of each card."""
    found = []
    for name in names_in(probe, CARDS):
        folder = f"{CARDS}/{name}/device"
        function = pci.function_at(probe, folder) if re.fullmatch(r"card\d+", name) else None
        if function is None or function.vendor != "1002":
            continue
        total = size(text_at(probe, f"{folder}/mem_info_vram_total"))
        used = whole(text_at(probe, f"{folder}/mem_info_vram_used"))
        revision = text_at(probe, f"{folder}/revision")
        product = name_of(text_at(probe, f"{folder}/product_name"))
        facts = kept(
            pci_address=function.address or None,
            pci_id=function.pci_id,
            memory_total_bytes=total,
            memory_free_bytes=free_of(total, used),
            name=product or _marketing(probe, function.device, revision),
            driver=_driver(probe, function.driver),
        )
        found.append(facts)
    return found


def _driver(probe: Probe, name: str) -> Driver | None:
    """Return the driver; the one built into the kernel has no version of its own."""
    version = word(text_at(probe, f"/sys/module/{name}/version")) if name else None
    return (Driver(name, version) if version else Driver(name)) if name else None


def _marketing(probe: Probe, device: str, revision: str) -> str | None:
    """Return the product name from libdrm's table, by device id and revision."""
    wanted = [whole(device, 16), whole(revision, 16)]
    for line in () if None in wanted else lines_of(text_at(probe, IDS)):
        parts = line.split(",", 2)
        if len(parts) == 3 and [whole(part, 16) for part in parts[:2]] == wanted:
            return name_of(parts[2])
    return None
