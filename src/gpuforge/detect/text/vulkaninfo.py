"""``vulkaninfo``, full and ``--summary``, which also lists software devices and duplicates."""

from __future__ import annotations

import re

from gpuforge.detect import pci_ids
from gpuforge.detect.notation import (
    Facts,
    fields_of,
    kept,
    name_of,
    pci_id,
    product_of,
    size,
    whole,
)
from gpuforge.detect.seen import Seen
from gpuforge.facts import Driver, Toolkit, Vendor

PROGRAM = "vulkaninfo"
KINDS = {"DISCRETE_GPU": False, "INTEGRATED_GPU": True}
SOFTWARE = re.compile(r"llvmpipe|lavapipe|swiftshader|Direct3D12|Dozen", re.I)


def read(text: str, route: str, seen: Seen) -> None:
    """Add the GPUs of one output, each once even if several drivers show it."""
    found: list[tuple[Vendor, Facts]] = []
    for vendor, facts in parse_vulkaninfo(text):
        if not any(_same(facts, other) for maker, other in found if maker == vendor):
            found.append((vendor, facts))
    for vendor, facts in found:
        seen.add(vendor, route, [{k: v for k, v in facts.items() if k != "place"}], trust=2)
    if "PROPRIETARY_WINDOWS" in text or "VK_KHR_win32_surface" in text:
        seen.host.setdefault("platform", "windows")


def _same(facts: Facts, other: Facts) -> bool:
    """Return whether two drivers show one GPU; equal models differ in the UUID's address part."""
    if "place" in facts and "place" in other:
        return bool(facts["place"] == other["place"])
    ids = {each["pci_id"] for each in (facts, other) if "pci_id" in each}
    names = [product_of(str(each.get("name", ""))) for each in (facts, other)]
    return len(ids) == 1 if ids else bool(names[0] & names[1])


def parse_vulkaninfo(text: str) -> list[tuple[Vendor, Facts]]:
    """Return vendor and facts of each device that is not a software renderer."""
    found: list[tuple[Vendor, Facts]] = []
    blocks = re.split(r"^[ \t]*GPU\d+:", text, flags=re.M)
    if len(blocks) == 1:
        blocks = re.split(
            r"^(?=[ \t]*(?:apiVersion|vendorID|deviceName)\s+=)", text, maxsplit=1, flags=re.M
        )
    for block in blocks[1:]:
        device = _device({key.strip(): v for key, v in fields_of(block, "=").items()}, block)
        found += [device] if device else []
    if not found:
        for name in re.findall(r"GPU id\s*[:=]\s*\d+ \(([^\n]{1,200})\)", text):
            vendor = pci_ids.vendor_named_in(name)
            if vendor and not SOFTWARE.search(name):
                found.append((vendor, kept(name=name_of(name))))
    return found


def without_driver(name: str) -> str:
    """Return a name without Mesa's driver name in brackets after it."""
    return re.sub(r"\s*\((RADV|radeonsi|NVK|AMD open)[^)]*\)", "", name)


def _device(fields: dict[str, str], block: str) -> tuple[Vendor, Facts] | None:
    name, kind = fields.get("deviceName", ""), fields.get("deviceType", "")
    numbers = [whole(fields.get(key, "").split(" ")[0], 0) for key in ("vendorID", "deviceID")]
    maker = f"{numbers[0]:04x}" if numbers[0] else ""
    vendor = pci_ids.vendor_of(maker) or pci_ids.vendor_named_in(name)
    if vendor is None or "CPU" in kind or SOFTWARE.search(name):
        return None
    shared = next((v for word, v in KINDS.items() if word in kind), None)
    heap = re.search(
        r"memoryHeaps\[\d+\]:\s*\n\s*size\s*=\s*(\d+)[^\n]*\n(?:[^\n]*\n){1,4}?[^\n]*DEVICE_LOCAL",
        block,
    )
    version = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", fields.get("driverInfo", ""))
    nvidia = vendor == "nvidia" and version
    unique = fields.get("deviceUUID", "")
    facts = kept(
        name=name_of(without_driver(name)),
        pci_id=pci_id(maker, f"{numbers[1]:x}") if maker and numbers[1] else None,
        integrated=shared,
        memory_total_bytes=size(heap[1]) if heap and shared is False else None,
        driver=Driver("nvidia", version[1]) if nvidia and version else None,
        runtimes=(Toolkit("vulkan"),),
        place=unique or None,
    )
    return vendor, facts
