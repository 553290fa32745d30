"""Makers of PCI devices, and which devices compute; pure functions over ``pci_ids.toml``."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from gpuforge import registry
from gpuforge.facts import Vendor


def _table(kind: str) -> Any:
    return registry.table(__file__, "pci_ids")[kind]


def vendor_of(maker: str) -> Vendor | None:
    """Return the vendor with the id `maker`, or None if it makes no GPUs for computing."""
    vendors: dict[str, Vendor] = {entry["id"]: entry["vendor"] for entry in _table("maker")}
    return vendors.get(maker)


def maker_of(vendor: Vendor) -> str:
    """Return the PCI id of a vendor."""
    return next(str(m["id"]) for m in _table("maker") if m["vendor"] == vendor)


def maker_of_driver(driver: str) -> str:
    """Return the PCI id of the maker whose GPUs a kernel driver supports, or ``""``."""
    return next((str(m["id"]) for m in _table("maker") if driver in m.get("drivers", ())), "")


def vendor_named_in(text: str) -> Vendor | None:
    """Return the vendor named in the name of a product, platform or library, or None."""
    for entry in _table("maker"):
        if re.search(entry["words"], text, re.I):
            vendor: Vendor = entry["vendor"]
            return vendor
    return None


def not_computing(maker: str, pci_id: str | None) -> str | None:
    """Return why a display cannot compute, ``virtual`` or ``bmc``, or None if it can."""
    kinds: dict[str, str] = _table("not_computing")
    return next((why for why, ids in kinds.items() if {maker, pci_id} & set(ids.split())), None)


def is_gpu(pci_id: str) -> bool:
    """Return whether a PCI id belongs to a GPU, not to its audio function or a bridge."""
    maker, _, device = pci_id.partition(":")
    kinds = ("gpus", "parts", "cards")
    listed = (e.get(kind, "") for e in _table("maker") if e["id"] == maker for kind in kinds)
    return any(within(numbers, int(device, 16)) for numbers in listed)


def integrated(pci_id: str | None) -> bool | None:
    """Return whether a GPU is part of the processor or chipset, from its PCI id."""
    maker, _, device = (pci_id or "").partition(":")
    for entry in _table("maker"):
        listed = entry.get("parts") or entry.get("cards")
        if entry["id"] == maker and listed:
            return within(listed, int(device, 16)) == ("parts" in entry)
    return None


def integrated_by_name(vendor: Vendor, name: str, family: str) -> bool | None:
    """Return whether a GPU is part of a processor, from its name and gfx name or capability."""
    if vendor == "apple":
        return True
    entry: dict[str, Any] = next(
        (entry for entry in _table("maker") if entry["vendor"] == vendor), {}
    )
    if family:
        for kind in ("part", "card"):
            if re.fullmatch(entry.get(f"{kind}_families", "-"), family):
                return kind == "part"
    # Names of one kind may contain a word of the other: "Iris Xe MAX", "Navi ... [Radeon 780M]".
    for kind in ("part", "card") if vendor != "intel" else ("card", "part"):
        if name and re.search(entry.get(f"{kind}_words", "$-"), name, re.I):
            return kind == "part"
    return None


def id_in_name(vendor: Vendor, name: str) -> str | None:
    """Return the PCI id contained in a name: ``Graphics [0xa7a0]``, ``Device 66a1``."""
    found = re.search(
        r"\[(?:0x)?(?:([0-9a-f]{4}):)?(?:0x)?([0-9a-f]{4})\]|(?:^| )Device (?:0x)?([0-9a-f]{4})$",
        name,
        re.I,
    )
    if found is None or (found[1] and vendor_of(found[1].lower()) != vendor):
        return None
    if not found[1] and "0x" not in name.lower() and not found[3]:
        return None  # a number in brackets may be a model number
    return f"{maker_of(vendor)}:{(found[2] or found[3]).lower()}"


def within(listed: str, number: int) -> bool:
    """Return whether a number is in one of the ranges in text such as ``01a0-01a0 2b00-2b7f``."""
    return any(low <= number <= high for low, high in ranges(listed))


@cache
def ranges(listed: str) -> tuple[tuple[int, int], ...]:
    """Return the first and the last number of each range."""
    pairs = (part.split("-") for part in listed.split())
    return tuple((int(low, 16), int(high, 16)) for low, high in pairs)


def class_of(words: str) -> int | None:
    """Return the class code that lspci prints as `words`."""
    found: int | None = _table("class").get(words.strip().lower())
    return found


def split_maker(name: str) -> tuple[str, str]:
    """Split a name into the id of the maker it starts with and the rest, or ``("", name)``."""
    for entry in _table("name"):
        match = re.match(entry["words"], name, re.I)
        if match:
            rest = re.sub(
                entry.get("also", ""), "", name[match.end() :], count=1, flags=re.I
            ).strip()
            return entry["id"], rest if entry.get("product") or not rest else name
    return "", name
