"""Parsers for PCI functions as printed by sysfs, lspci, udevadm and pciconf."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuforge.detect import pci_ids
from gpuforge.detect.notation import (
    fields_of,
    lines_of,
    name_of,
    pci_address,
    pci_address_of,
    pci_id,
    whole,
)

# A card's device folder that is a copy, not a link to its place on the bus.
PLACELESS = "device"


@dataclass
class Function:
    """One PCI function.

    Attributes
    ----------
    address : empty if unknown, as for a copied folder
    vendor, device : four hex digits, empty if unknown
    kind : the 16-bit class code, or None
    driver : the bound kernel driver, empty if there is none
    driver_shown : whether this source would have shown a driver
    """

    address: str
    vendor: str
    device: str
    kind: int | None
    name: str = ""
    driver: str = ""
    driver_shown: bool = False

    @property
    def pci_id(self) -> str | None:
        """``10de:2204``, or None if the ids are unknown."""
        return pci_id(self.vendor, self.device)

    @staticmethod
    def of_files(slot: str, vendor: str, device: str, kind: str, modalias: str) -> Function | None:
        """Return a function from the contents of its id files."""
        address = pci_address(slot)
        alias = _MODALIAS.match(modalias)
        numbers = [whole(text, 16) for text in (vendor, device, kind)]
        if alias:
            parts = (alias[1], alias[2], alias[3] + alias[4] + "00")
            pairs = zip(numbers, parts, strict=True)
            numbers = [int(part, 16) if number is None else number for number, part in pairs]
        maker, product, code = numbers
        if maker is None or (address is None and slot != PLACELESS):
            return None
        ident = "" if product is None else f"{product:04x}"
        return Function(address or "", f"{maker:04x}", ident, None if code is None else code >> 8)


_MODALIAS = re.compile(
    r"pci:v0000([0-9A-F]{4})d0000([0-9A-F]{4})sv\w{8}sd\w{8}bc([0-9A-F]{2})sc([0-9A-F]{2})", re.I
)
_LINE = re.compile(r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s+(.+)", re.I)
_NUMBERS = re.compile(r"(?:Class )?([0-9a-f]{4}): (?:Device )?([0-9a-f]{4}):([0-9a-f]{4})\b", re.I)
_WORDS = re.compile(r"([^:\[\"]+?)(?:\s*\[(?:Class )?([0-9a-f]{4})\])?:\s+(.+)", re.I)
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]\s*$", re.I)
_IDS_INSIDE = re.compile(r"\[[0-9a-f]{4}:[0-9a-f]{4}\]", re.I)
_TAIL = re.compile(r"(\s*\((rev|prog-if) [^)]*\))+\s*$")
_QUOTED = re.compile(r'"([^"]*)"')
_ID_AT_END = re.compile(r"\s*\[([0-9a-f]{4})\]$", re.I)
_DUMP = re.compile(r"\s*00:((?: [0-9a-f]{2}){12,16})\s*$", re.I)
_CUT = re.compile(r"(\[?(\.{3,}|\u2026)\]?|<snip>|-+|.*\btruncated\b.*|.*\.{3})", re.I)
_NAMELESS = re.compile(r"Device ([0-9a-f]{4})$", re.I)


def parse_uevent(text: str, slot: str = "") -> Function | None:
    """Return the function that a PCI device's ``uevent`` describes, or None if it does not."""
    return _of_uevent(fields_of(text.replace("\0", ""), "="), slot)


def _of_uevent(fields: dict[str, str], slot: str = "") -> Function | None:
    address = pci_address(fields.get("PCI_SLOT_NAME", slot))
    vendor, _, device = fields.get("PCI_ID", "").lower().partition(":")
    kind = whole(fields.get("PCI_CLASS", ""), 16)
    if address is None or pci_id(vendor, device) is None or kind is None:
        return None
    return Function(address, vendor.zfill(4), device.zfill(4), kind >> 8, "",
                    fields.get("DRIVER", ""), True)  # fmt: skip


def parse_lspci(text: str) -> list[Function]:
    """Parse any format of ``lspci``: plain or with ``-n -nn -v -k -mm -vmm -D``."""
    if re.search(r"^Slot:\s", text, re.M):
        return [f for block in re.split(r"\n\s*\n", text) if (f := _of_slot_block(block))]
    blocks: list[tuple[Function, list[str]]] = []
    for line in lines_of(text):
        match = _LINE.match(line)
        found = _of_line(match[1], match[2]) if match else None
        if found is not None:
            blocks.append((found, []))
        elif blocks and not match:
            blocks[-1][1].append(line)
    shows_drivers = "driver in use:" in text
    picked = re.search(r"^--$", text, re.M) is not None  # grep's separator between matches
    for function, lines in blocks:
        _add_details(function, lines)
        last = function is blocks[-1][0]
        function.driver_shown = shows_drivers and not _is_cut(
            lines, last and text[-1:] != "\n", picked
        )
    return [function for function, _ in blocks]


def _add_details(function: Function, lines: list[str]) -> None:
    """Add what follows a function's first line: its driver, and the ids in its hex dump."""
    for line in lines:
        if "driver in use:" in line:
            function.driver = line.partition(":")[2].strip()
        elif dump := _DUMP.match(line):
            shown = of_config(function.address, bytes.fromhex(dump[1]))
            if shown and not function.device:
                function.vendor, function.device = shown.vendor, shown.device
                function.kind = function.kind or shown.kind


def _is_cut(lines: list[str], unfinished: bool, picked: bool) -> bool:
    """Return whether the lines that name a function's driver may be missing.

    ``-v`` and ``-k`` print the driver last, so truncated or grepped output may lack it.
    """
    told = [line.strip() for line in lines if line.strip()]
    if any("Kernel modules:" in line for line in told):
        return False
    verbose = any(line.startswith(("Flags:", "Control:", "Memory at", "Region 0")) for line in told)
    ended = any(line.startswith("Capabilities:") for line in told)
    marks = any(_CUT.fullmatch(line) for line in told)
    return picked or marks or not told or (verbose and (unfinished or not ended))


def of_config(slot: str, content: bytes) -> Function | None:
    """Return a function from its configuration space, of which the first 12 bytes are enough."""
    address = pci_address(slot)
    vendor, device = (int.from_bytes(content[n : n + 2], "little") for n in (0, 2))
    if address is None or len(content) < 12 or vendor in (0, 0xFFFF):
        return None
    return Function(address, f"{vendor:04x}", f"{device:04x}", content[11] << 8 | content[10])


def _of_line(slot: str, rest: str) -> Function | None:
    address = pci_address(slot)
    if address is None:
        return None
    numbers = _NUMBERS.match(rest)
    if numbers:
        return Function(address, numbers[2].lower(), numbers[3].lower(), int(numbers[1], 16))
    quoted = _QUOTED.findall(rest)
    if rest.startswith('"') and len(quoted) >= 3:
        return _of_parts(address, *quoted[:3])
    words = _WORDS.match(rest)
    if words is None:
        return None
    kind = int(words[2], 16) if words[2] else pci_ids.class_of(words[1])
    name = _TAIL.sub("", words[3]).strip()
    last = _IDS.search(name)
    vendor, device = last.groups() if last else ("", "")
    # The id occurs once, at the end: text with another id inside is not a name.
    name = _IDS.sub("", name).rstrip()
    named, name = pci_ids.split_maker("" if _IDS_INSIDE.search(name) else name)
    nameless = _NAMELESS.search(name)
    if nameless or name == "Device":
        device, name = device or (nameless[1] if nameless else ""), ""
    return Function(address, (vendor or named).lower(), device.lower(), kind, name_of(name) or "")


def _of_parts(address: str, kind: str, vendor: str, device: str) -> Function:
    """Return a function from its three texts, each with or without its number in brackets."""
    found = [_ID_AT_END.search(text) for text in (kind, vendor, device)]
    codes = [match[1].lower() if match else "" for match in found]
    kind, vendor, device = (_ID_AT_END.sub("", text) for text in (kind, vendor, device))
    code = int(codes[0], 16) if codes[0] else pci_ids.class_of(kind)
    nameless = _NAMELESS.search(device)
    ident = codes[2] or (nameless[1].lower() if nameless else "")
    name = "" if nameless else name_of(device) or ""
    return Function(address, codes[1] or pci_ids.split_maker(vendor)[0], ident, code, name)


def _of_slot_block(block: str) -> Function | None:
    """Return a function from a block of ``lspci -vmm``."""
    fields = fields_of(block)
    address = pci_address(fields.get("Slot", ""))
    if address is None:
        return None
    function = _of_parts(address, *(fields.get(key, "") for key in ("Class", "Vendor", "Device")))
    function.driver = fields.get("Driver", "")
    function.driver_shown = "Module" in fields or "Driver" in fields
    return function


def _records(text: str) -> Iterator[dict[str, str]]:
    for block in re.split(r"\r?\n\s*\n", text):
        lines = (line[3:] for line in lines_of(block) if line.startswith("E: "))
        yield fields_of("\n".join(lines), "=")


def parse_udev(text: str) -> list[Function]:
    """Parse the output of ``udevadm info --export-db``."""
    functions = []
    for fields in _records(text):
        function = _of_uevent(fields)
        if function is not None:
            function.name = name_of(fields.get("ID_MODEL_FROM_DATABASE")) or ""
            functions.append(function)
    return functions


def parse_udev_platforms(text: str) -> list[str]:
    """Return the platform devices with a DRM card, by the name of their last folder."""
    paths = (fields.get("DEVPATH", "") for fields in _records(text))
    cards = (re.fullmatch(r"/devices/platform/(?:.*/)?([^/]+)/drm/card\d+", path) for path in paths)
    return [match[1] for match in cards if match]


def parse_pciconf(text: str) -> list[Function]:
    """Parse FreeBSD's ``pciconf -lv``, whose addresses are decimal."""
    functions: list[Function] = []
    for line in lines_of(text):
        head = re.match(r"(\w+?)\d*@pci(\d+):(\d+):(\d+):(\d+):\s+(.*)", line)
        if head:
            values = dict(re.findall(r"(\w+)=0x([0-9a-f]+)", head[6]))
            chip = values.get("chip", "").zfill(8)
            vendor, device = values.get("vendor", chip[4:]), values.get("device", chip[:4])
            address = pci_address_of(head[2], head[3], head[4], head[5])
            kind = whole(values.get("class", ""), 16)
            if address and pci_id(vendor, device) and kind is not None:
                driver = "" if head[1] in ("none", "vgapci") else head[1]
                functions.append(Function(address, vendor, device, kind >> 8, driver=driver))
        elif functions and (device_line := re.match(r"\s+device\s*=\s*'(.*)'", line)):
            functions[-1].name = name_of(device_line[1]) or ""
    return functions
