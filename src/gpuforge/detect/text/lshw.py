"""``lshw``: text, JSON (invalid in older releases), XML, ``-short`` and ``-businfo``.

It also shows cards that no driver claimed and the second GPU of a laptop.
"""

from __future__ import annotations

import re

from gpuforge.detect import pci_ids
from gpuforge.detect.notation import Facts, fields_of, kept, lines_of, name_of, pci_address, pci_id
from gpuforge.detect.seen import Seen
from gpuforge.facts import Driver, Failed

PROGRAM = "lshw"
UNCLAIMED = Failed("no kernel driver claims it", kind="no_kernel_driver")


def read(text: str, route: str, seen: Seen) -> None:
    """Add the displays of one output."""
    for fields in parse_lshw(text):
        product, maker = fields.get("product", ""), fields.get("vendor", "")
        ids = [re.search(r"\[(?:\w{4}:)?(\w{4})\]\s*$", words) for words in (maker, product)]
        vendor = pci_ids.vendor_named_in(maker) or pci_ids.vendor_named_in(product)
        address = pci_address(fields.get("businfo", ""))
        _, product = pci_ids.split_maker(re.sub(r"\s*\[\w{4}:\w{4}\]\s*$", "", product))
        name = name_of(product)
        if vendor is None:
            virtual = pci_ids.split_maker(maker)[0]
            why = pci_ids.not_computing(virtual, None) or "display of another vendor"
            seen.pass_over(why, name, address, None)
            continue
        driver = fields.get("driver", "")
        found: Facts = kept(
            name=name,
            pci_address=address,
            pci_id=pci_id(pci_ids.maker_of(vendor), ids[1][1]) if ids[1] else None,
            driver=Driver(driver) if driver else UNCLAIMED if "unclaimed" in fields else None,
        )
        seen.add(vendor, route, [found], trust=1)


def parse_lshw(text: str) -> list[dict[str, str]]:
    """Return the fields of each display: product, vendor, businfo, driver, unclaimed."""
    if re.search(r'"class"\s*:\s*"display"|<node id="display', text):
        return _of_marks(text)
    found = []
    for block in re.split(r"^(?=[ \t]*\*-)", text, flags=re.M):
        head = re.match(r"\s*\*-(\w+)(?::\d+)?(.*)", block)
        fields = fields_of(block.partition("\n")[2])
        kind = fields.get("description", "")
        if head and (head[1] in ("display", "graphics") or _is_display(kind)):
            if head[1] == "graphics" and "bus info" not in fields:
                continue  # a frame buffer, not a card
            fields["businfo"] = fields.get("bus info", "")
            driver = re.search(r"\bdriver=(\S+)", fields.get("configuration", ""))
            found.append(_entry(fields, driver[1] if driver else "", "UNCLAIMED" in head[2]))
    return found or _of_table(text)


def _is_display(kind: str) -> bool:
    return kind.lower() in ("vga compatible controller", "3d controller", "display controller")


def _entry(fields: dict[str, str], driver: str, unclaimed: bool) -> dict[str, str]:
    entry = {key: fields[key] for key in ("product", "vendor", "businfo") if key in fields}
    return entry | ({"driver": driver} if driver else {"unclaimed": "yes"} if unclaimed else {})


def _of_marks(text: str) -> list[dict[str, str]]:
    """Return the displays of JSON or XML, which may be truncated or lack commas."""
    found = []
    for block in re.split(r'(?="id"\s*:\s*")|(?=<node )', text):
        head = re.match(r'"id"\s*:\s*"(\w+)|<node id="(\w+)', block)
        if head and (head[1] or head[2]) == "display":
            pairs = re.findall(r'"(\w+)"\s*:\s*"?([^"\n]{0,300}?)"?\s*[,}\n]', block)
            marks = re.findall(r"<(\w+)>([^<]{0,300})</", block)
            driver = re.search(r'"driver"\s*:\s*"([^"]+)|id="driver" value="([^"]+)', block)
            unclaimed = re.search(r'claimed"?\s*[:=]\s*"?(?!true)', block) is not None
            name = (driver[1] or driver[2]) if driver else ""
            found.append(_entry(dict([*reversed(marks), *reversed(pairs)]), name, unclaimed))
    return found


def _of_table(text: str) -> list[dict[str, str]]:
    """Return the displays of ``-short`` and ``-businfo``."""
    found = []
    for line in lines_of(text):
        row = re.match(r"\s*(/0\S*|pci@\S+)\s+(?:\S+\s+)?display\s+(.+)", line)
        if row:
            found.append({"businfo": row[1], "product": row[2], "vendor": row[2]})
    return found
