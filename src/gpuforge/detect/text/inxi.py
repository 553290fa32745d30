"""``inxi``: its Graphics, CPU and System sections, wrapped at the terminal's width."""

from __future__ import annotations

import re

from gpuforge.detect import pci_ids
from gpuforge.detect.notation import kept, name_of, pci_address, pci_id, word
from gpuforge.detect.seen import Seen
from gpuforge.facts import Driver, Failed

PROGRAM = "inxi"
# The next key on a line, which ends the value before it.
_NEXT = r"(?=\s+(?:[a-zA-Z][\w-]*(?: ID| bits)?:|$)|$)"
_PARTS = re.compile(
    r"^[ \t]*(System|Machine|Battery|Memory|CPU|Graphics|Audio|Network|Bluetooth|RAID|Drives|"
    r"Partition|Swap|Sensors|Info|Repos|Processes):",
    re.M,
)

# What the display server loaded, before inxi showed each card's kernel driver.
_OF_DISPLAY = re.compile(r"\bDisplay Server: .*?\bdrivers?: ([\w,]+)")


def read(text: str, route: str, seen: Seen) -> None:
    """Add the GPUs and the host that one output shows."""
    for part, body in parse_inxi(text):
        if part == "Graphics":
            _add_graphics(body, route, seen)
        elif part == "System" and "FreeBSD" in body:
            seen.host["platform"] = "freebsd"
        elif part == "CPU":
            body = re.sub(r"^.*?(?=\bmodel: )", "", body)
            words = r"(?:model: |(?:^|Info: )\s*(?:\w+|\d+x? ?\d*)[ -]core (?:model: )?)(.+?)"
            model = re.search(rf"{words}(?=\s+[\[(]|\s+\w+: |$)", body, re.I)
            if model and (name := word(model[1])):
                seen.host["cpu_model"] = name


def parse_inxi(text: str) -> list[tuple[str, str]]:
    """Return the name and the unwrapped text of each section."""
    pieces = _PARTS.split(text)
    bodies = (" ".join(body.split()) for body in pieces[2::2])
    parts = list(zip(pieces[1::2], bodies, strict=False))
    for place, (name, body) in enumerate(parts[1:], 1):
        if name == "Info" and parts[place - 1] == ("CPU", ""):
            parts[place] = ("CPU", body)  # the section's own line, below its heading
    return parts


def _add_graphics(body: str, route: str, seen: Seen) -> None:
    shown = _OF_DISPLAY.search(body)
    displays = {
        pci_ids.vendor_of(pci_ids.maker_of_driver(name)): Driver(name)
        for name in (shown[1].split(",") if shown else ())
    }
    for card in re.split(r"(?=\b(?:Device|Card)-\d+:)|(?=^Card:)", body)[1:]:
        card = re.split(r"\s(?:Display|OpenGL|API|Monitor-\d|EGL|Vulkan|Info):?\s", card)[0]
        named = re.match(rf"(?:Device|Card)(?:-\d+)?: (.+?){_NEXT}", card)
        maker, product = pci_ids.split_maker(re.sub(r" +AMD/ATI", "", named[1]) if named else "")
        vendor = pci_ids.vendor_of(maker) or pci_ids.vendor_named_in(named[1] if named else "")
        ids = re.search(r"chip[- ]ID: ([0-9a-f]{4}):([0-9a-f]{4})", card)
        place = re.search(r"bus[- ]ID: (\S+)", card)
        if vendor is None:
            seen.pass_over("no display GPU", name_of(product))
            continue
        driver = re.search(r"driver: (\S+)(?: v: ([\d.]+))?", card)
        bound: Driver | Failed | None = None
        if driver and driver[1].rstrip(",") in ("N/A", "none"):
            bound = Failed("inxi shows no driver for it", kind="no_kernel_driver")
        elif driver and driver[1] != "vgapci":
            bound = Driver(driver[1], driver[2]) if driver[2] else Driver(driver[1])
        elif driver is None:
            bound = displays.get(vendor)
        facts = kept(
            name=name_of(product),
            pci_address=pci_address(place[1]) if place else None,
            pci_id=pci_id(ids[1], ids[2]) if ids else pci_ids.id_in_name(vendor, product),
            driver=bound,
        )
        seen.add(vendor, route, [facts], trust=1)
