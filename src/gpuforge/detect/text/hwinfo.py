"""Graphics cards of ``hwinfo``, and devices in dumps of their PCI configuration space."""

from __future__ import annotations

import re

from gpuforge.detect import pci_ids
from gpuforge.detect.notation import Facts, kept, name_of, pci_address, pci_id
from gpuforge.detect.seen import Seen
from gpuforge.facts import Driver, Vendor

PROGRAM = "hwinfo"
# hwinfo's placeholders for cards it has no name for.
_NAMELESS = re.compile(r"(VGA|Display|3D) (compatible )?controller$")


def read(text: str, route: str, seen: Seen) -> None:
    """Add the displays of one output."""
    blocks = re.split(r"^(?=[ \t]*\d+: PCI )|^(?=Description\s)", text, flags=re.M)
    for block in blocks:
        found = parse_block(block)
        if found:
            seen.add(found[0], route, [found[1]], trust=1)


def parse_block(block: str) -> tuple[Vendor, Facts] | None:
    """Return the GPU that a block describes, or None."""
    ids = [
        re.search(rf"^[ \t]*{key}:?\s+(?:pci )?0x([0-9a-f]{{4}})\b", block, re.I | re.M)
        for key in ("Vendor(?: ID)?", "(?:Device|Model ID)")
    ]
    shown = re.search(r"\b03\d\d (VGA|3D|Display)|Description\s+(VGA|3D|Display)", block)
    vendor = pci_ids.vendor_of(ids[0][1].lower()) if ids[0] else None
    if not shown or vendor is None:
        return None
    model = re.search(r'^[ \t]*Model: "([^"]+)"', block, re.M)
    name = pci_ids.split_maker(model[1])[1] if model else ""
    place = re.search(r"SysFS BusID: (\S+)", block)
    bus = re.search(
        r"bus \d+ \(0x(\w+)\), device \d+ \(0x(\w+)\), function \d+ \(0x0?(\w)\)", block
    )
    driver = re.search(r'^[ \t]*Driver: "([^"]+)"', block, re.M)
    address = place[1] if place else "{}:{}.{}".format(*bus.groups()) if bus else ""
    return vendor, kept(
        name=None if _NAMELESS.search(name) else name_of(name),
        pci_address=pci_address(address),
        pci_id=pci_id(ids[0][1], ids[1][1]) if ids[0] and ids[1] else None,
        driver=Driver(driver[1]) if driver else None,
    )
