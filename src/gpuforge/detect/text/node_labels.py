"""Kubernetes nodes: labels of GPU feature discovery, resources, and HAMi's registration."""

from __future__ import annotations

import re

from gpuforge.detect.notation import Facts, gfx, kept, name_of, pci_id, size, whole
from gpuforge.detect.pci_ids import vendor_of
from gpuforge.detect.seen import Seen, Sighting
from gpuforge.facts import Driver, Toolkit

PROGRAM = "lines"
GPUS_AT_MOST = 64
_PAIR = re.compile(
    r"\b((?:nvidia|amd|beta\.amd|gpu\.intel)\.com/[\w.-]+)[\"']?\s*[=:]\s*[\"']?([^\s\"',]{1,80})"
)
# Labels contain no blanks, but some hyphens belong to the name.
_SPACES = re.compile(
    r"(?<=NVIDIA)-|(?<=GeForce)-|(?<=[RG]TX)-|(?<=Tesla)-|(?<=Quadro)-|(?<=TITAN)-"
)
_INTEL = re.compile(r"gpu\.intel\.com/device-id\.03\d\d-([0-9a-f]{4})\.(?:present|count)")
_HAMI = re.compile(
    r"(GPU-[0-9a-f-]{36}),\d+,(\d+)(?:,\d+,(?:NVIDIA-)?(NVIDIA [^,:]+|[A-Z][^,:]+))?"
)


def read(text: str, route: str, seen: Seen) -> None:
    """Add the GPUs that the node described in a text offers."""
    for maker in set(re.findall(r"pci-(?:03\d\d_)?(10de|1002)\w*\.present", text)):
        vendor = vendor_of(maker)
        if vendor:
            seen.sightings.append(Sighting(vendor, route, {}, 2, everywhere=True))
    if ".com/" not in text and "hami.io" not in text:
        return
    words = dict(reversed(_PAIR.findall(text)))
    listed = [
        kept(uuid=uuid, memory_total_bytes=size(total, "M") if name else None, name=name_of(name))
        for uuid, total, name in dict.fromkeys(_HAMI.findall(text))
    ]
    _add_nvidia(words, listed, route, seen)
    ident = words.get("amd.com/gpu.device-id", "")
    count = whole(words.get("amd.com/gpu")) or whole(
        words.get(f"beta.amd.com/gpu.device-id.{ident}")
    )
    facts = kept(
        name=name_of(words.get("amd.com/gpu.product-name", "").replace("_", " ")),
        pci_id=pci_id("1002", ident),
        memory_total_bytes=size(words.get("amd.com/gpu.vram")),
        architecture=gfx(words.get("amd.com/gpu.family", "")),
    )
    if count or facts:
        seen.add("amd", route, [facts] * min(count or 1, GPUS_AT_MOST), trust=2)
    intel = [whole(words.get(f"gpu.intel.com/{driver}")) for driver in ("i915", "xe")]
    ids = [pci_id("8086", one) for one in dict.fromkeys(_INTEL.findall(text))]
    offered = min(max(n or 0 for n in intel), GPUS_AT_MOST)
    seen.add("intel", route, [kept(pci_id=one) for one in ids] or [{}] * offered, trust=2)


def _add_nvidia(words: dict[str, str], listed: list[Facts], route: str, seen: Seen) -> None:
    def said(*names: str) -> str:
        return next((words[f"nvidia.com/{n}"] for n in names if f"nvidia.com/{n}" in words), "")

    parts = [
        said(f"cuda.driver.{part}", f"cuda.driver-version.{part}")
        for part in ("major", "minor", "rev")
    ]
    driver = said("cuda.driver-version.full") or ".".join(part for part in parts if part)
    runtime = [
        said(f"cuda.runtime.{part}", f"cuda.runtime-version.{part}") for part in ("major", "minor")
    ]
    capability = [said("gpu.compute.major"), said("gpu.compute.minor")]
    common: Facts = kept(
        name=name_of(_SPACES.sub(" ", said("gpu.product").replace("-SHARED", ""))),
        memory_total_bytes=size(said("gpu.memory"), "M") if said("gpu.memory") else None,
        compute_capability=".".join(capability) if all(capability) else None,
        architecture=said("gpu.family").lower() or None,
        driver=Driver("nvidia", driver) if driver else None,
        runtimes=(Toolkit("cuda", ".".join(runtime)),) if all(runtime) else None,
    )
    shares = whole(said("gpu.replicas")) or 1
    count = whole(said("gpu.count")) or (whole(said("gpu")) or 0) // shares
    devices = listed or [common] * min(count or bool(common), GPUS_AT_MOST)
    seen.add("nvidia", route, devices, trust=2)
