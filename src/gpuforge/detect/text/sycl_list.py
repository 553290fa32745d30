"""llama.cpp's list of SYCL devices, with a GPU listed once for each runtime that supports it."""

from __future__ import annotations

import re
from collections import Counter

from gpuforge.detect.notation import kept, name_of, size
from gpuforge.detect.pci_ids import vendor_named_in
from gpuforge.detect.seen import Seen

PROGRAM = "lines"
_DEVICE = re.compile(
    r"^\s*Device \d+: ([^,\n]{3,80}?)\s*,\s*compute capability ([\d.]+),\s*\n?"
    r"[^\n]{0,160}?global mem size (\d+)",
    re.M,
)
_NO_GPU = re.compile(r"\bCPU\b|Processor|Xeon|Core\(TM\)|Ryzen|Emulation", re.I)


def read(text: str, route: str, seen: Seen) -> None:
    """Add the GPUs of a list, each once even if Level Zero and OpenCL both show it."""
    rows = _DEVICE.findall(text) if "SYCL devices" in text else []
    served = Counter((name, version) for name, version, _ in rows)
    for name in dict.fromkeys(name for name, *_ in rows):
        vendor = vendor_named_in(name)
        if vendor is None or _NO_GPU.search(name):
            continue
        count = max(n for (other, _), n in served.items() if other == name)
        total = next(size(total) for other, _, total in rows if other == name)
        facts = kept(name=name_of(name), memory_total_bytes=total)
        seen.add(vendor, "log of SYCL", [dict(facts) for _ in range(count)], trust=2)
