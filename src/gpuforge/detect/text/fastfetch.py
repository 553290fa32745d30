"""``fastfetch`` as JSON; a text of its own says ``GPU: name``."""

from __future__ import annotations

import re

from gpuforge.detect.notation import kept, name_of, size
from gpuforge.detect.pci_ids import vendor_named_in
from gpuforge.detect.seen import Seen

PROGRAM = "lines"
KINDS = {"Discrete": False, "Integrated": True}
_DEVICE = re.compile(
    r'"dedicated":\s*\{\s*"total":\s*(\d+|null)(?:(?!"dedicated")[^$]){0,600}?"name":\s*"([^"]{1,120})"'
    r'(?:(?:(?!"dedicated")[^$]){0,200}?"type":\s*"(\w+)",\s*"vendor":\s*"([^"]{1,60})")?'
)


def read(text: str, route: str, seen: Seen) -> None:
    """Add the GPUs of fastfetch's JSON in a text."""
    for total, name, kind, maker in _DEVICE.findall(text) if '"dedicated"' in text else ():
        vendor = vendor_named_in(maker) or vendor_named_in(name)
        if vendor:
            facts = kept(
                name=name_of(name), memory_total_bytes=size(total), integrated=KINDS.get(kind)
            )
            seen.add(vendor, "fastfetch", [facts], trust=2)
