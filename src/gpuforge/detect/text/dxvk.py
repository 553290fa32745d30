"""Log of DXVK, which runs games on Wine: each device with its memory heaps."""

from __future__ import annotations

import re

from gpuforge.detect.notation import kept, name_of, size
from gpuforge.detect.pci_ids import vendor_named_in
from gpuforge.detect.seen import Seen
from gpuforge.detect.text.vulkaninfo import SOFTWARE, without_driver

PROGRAM = "lines"
_DEVICE = re.compile(r"^(?:info:)?  ?(\S[^:\n]{3,100}):\n(?:info:)?\s+Driver\s*: ", re.M)
_OWN = re.compile(r"Size: (\d+ MiB)\s*\n(?:info:)?\s+Flags: 0x[1359bdf]\b")


def read(text: str, route: str, seen: Seen) -> None:
    """Add the GPUs of a log."""
    pieces = _DEVICE.split(text) if "Memory Heap[" in text else []
    for name, block in zip(pieces[1::2], pieces[2::2], strict=True):
        vendor = vendor_named_in(name)
        if vendor and not SOFTWARE.search(name):
            total = _OWN.search(block)
            facts = kept(
                name=name_of(without_driver(name)),
                memory_total_bytes=size(total[1]) if total else None,
            )
            seen.add(vendor, "log of DXVK", [facts], trust=2)
