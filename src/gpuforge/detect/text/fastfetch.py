"""``fastfetch`` as JSON; a text of its own says ``GPU: name``."""

from __future__ import annotations

import re

from gpuforge.detect.notation import kept, name_of, size
from gpuforge.detect.pci_ids import vendor_named_in
from gpuforge.detect.seen import Seen
from gpuforge.detect.text.drivers import KERNEL_DRIVER, OF_DRIVER
from gpuforge.facts import Driver

PROGRAM = "lines"
KINDS = {"Discrete": False, "Integrated": True}
_DEVICE = re.compile(
    r'"dedicated":\s*\{\s*"total":\s*(\d+|null)(?:(?!"dedicated")[^$]){0,600}?'
    r'(?:"driver":\s*"([^"]{0,80})",\s*)?"name":\s*"([^"]{1,120})"'
    r'(?:(?:(?!"dedicated")[^$]){0,200}?"type":\s*"(\w+)",\s*"vendor":\s*"([^"]{1,60})")?'
)


def read(text: str, route: str, seen: Seen) -> None:
    """Add the GPUs of fastfetch's JSON in a text."""
    for total, driver, name, kind, maker in _DEVICE.findall(text) if '"dedicated"' in text else ():
        vendor = vendor_named_in(maker) or vendor_named_in(name)
        if vendor:
            bound, version = KERNEL_DRIVER.match(driver), OF_DRIVER.search(driver)
            facts = kept(
                name=name_of(name),
                memory_total_bytes=size(total),
                integrated=KINDS.get(kind),
                driver=Driver(vendor, version[1])
                if version
                else Driver(bound[1])
                if bound
                else None,
            )
            seen.add(vendor, "fastfetch", [facts], trust=2)
