"""ghw's JSON of graphics cards, as providers of clusters paste it."""

from __future__ import annotations

import re

from gpuforge.detect.notation import kept, name_of, pci_address, pci_id
from gpuforge.detect.pci_ids import vendor_of
from gpuforge.detect.seen import Seen
from gpuforge.facts import Driver

PROGRAM = "lines"
_CARD = re.compile(
    r'"driver":\s*"(\w*)",\s*"address":\s*"([\da-f:.]+)",\s*'
    r'"vendor":\s*\{\s*"id":\s*"(\w{4})"[^{}]*\},\s*'
    r'"product":\s*\{\s*"id":\s*"(\w{4})",\s*"name":\s*"([^"]*)"[^{}]*\}'
    r'(?:(?!"driver")[^$]){0,400}?"class":\s*\{\s*"id":\s*"03"'
)


def read(text: str, route: str, seen: Seen) -> None:
    """Add the GPUs of ghw's JSON in a text."""
    for module, address, maker, device, name in _CARD.findall(text) if '"product"' in text else ():
        vendor = vendor_of(maker)
        if vendor:
            facts = kept(
                name=name_of(name) if name != "unknown" else None,
                pci_address=pci_address(address),
                pci_id=pci_id(maker, device),
                driver=Driver(module) if module else None,
            )
            seen.add(vendor, "ghw", [facts], trust=3)
