"""GPUs that a text names by labels, in whatever form, or that a person mentions.

A label says which fact its value is (`labels`), the grammar of products finds the name in it
(`products`). It is hearsay: it makes GPUs where nothing else shows the vendor's, and adds to those
that it does not contradict.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuforge.detect import pci_ids
from gpuforge.detect.notation import (
    Facts,
    as_makers_write,
    gfx,
    kept,
    pci_address,
    pci_id,
    product_of,
    size,
    word,
)
from gpuforge.detect.seen import HEARSAY, RENDERER, Seen, Sighting
from gpuforge.detect.text.labels import Label, labels_of, told_lines
from gpuforge.detect.text.mentions import Mention, mentions_in
from gpuforge.detect.text.products import GPUS_AT_MOST, Product, products_in
from gpuforge.facts import Driver, Vendor

PROGRAM = "prose"
# How many lines after a device's name its facts stand at most; those that say little, at most.
REACH, NEAR = 40, 8
LINE_LIMIT, DEVICES_AT_MOST = 300, 256
# A field of 32 bits that is full, or ran over by some multiple of what it holds.
FULL_BYTES, CAPPED_FROM_BYTES = 2**32 - 2**28, 2**32 - 2**21
_NONE = re.compile(
    r"(no|none|null|n/?a|not?\b.*|false|true|yes|cpu( only)?|(dis|en)abled|unknown|any|all|[\d\W]+)"
    r"\W*$",
    re.I,
)
_SOFTWARE = re.compile(
    r"llvmpipe|softpipe|swiftshader|swrast|basic render|virtual display|virgl|svga3d|virtualbox|"
    r"vmware",
    re.I,
)
_LIBRARIES: tuple[tuple[str, Vendor], ...] = (
    (r"\bcuda\b", "nvidia"),
    (r"\b(rocm|hip)\b", "amd"),
    (r"\b(mps|metal)\b", "apple"),
    (r"\b(xpu|oneapi)\b", "intel"),
)
_PROCESSOR = re.compile(
    r"\b(CPU|Processor|Xeon|Ryzen|EPYC|Celeron|Pentium|Threadripper|i[3579]-\d)|Core\(TM\)", re.I
)
_SHARED = re.compile(r"(?<!not )\b(igpu|apu|integrated|on-?board|built-?in|unified mem)\b", re.I)
_OWN = re.compile(r"\b(dgpu|discrete|egpu|dedicated mem|discretegpu)\b", re.I)
_NUMBERED = re.compile(r"(?:^|[<\[#\s(])(\d{1,2})[:\]>)]\s*$")
_VERSION = (
    r"(?<![\d.])(\d{3}\.\d{2,3}(?:\.\d{1,2})?|\d{1,2}\.\d{1,2}\.\d{1,5}\.\d{1,5}|"
    r"\d{4}\.\d(?= \(HSA))(?![\d.])"
)
_OF_DRIVER = re.compile(_VERSION)
_OF_GL = re.compile(r"\bNVIDIA (\d{3}\.\d{2,3}(?:\.\d{1,2})?)\b")
_SAID_DRIVER = re.compile(
    r"\b([3-6]\d\d\.\d{2,3}(?:\.\d{1,2})?) (?:nvidia |proprietary )?drivers?\b|"
    r"\bdrivers?(?: version)?[\s:=(v-]{1,3}(?:nvidia[ /-])?([3-6]\d\d\.\d{2,3}(?:\.\d{1,2})?)\b",
    re.I,
)
_NVIDIA_DRIVER = re.compile(
    r"\bnvidia (?:gpu |proprietary |open )?drivers?(?: version)?(?: is)?\W{1,4}"
    r"v?([2-6]\d\d\.\d{2,3}(?:\.\d{1,2})?)\b|"
    r"\bnvidia[ -](?:linux-x86_64-|drivers?-)?([3-6]\d\d\.\d{2,3}(?:\.\d{2})?)\b|"
    r"^filename:\s+\S*/nvidia\S*\.ko\S*\n(?:.*\n){0,4}?version:\s+([2-6]\d\d\.[\d.]+)",
    re.I | re.M,
)
_MY_MEMORY = re.compile(
    r"\b(?:my|our) (?:gpu|card|graphics card|vga)(?: \w+){0,2}? "
    r"(?:has|have|having|with|is) (?:only |just )?(\d{1,3}) ?G(?:i?B)?\b"
    r"(?! (?:of )?(?:RAM|system))|"
    r"\bI(?:'ve| have)?(?: got)? (?:only |just )?(\d{1,3}) ?G(?:i?B)?(?: of)? VRAM\b",
    re.I,
)
_MY_CAPABILITY = re.compile(
    r"\b(?:my|our) (?:hardware|gpu|card|device)(?: \w+){0,2}? "
    r"(?:supports?|has|have|is|with)(?: \w+)? compute (?:capability|model)(?: of)? (\d{1,2}\.\d)\b",
    re.I,
)
_MPS = re.compile(
    r"\bMPS backend out of memory|\bdevice=mps\b|\bmps:0\b|mps\.is_available\(\)\W{0,6}True"
)
_OF_NVIDIA = re.compile(r"\bnvidia-smi\b|\bCUDA Version\s*:", re.I)
_CAPABILITY = re.compile(
    r"^[^.;]{0,60}?\b(?:(?:compute )?capability(?: of)?|CC)[\s:=(]{1,3}(\d{1,2}\.\d)\b", re.I
)
_KERNEL_DRIVER = re.compile(r"(nvidia|amdgpu|radeon|nouveau|i915|xe)(?=$|[\s,(-])", re.I)
_BESIDE = re.compile(
    rf"^\s*[,(/]?\s?(\d\d\.\d{{1,2}}\.\d{{1,5}}\.\d{{1,5}}|(?<=/ )\d{{3}}\.[\d.]+)\b|"
    rf"^[^,]{{0,30}}[,(\[ ]\s*(?:(?:nvidia |gpu )?drivers?(?: version)?|nvidia;|intel corporation;|"
    rf"advanced micro devices, inc\.;|amd;|[\w.]+\.dll|d3d11-)[\s:=v-]*{_VERSION}",
    re.I,
)


@dataclass
class _Device:
    """A GPU as far as labels told of it."""

    vendor: Vendor | None
    line: int
    number: int | None = None
    count: int = 1
    facts: Facts = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)


def read(text: str, route: str, seen: Seen) -> None:
    """Add the GPUs that labels and sentences of a text name."""
    found = _Devices()
    for label in labels_of(text):
        found.take(label)
    told = {one.vendor for one in found.devices if "name" in one.facts}
    for mention in mentions_in(text):
        if mention.product.vendor not in told:
            numbers = () if mention.number is None else (mention.number,)
            for device in found.add(mention.product, mention.line, numbers):
                device.said = _beside(mention) | {"gfx": mention.words} | device.said
    mine = _MY_MEMORY.search(text)
    if mine and len(found.devices) == 1 and found.devices[0].count == 1:
        found.devices[0].said.setdefault("total", f"{mine[1] or mine[2]} GB")
    for device in found.devices:
        if device.vendor:
            facts = _finished(device)
            route = device.said.get("route", "labels")
            seen.sightings += [Sighting(device.vendor, route, facts, HEARSAY)] * device.count
    text = "\n".join(line[:LINE_LIMIT] for line in told_lines(text))
    if capability := _MY_CAPABILITY.search(text):
        told_of = {"compute_capability": capability[1]}
        seen.sightings.append(Sighting("nvidia", "labels", told_of, HEARSAY, everywhere=True))
    if _MPS.search(text):
        seen.sightings.append(Sighting("apple", "labels", {}, HEARSAY, everywhere=True))
    spoken = _NVIDIA_DRIVER.search(text)
    own = found.driver or (next(filter(None, spoken.groups())) if spoken else "")
    driver = own or next((a or b for a, b in _SAID_DRIVER.findall(text)), "")
    own = own or (driver if _OF_NVIDIA.search(text) else "")
    if driver and (own or any(one.vendor == "nvidia" for one in found.devices)):
        facts = {"driver": Driver("nvidia", driver)}
        seen.sightings.append(Sighting("nvidia", "labels", facts, HEARSAY, everywhere=True))


class _Devices:
    """The GPUs of a text in the order of their lines, and what waits for one."""

    def __init__(self) -> None:
        self.devices: list[_Device] = []
        self.driver = ""
        self._current: list[_Device] = []
        self._block: _Device | None = None
        self._waiting: dict[str, str] = {}

    def take(self, label: Label) -> None:
        """Read one label."""
        if len(self.devices) > DEVICES_AT_MOST:
            return
        if "block" in label.facts:
            self._block = self._numbered(label.numbers[0], None, label.line)
            self._current = [self._block]
        if "ids" in label.facts:
            self._identify(label)
            return
        named = bool(label.facts & {"name", "renderer", "maybe"}) and self._name(label)
        for fact in label.facts if not named else label.facts & {"gl"}:
            self._tell(fact, label)

    def add(self, product: Product, line: int, numbers: tuple[int, ...] = ()) -> list[_Device]:
        """Add a product, or its name to the devices that it may be."""
        last = self._current[-1] if self._current else None
        if numbers:
            found = [self._numbered(number, product, line) for number in numbers]
        elif last and _may_be(last, product) and ("name" not in last.facts or _same(last, product)):
            found = self._current
        else:
            same = next((one for one in self.devices if _same(one, product)), None)
            found = [same or self._numbered(last.number if last else None, product, line)]
        for device in found:
            device.vendor = product.vendor
            device.count = max(device.count, product.count if not numbers else 1)
            named = {"name": product.name or None, "memory_total_bytes": product.total_bytes}
            device.facts = kept(**named) | device.facts
            device.said = self._waiting | device.said
        self._waiting = {}
        self._current = found
        return found

    def _identify(self, label: Label) -> None:
        """Add a PCI id to the device that it may be of, or a device of that id."""
        vendor = pci_ids.vendor_of(label.value[:4])
        last = self._current[-1] if self._current else None
        if not pci_ids.is_gpu(label.value) or any(
            one.said.get("ids") == label.value for one in self.devices
        ):
            return
        near = last is not None and label.line - last.line <= REACH and "ids" not in last.said
        if last is None or not near or last.vendor not in (None, vendor):
            last = self._numbered(None, None, label.line)
            self._current = [last]
        last.vendor = vendor
        last.said = {"ids": label.value} | self._waiting | last.said
        self._waiting = {}

    def _numbered(self, number: int | None, product: Product | None, line: int) -> _Device:
        for one in reversed(self.devices) if number is not None else ():
            if one.number == number and (product is None or _may_be(one, product)):
                return one
        device = _Device(None, line, number)
        self.devices.append(device)
        return device

    def _name(self, label: Label) -> bool:
        """Add what a label's value names; return whether it answered the question for a GPU."""
        value, asked = label.value, bool(label.facts & {"name", "renderer"})
        if re.match(r"(?:PCI )?[0-9a-f]{4}:[0-9a-f]{4}\b", value, re.I):
            self._tell("address", label)
            return True
        if _SOFTWARE.search(value) or (asked and _NONE.match(value)):
            return asked
        last = self._current[-1] if self._current else None
        unnamed = last is not None and "name" not in last.facts
        products = products_in(value, asked=asked or (unnamed and last is self._block))
        if not products and (asked or (unnamed and gfx(value))) and (other := _loosely(value)):
            products = [other]
        for product in products:
            inside = _NUMBERED.search(value[: product.start])
            numbers = (int(inside[1]),) if inside and len(products) > 1 else label.numbers
            devices = self.add(product, label.line, numbers)
            said = _beside(Mention(label.line, product, words=value))
            if "renderer" in label.facts:
                said["route"] = RENDERER
            for device in devices:
                device.line = label.line
                device.said = said | device.said
        return bool(products)

    def _tell(self, fact: str, label: Label) -> None:
        """Add an attribute to the devices that a label means, or let it wait for one."""
        own = [self._numbered(number, None, label.line) for number in label.numbers]
        devices = own or self._current
        near = bool(devices) and label.line - devices[-1].line <= (
            NEAR if fact == "total_here" else REACH
        )
        value = f"{label.value} {label.unit}" if label.unit else label.value
        if fact == "nvidia_driver" and (found := _OF_DRIVER.search(value)):
            self.driver = self.driver or (found[1] if found[1].count(".") < 3 else "")
        if fact == "count":
            for device in devices if near else ():
                shown = re.match(r"\d{1,2}\b", value)
                device.count = min(int(shown[0]) or 1, GPUS_AT_MOST) if shown else device.count
        elif near:
            for device in devices:
                told = device.said.setdefault(fact, value)
                if fact == "driver" and not _OF_DRIVER.search(told):
                    device.said[fact] = f"{told} {value}"  # its name, then its version
        elif fact in ("total", "driver", "gfx", "capability"):
            self._waiting.setdefault(fact, value)


def _may_be(device: _Device, product: Product) -> bool:
    """Return whether a device without a name, or of the same name, may be a product."""
    return device.vendor in (None, product.vendor) and (
        "name" not in device.facts or _same(device, product)
    )


def _same(device: _Device, product: Product) -> bool:
    name = str(device.facts.get("name", ""))
    words = product_of(name), product_of(product.name)
    alike = words[0] <= words[1] or words[1] <= words[0] if all(words) else not any(words)
    return device.vendor == product.vendor and alike and bool(name or not product.name)


def _loosely(value: str) -> Product | None:
    """Return what an answer names that no grammar knows: a maker, a library, a gfx target."""
    if gfx(value.split(":")[0]):
        return Product("amd", "", 0, 0)
    if _PROCESSOR.search(value) and not re.search("graphics|gpu", value, re.I):
        return None
    head = re.split(r"[,;|(]| - |\sv: ", re.sub(r"^Mesa (DRI )?", "", value))[0].strip(" .*`'\"[]")
    vendor = pci_ids.vendor_named_in(head) if len(head) < 60 else None
    if vendor and any(pci_ids.vendor_named_in(part) != vendor for part in head.split("/")):
        return None  # a form's own words: Nvidia/Intel/AMD
    library = next((v for words, v in _LIBRARIES if re.search(words, value[:40], re.I)), None)
    if vendor is None and library is None:
        return None
    bare = re.sub(
        r"\b(nvidia|amd|intel|apple|gpus?|igpu|corporation|inc|graphics|card|cuda|rocm|mps)\b|\W",
        "",
        head,
        flags=re.I,
    )
    return Product(vendor or library or "nvidia", head if bare and vendor else "", 0, 0)


def _beside(mention: Mention) -> dict[str, str]:
    """Return what stands beside a name in its line: a driver, an id, an address, the kind."""
    words = mention.words
    tail = words[mention.product.end :][:120]
    near = words[max(0, mention.product.start - 30) : mention.product.end]
    near = (
        re.split(r"\b(?:and|but)\b", near)[-1] + re.split(r" (?:and|but|\+) |[,;] ", tail[:30])[0]
    )
    driver = _BESIDE.search(tail)
    ident = re.search(r"[(\[]0x([0-9a-f]{4})[)\]]", tail, re.I)
    return kept(
        driver=(driver[1] or driver[2]) if driver else None,
        device=f"0x{ident[1]}" if ident else None,
        kind=near if _SHARED.search(near) or _OWN.search(near) else None,
        gfx=gfx(words),
        capability=spoken[1] if (spoken := _CAPABILITY.search(tail)) else None,
        address=pci_address(words),
    )


def _finished(device: _Device) -> Facts:
    """Return a device's facts from the words of the text."""
    said, vendor = device.said, device.vendor or "nvidia"
    facts = dict(device.facts)
    name, size_in_name = _without_size(str(facts.pop("name", "")))
    ident = re.search(r"0x([0-9a-f]{3,4})\b", said.get("device", ""), re.I)
    found = pci_id(pci_ids.maker_of(vendor), ident[1]) if ident else None
    if pair := re.match(r"(?:PCI )?([0-9a-f]{4}):([0-9a-f]{4})\b", said.get("address", ""), re.I):
        found = pci_id(*pair.groups())
    found = said.get("ids") or found
    shared = _unified(said)
    driver = _OF_DRIVER.search(said.get("driver", "")) or _OF_GL.search(said.get("gl", ""))
    driver = driver or re.match(r"(\d+\.\d+\.\d+)", said.get("rocm_driver", ""))
    bound = _KERNEL_DRIVER.match((said.get("kernel") or said.get("driver", "")).strip("[`* "))
    capability = re.search(r"(?<![\d.])(\d{1,2}\.\d)(?![\d.])", said.get("capability", ""))
    arch = said.get("gfx", "").strip("\"', ") if vendor == "nvidia" else ""
    if capability is None and re.fullmatch(r"\d{1,2}\.\d", arch):
        capability = re.match(r"(.*)", arch)  # what LXD calls the architecture
    if product := re.match(r"\W*([0-9a-f]{4})\W*$", said.get("product", ""), re.I):
        found = pci_id(pci_ids.maker_of(vendor), product[1])
    total = facts.pop("memory_total_bytes", None) or _memory(said) or size_in_name
    by_name = pci_ids.integrated_by_name(vendor, as_makers_write(name), "") if name else None
    integrated = pci_ids.integrated(found)
    if integrated is None:  # a word may be of another GPU, a product's name is not
        integrated = by_name if shared is None and vendor == "intel" else shared
    if by_name is False and vendor != "intel":
        integrated = None if shared else shared
    return kept(
        name=word(name) if name else None,
        memory_total_bytes=None if integrated and vendor == "intel" else total,
        driver=Driver(vendor, driver[1]) if driver else Driver(bound[1].lower()) if bound else None,
        pci_id=found,
        pci_address=pci_address(said.get("address", "")),
        architecture=gfx(said.get("gfx", "")) if vendor == "amd" else None,
        compute_capability=capability[1] if capability and vendor == "nvidia" else None,
        uuid=uuid[0] if (uuid := re.match(r"GPU-[0-9a-f-]{36}", said.get("uuid", ""))) else None,
        integrated=integrated,
    )


def _without_size(name: str) -> tuple[str | None, int | None]:
    """Return a name without the memory that stands behind it, and that memory."""
    behind = re.search(r"(?<=\w)[ (]+(\d{1,3})\s?GB\)?$", name)
    return (name[: behind.start()], int(behind[1]) << 30) if behind else (name or None, None)


def _unified(said: dict[str, str]) -> bool | None:
    """Return whether a GPU shares the memory of the CPU, where the words say it."""
    if _SHARED.search(kind := said.get("kind", "")):
        return True
    if _OWN.search(kind):
        return False
    return {"yes": True, "no": False, "true": True}.get(said.get("unified", "").strip().lower())


def _memory(said: dict[str, str]) -> int | None:
    """Return the size of a GPU's memory; a field of 32 bits that is full does not say it."""
    windows = re.search(r"(?<![\d.])\d+\.\d+\.\d+\.\d+", said.get("driver", "")) is not None
    text = (
        said.get("total") or said.get("total_here") or (said.get("window", "") if windows else "")
    )
    if "total" not in said and re.search(r"\bMi?B / \d", text):
        return None  # neofetch's line of the computer's memory in use
    shown = re.match(r"[~≈ ]*([\d.,]+)(?:\.00)?\s*([kmg]i?b?|bytes|go)?\b", text, re.I)
    unit = (shown[2] or "").lower().replace("go", "g").replace("bytes", "b") if shown else ""
    bare = shown is not None and shown[1].isdigit() and len(shown[1]) > 7  # bytes
    if shown and not unit and "total" in said and re.fullmatch(r"\d{3,6}", shown[1]):
        unit = "m" if 512 <= int(shown[1]) < 300_000 else ""
    total = (
        size(f"{shown[1]} {unit}", "M" if "." in shown[1] else "")
        if shown and (unit or windows or bare)
        else None
    )
    return (
        None
        if total
        and (FULL_BYTES if "window" in said else CAPPED_FROM_BYTES if bare else 2**32)
        <= total
        < 2**32
        else total
    )
