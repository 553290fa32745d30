"""A GPU as described by the labels and sentences of a text, and its facts from these words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuforge.detect import pci_ids
from gpuforge.detect.notation import (
    Facts,
    as_makers_write,
    gfx,
    kept,
    pci_address,
    pci_address_of,
    pci_id,
    size,
    word,
)
from gpuforge.detect.seen import HEARSAY
from gpuforge.detect.text.drivers import KERNEL_DRIVER, OF_DRIVER, OF_GL, PACKAGE
from gpuforge.facts import Driver, Vendor

# Sizes of a 32-bit field that is saturated or has overflowed.
FULL_BYTES, CAPPED_FROM_BYTES = 2**32 - 2**28, 2**32 - 2**21
SHARED = re.compile(r"(?<!not )\b(igpu|apu|integrated|on-?board|built-?in|unified mem)\b", re.I)
OWN = re.compile(r"\b(dgpu|discrete|egpu|dedicated mem|discretegpu)\b", re.I)

# What stands before the version to which a driver was changed.
_REPLACED = re.compile(r"^.*\d\s+(?:then|-+>|→|=>)\s+(?=v?\d+\.\d)", re.I)


@dataclass
class ToldDevice:
    """A GPU as described so far."""

    vendor: Vendor | None
    line: int
    number: int | None = None
    count: int = 1
    facts: Facts = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    trust: int = HEARSAY


def finished(device: ToldDevice) -> Facts:
    """Convert a device's words to facts."""
    said, vendor = device.said, device.vendor or "nvidia"
    facts = dict(device.facts)
    name, size_in_name = _without_size(str(facts.pop("name", "")))
    ident = re.search(r"0x([0-9a-f]{3,4})\b", said.get("device", ""), re.I)
    found = pci_id(pci_ids.maker_of(vendor), ident[1]) if ident else None
    if pair := re.match(r"(?:PCI )?([0-9a-f]{4}):([0-9a-f]{4})\b", said.get("address", ""), re.I):
        found = pci_id(*pair.groups())
    found = said.get("ids") or found
    shared = _unified(said)
    words = _REPLACED.sub("", said.get("driver", ""))
    driver = OF_DRIVER.search(words) or OF_GL.search(said.get("gl", ""))
    driver = driver or re.match(r"(\d+\.\d+\.\d+)", said.get("rocm_driver", ""))
    if "mesa" not in words.lower() and vendor in PACKAGE:
        driver = driver or re.search(PACKAGE[vendor], words, re.I)
    version = driver[driver.lastindex or 1] if driver else ""
    bound = KERNEL_DRIVER.match((said.get("kernel") or words).strip("[`* "))
    capability = re.search(r"(?<![\d.])(\d{1,2}\.\d)(?![\d.])", said.get("capability", ""))
    arch = said.get("gfx", "").strip("\"', ") if vendor == "nvidia" else ""
    if capability is None and re.fullmatch(r"\d{1,2}\.\d", arch):
        capability = re.match(r"(.*)", arch)  # LXD's name for the capability
    if product := re.match(r"\W*([0-9a-f]{4})\W*$", said.get("product", ""), re.I):
        found = pci_id(pci_ids.maker_of(vendor), product[1])
    place = said.get("address", "")
    spot = re.search(r"bus (\d+), device (\d+), function (\d)", place)  # Task Manager
    beside = facts.pop("memory_total_bytes", None)
    measured = _memory(said)
    round_size = size_in_name or beside
    fits = round_size and measured and 0.85 * int(str(round_size)) < measured < int(str(round_size))
    total = measured if fits else round_size or measured
    by_name = pci_ids.integrated_by_name(vendor, as_makers_write(name), "") if name else None
    integrated = pci_ids.integrated(found)
    if integrated is None:  # a word may be about another GPU, a product's name is not
        integrated = by_name if shared is None and vendor == "intel" else shared
    if by_name is False and vendor != "intel":
        integrated = None if shared else shared
    return kept(
        name=word(name) if name else None,
        memory_total_bytes=None if integrated and vendor == "intel" else total,
        driver=Driver(vendor, version) if version else Driver(bound[1].lower()) if bound else None,
        pci_id=found,
        pci_address=pci_address(place) or (spot and pci_address_of(0, *spot.groups())),
        architecture=gfx(said.get("gfx", "")) if vendor == "amd" else None,
        compute_capability=capability[1] if capability and vendor == "nvidia" else None,
        uuid=uuid[0] if (uuid := re.match(r"GPU-[0-9a-f-]{36}", said.get("uuid", ""))) else None,
        integrated=integrated,
    )


def _without_size(name: str) -> tuple[str | None, int | None]:
    """Split a name from the memory size that follows it."""
    behind = re.search(r"(?<=\w)[ (]+(\d{1,3})\s?GB\)?$", name)
    return (name[: behind.start()], int(behind[1]) << 30) if behind else (name or None, None)


def _unified(said: dict[str, str]) -> bool | None:
    """Return whether a GPU shares the CPU's memory, or None if the words do not say."""
    if SHARED.search(kind := said.get("kind", "")):
        return True
    if OWN.search(kind):
        return False
    return {"yes": True, "no": False, "true": True}.get(said.get("unified", "").strip().lower())


def _memory(said: dict[str, str]) -> int | None:
    """Return a GPU's memory in bytes, or None if unknown or a saturated 32-bit field."""
    windows = re.search(r"(?<![\d.])\d+\.\d+\.\d+\.\d+", said.get("driver", "")) is not None
    text = (
        said.get("total") or said.get("total_here") or (said.get("window", "") if windows else "")
    )
    if "total" not in said and re.search(r"\bMi?B / \d|\bswap\b", text, re.I):
        return None  # main memory, as shown by neofetch
    shown = re.match(r"[~≈ ]*([\d.,]+)(?:\.00)?\s*([kmg]i?b?|bytes|go)?\b", text, re.I)
    unit = (shown[2] or "").lower().replace("go", "g").replace("bytes", "b") if shown else ""
    bare = shown is not None and shown[1].isdigit() and len(shown[1]) > 7  # bytes
    if shown and not unit and "total" in said and re.fullmatch(r"\d{3,6}", shown[1]):
        unit = "m" if 512 <= int(shown[1]) < 300_000 else ""
    total = (
        size(f"{shown[1]} {unit}", "M" if "." in shown[1] else "")
        if shown and (unit or windows or bare)
        else None
    )
    return (
        None
        if total
        and (FULL_BYTES if "window" in said else CAPPED_FROM_BYTES if bare else 2**32)
        <= total
        < 2**32
        else total
    )
