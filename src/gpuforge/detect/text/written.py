"""GPUs that a text names in labels of any form, or that a person mentions.

A label says which fact its value is (`labels`); the grammar of products finds the name in it
(`products`). All of this is hearsay: it creates GPUs only where nothing else shows any of the
vendor, and adds facts to GPUs that it does not contradict.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.detect import pci_ids
from gpuforge.detect.notation import Facts, gfx, kept, pci_address, product_of, size, word
from gpuforge.detect.seen import DOUBT, HEARSAY, RENDERER, Seen, Sighting
from gpuforge.detect.text.clauses import THERE, evidence_of, form
from gpuforge.detect.text.drivers import (
    KERNEL_DRIVER,
    OF_DRIVER,
    kernel_driver,
    makers_by_driver,
    nvidia_driver,
    paired_makers,
    told_drivers,
)
from gpuforge.detect.text.labels import Label, labels_of, told_lines
from gpuforge.detect.text.mentions import PRODUCTS_AT_MOST, SURE, Mention, mentions_in
from gpuforge.detect.text.processor_gpu import add_processor_gpu
from gpuforge.detect.text.products import (
    GPUS_AT_MOST,
    OF_PROCESSOR,
    Product,
    is_vague,
    number_of,
    products_in,
    without_families,
)
from gpuforge.detect.text.told_device import OWN, SHARED, ToldDevice, finished
from gpuforge.facts import Driver, Vendor

PROGRAM = "prose"
# How many lines after a device's name its facts may be; and those that are less specific.
REACH, NEAR = 40, 8
LINE_LIMIT, DEVICES_AT_MOST = 600, 256
_GONE = re.compile(r"\W*(?:previous(?:ly)?|old|former(?:ly)?|before)\b", re.I)
# The driver of two with which there is no fault, and what is no driver's version or name.
_NO_DRIVER = re.compile(
    r"\W*(?:works|working|good) ?:|\W*[A-Z]:\\.*\.(?:exe|dll|bat)\b|"
    r"(?!.*(?:\d|nvidia|amdgpu|radeon|nouveau|\bxe\b))",
    re.I,
)
_LIBRARIES: tuple[tuple[str, Vendor], ...] = (
    (r"\bcuda\b", "nvidia"),
    (r"\b(rocm|hip)\b", "amd"),
    (r"\b(mps|metal)\b", "apple"),
    (r"\b(xpu|oneapi)\b", "intel"),
)
# What NVIDIA's driver calls its version of CUDA.
_OF_CUDA = re.compile(r"\W*\d{1,2}(?:\.\d{1,2})?\W*$")
# The type of a device that is a processor.
_PROCESSOR = re.compile(r"\W*(?:CL_DEVICE_TYPE_)?CPU\b", re.I)
_NUMBERED = re.compile(r"(?:^|[<\[#\s(])(\d{1,2})[:\]>)]\s*$")
# What a driver, a path or a version has in it, and no product's name.
_NO_NAME = re.compile(r"[\\/]|\bdrivers?\b|\bversion\b|\d{3}\.\d|\)\)|\binstalled\b", re.I)
_TARGET = re.compile(r"(?<![a-z])gfx(?!000)\d{3,4}(?!\w)", re.I)
_TARGET_ALONE = re.compile(r"(?:\d{1,2}: )?\W?gfx(?!000)[0-9a-f]{3,4}\W?$", re.I)
# A GPU that is part of a processor or a board, right before its target.
_SHARES = re.compile(
    r"\b(?:igpu|apu|integrated|on-?board|built-?in)(?: gpu| graphics)?\W{1,3}$", re.I
)
_BY_PATH = re.compile(r"(?:/by-path/pci-|\bvfio-pci )([0-9a-f:.]{12})(?:-(?:card|render)|: )")
_ELSEWHERE = re.compile(
    r"^[^\w\n]{0,12}(?:CPU|Processor)\b.{0,40}\b(?:AMD|Intel|Ryzen)\b", re.I | re.M
)
_MEMORY = re.compile(r"\b(?:\d{1,3} ?G(?:i?B|o)?|\d{3,6} ?Mi?B)\b", re.I)


def read(text: str, route: str, seen: Seen) -> None:
    """Add the GPUs named in labels and sentences of a text."""
    found = _Devices()
    for label in labels_of(text):
        found.take(label)
    found.drop_families()
    _add_mentions(text, found)
    found.drop_families()
    _add_targets(text, found)
    text = "\n".join(line[:LINE_LIMIT] for line in told_lines(text)).replace("**", "")
    if len(found.devices) == 1:
        _tell_the_only(found.devices[0], text)
    versions = told_drivers(text)
    for device in found.devices:
        if device.vendor in versions and device.vendor != "nvidia":
            device.said.setdefault("driver", versions[device.vendor])
    if _ELSEWHERE.search(text) and not re.search(r"\b(?:apple|i?mac(?:book| ?os)?)\b", text, re.I):
        found.devices = [one for one in found.devices if one.vendor != "apple"]  # a PC's model
    add_processor_gpu(found.devices, text, str(seen.host.get("cpu_model", "")))
    makers = {one.vendor for one in found.devices}
    for maker in paired_makers(text):
        if maker not in makers:
            facts = {"integrated": True} if maker == "intel" else {}
            seen.sightings.append(Sighting(maker, "labels", facts, HEARSAY))
    for device in found.devices:
        if device.vendor:
            told = device.said.get("route", "labels")
            seen.sightings += [
                Sighting(device.vendor, told, finished(device), device.trust)
            ] * device.count
    if all(one.vendor != "amd" for one in seen.sightings):
        targets = list(dict.fromkeys(target for target, _ in _targets(text)))
        seen.sightings += [
            Sighting("amd", "labels", {"architecture": one}, DOUBT)
            for one in (targets if len(targets) <= PRODUCTS_AT_MOST else ())
        ]
    if any(one.vendor == "apple" for one in seen.sightings):
        seen.host.setdefault("platform", "macos")
    amd = any(one.vendor == "amd" for one in seen.sightings)
    for maker, facts in _of_all(text, found, versions, amd=amd):
        seen.sightings.append(Sighting(maker, "labels", facts, HEARSAY, everywhere=True))


def _add_mentions(text: str, found: _Devices) -> None:
    """Add products named in sentences, unless a label names one of the same maker."""
    names = [(one.vendor, str(one.facts.get("name", ""))) for one in found.devices]
    told = {vendor for vendor, name in names if name and not is_vague(name)}
    for mention in mentions_in(text):
        one = mention.product
        known = one.vendor in told and (mention.score < SURE or not one.name)
        if known or (mention.doubtful and not mention.score and found.devices):
            continue
        numbers, before = () if mention.number is None else (mention.number,), len(found.devices)
        for device in found.add(one, mention.line, numbers):
            device.said = _beside(mention) | {"gfx": mention.words} | device.said
            if mention.doubtful and len(found.devices) > before:
                device.trust = DOUBT


def _tell_the_only(device: ToldDevice, text: str) -> None:
    """Add what a text says about "my card", and the address if it shows only one."""
    places = {pci_address(place) for place in _BY_PATH.findall(text)}
    if len(places) == 1:
        device.said.setdefault("address", str(places.pop()))
    number = form("clauses", "number").search(text.replace("_", ""))
    if device.count == 1 and number and not (number[2] and form("clauses", "hybrid").search(text)):
        device.count = number_of(number[2] or "two")
    shown = {size(one[1] or one[2]) for one in form("clauses", "total").finditer(text)}
    sizes = shown or {
        size(match[0].replace("o", "B"))
        for line in text.splitlines()
        for match in _MEMORY.finditer(line)
        if evidence_of("memory", line, *match.span()).score > THERE
    }
    if len(sizes) == 1:
        device.said.setdefault("total", f"{sizes.pop()} bytes")


def _add_targets(text: str, found: _Devices) -> None:
    """Add AMD GPUs that a text names only by their target, such as "iGPU (gfx1036)"."""
    radeons = [one for one in found.devices if one.vendor == "amd"]
    for target, before in _targets(text):
        named = next((one for one in radeons if _ends_with_name(before, one)), None)
        if named:
            named.said["gfx"] = target
        elif _SHARES.search(before):
            same = (one for one in radeons if gfx(one.said.get("gfx", "")) == target)
            shared = next(same, None) or ToldDevice("amd", 0)
            if shared not in radeons:
                found.devices.append(shared)
                radeons.append(shared)
            shared.said |= {"gfx": target} | ({} if shared.facts else {"kind": "igpu"})


def _ends_with_name(words: str, device: ToldDevice) -> bool:
    name = str(device.facts.get("name", "")).lower()
    return bool(name) and re.sub(r"[\s(,:/\[-]+$", "", words.lower()).endswith(name)


def _targets(text: str) -> list[tuple[str, str]]:
    """Return the AMD targets that the machine has, such as gfx1030, and the words before each."""
    found = [
        (gfx(match[0]), line[max(0, match.start() - 40) : match.start()])
        for line in text.splitlines()
        for match in _TARGET.finditer(line)
        if evidence_of("gpu", line, *match.span()).score >= 0
    ]
    return [(target, before) for target, before in found if target]


def _of_all(
    text: str, found: _Devices, versions: dict[Vendor, str], *, amd: bool
) -> Iterator[tuple[Vendor, Facts]]:
    """Yield facts for all GPUs of a maker, and makers that appear without a GPU's name."""
    if "amd" in versions and amd and not found.devices:
        yield "amd", {"driver": Driver("amd", versions["amd"])}
    bound = KERNEL_DRIVER.match(found.driver_words())
    module = bound[1].lower() if bound else kernel_driver(text)
    maker = pci_ids.vendor_of(pci_ids.maker_of_driver(module)) if module else None
    if maker and (bound or not found.devices or any(one.vendor == maker for one in found.devices)):
        yield maker, {"driver": Driver(module)}
    if capability := form("clauses", "my_capability").search(text):
        yield "nvidia", {"compute_capability": capability[1]}
    for maker in makers_by_driver(text):
        yield maker, {}
    driver, sure = nvidia_driver(text, found.driver)
    driver = driver or versions.get("nvidia", "")
    if driver and (sure or any(one.vendor == "nvidia" for one in found.devices)):
        yield "nvidia", {"driver": Driver("nvidia", driver)}


class _Devices:
    """The GPUs of a text in order of their lines, and the facts that precede a GPU."""

    def __init__(self) -> None:
        self.devices: list[ToldDevice] = []
        self.driver = ""
        self._current: list[ToldDevice] = []
        self._block: ToldDevice | None = None
        self._waiting: dict[str, str] = {}
        self._computer = -REACH  # the line of the processor: memory near it is the computer's

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
        if "display" in label.facts:
            self._current, self._block = [], None
        if "cpu" in label.facts and not re.match(r"\W*\d+\b", label.value):
            self._computer = label.line
        if "vendor" in label.facts and not self._current:
            maker = pci_ids.vendor_named_in(label.value)
            own = [one for one in self.devices if one.vendor == maker]
            if maker and len(own) == 1:
                own[0].said = self._for(maker) | own[0].said
                self._current, self._waiting = own, {}
        named = bool(label.facts & {"name", "renderer", "maybe"}) and self._name(label)
        told = label.facts & {"gl"} if named else label.facts
        for fact in told if "platform" not in told else ():  # whose number is no GPU's
            self._tell(fact, label)

    def add(self, product: Product, line: int, numbers: tuple[int, ...] = ()) -> list[ToldDevice]:
        """Add a product, or give its name to the devices that it may be."""
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
            fuller = product_of(product.name) > product_of(str(device.facts.get("name", "")))
            device.facts = device.facts | kept(**named) if fuller else kept(**named) | device.facts
            if ident := pci_ids.id_in_name(product.vendor, product.name):
                device.said.setdefault("ids", ident)
            device.said = self._for(device.vendor) | device.said
        self._waiting = {}
        self._current = found
        return found

    def _for(self, vendor: Vendor) -> dict[str, str]:
        """Return the pending facts for a device of a vendor; NVIDIA's driver fits no other's."""
        foreign = bool(self.driver) and vendor != "nvidia"
        return {
            fact: told for fact, told in self._waiting.items() if not (foreign and fact == "driver")
        }

    def _has(self, vendor: Vendor) -> bool:
        """Return whether a GPU of a vendor is named, so that its name alone adds none."""
        return any(one.vendor == vendor and "name" in one.facts for one in self.devices)

    def drop_families(self) -> None:
        """Drop devices known only by family or by id if their product is known too."""
        named = [one for one in self.devices if word(one.facts.get("name"))]
        ids = {one.said["device"] for one in named if "device" in one.said}
        own = [one for one in self.devices if one in named or one.said.get("device") not in ids]
        self.devices = without_families(
            own, lambda one: (one.vendor, str(one.facts.get("name", "")))
        )

    def driver_words(self) -> str:
        """Return what a text that names no GPU says about a driver."""
        return self._waiting.get("driver", "") if not self.devices else ""

    def _identify(self, label: Label) -> None:
        """Add a PCI id to the device that may have it, or a new device with that id."""
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

    def _numbered(self, number: int | None, product: Product | None, line: int) -> ToldDevice:
        for one in reversed(self.devices) if number is not None else ():
            if one.number == number and (product is None or _may_be(one, product)):
                return one
        for one in self.devices if number is not None and product else ():
            if one.number is None and product and _same(one, product):
                if one.count == 1:
                    one.number = number
                    return one
                one.count -= 1  # a label counts what a list numbers
                break
        device = ToldDevice(None, line, number)
        self.devices.append(device)
        return device

    def _name(self, label: Label) -> bool:
        """Add the products in a label's value; return whether it names a GPU."""
        value, asked = label.value, bool(label.facts & {"name", "renderer"})
        if re.match(r"(?:PCI )?[0-9a-f]{4}:[0-9a-f]{4}\b", value, re.I):
            self._tell("address", label)
            return True
        if (
            form("clauses", "software").search(value)
            or (
                asked
                and form("clauses", "none").match(value)
                and not products_in(value, asked=True)
            )
            or _GONE.match(value)
        ):
            self._waiting.pop("total", None)  # it is main memory, or gone
            return asked
        last = self._current[-1] if self._current else None
        unnamed = last is not None and "name" not in last.facts
        products = products_in(value, asked=asked or (unnamed and last is self._block))
        only = asked or bool(_TARGET_ALONE.match(value)) or (unnamed and gfx(value))
        if not products and only and (other := _loosely(value)):
            products = [other] if other.name or not self._has(other.vendor) else []
        if form("clauses", "one_card").search(value):
            products = products[:1]
        of_cpu = bool(products) and bool(OF_PROCESSOR.search(value[: products[0].start]))
        products = [] if of_cpu and not asked else products
        for product in products:
            inside = _NUMBERED.search(value[: product.start])
            numbers = (int(inside[1]),) if inside and len(products) > 1 else label.numbers
            devices = self.add(product, label.line, numbers)
            said = _beside(Mention(label.line, product, words=value))
            if "renderer" in label.facts:
                said["route"] = RENDERER
            if of_cpu:
                said["processor"] = value
            for device in devices:
                device.line = label.line
                device.said = said | device.said
        part = form("clauses", "in_processor").search(value, products[-1].end) if products else None
        if part and (maker := pci_ids.vendor_named_in(part[1] or part[2])):
            self.devices.append(ToldDevice(maker, label.line, said={"kind": "igpu"}))
        if not products and "name" in label.facts and len(label.numbers) == 1:
            self._block = self._numbered(label.numbers[0], None, label.line)
            self._current = [self._block]  # its maker and product may follow
        return bool(products)

    def _tell(self, fact: str, label: Label) -> None:
        """Add an attribute to the devices that a label means, or keep it for the next one."""
        own = [self._numbered(number, None, label.line) for number in label.numbers]
        devices = own or self._current
        near = bool(devices) and label.line - devices[-1].line <= (
            NEAR if fact == "total_here" else REACH
        )
        value = f"{label.value} {label.unit}" if label.unit else label.value
        if fact in ("driver", "nvidia_driver") and _NO_DRIVER.match(value):
            return
        if "nvidia_driver" in label.facts and _OF_CUDA.match(value):
            return
        if fact == "nvidia_driver" and (found := OF_DRIVER.search(value)):
            self.driver = self.driver or (found[1] if found[1].count(".") < 3 else "")
        if fact == "kind" and _PROCESSOR.match(value):
            apart = (one for one in self._current if "processor" not in one.said)
            if not any(products_in(str(one.facts.get("name", "")), asked=True) for one in apart):
                self.devices = [one for one in self.devices if one not in self._current]
            self._current = []
            return
        if fact == "total_here" and not self._block and label.line - self._computer <= NEAR:
            return
        if fact == "count":
            for device in devices if near else ():
                shown = re.match(r"\d{1,2}\b", value)
                device.count = min(int(shown[0]) or 1, GPUS_AT_MOST) if shown else device.count
        elif near:
            for device in devices:
                told = device.said.setdefault(fact, value)
                if fact == "driver" and told != value and not OF_DRIVER.search(told):
                    device.said[fact] = f"{told} {value}"  # its name, then its version
        elif fact in ("total", "driver", "gfx", "capability"):
            self._waiting.setdefault(fact, value)


def _may_be(device: ToldDevice, product: Product) -> bool:
    """Return whether a device without a name, or of the same name, may be a product."""
    return device.vendor in (None, product.vendor) and (
        "name" not in device.facts or _same(device, product)
    )


def _same(device: ToldDevice, product: Product) -> bool:
    name = str(device.facts.get("name", ""))
    words = product_of(name), product_of(product.name)
    alike = words[0] <= words[1] or words[1] <= words[0] if all(words) else not any(words)
    if any(words) and not all(words):  # one is named by its PCI id alone, which tells its kind
        ids = (pci_ids.id_in_name(product.vendor, one) for one in (name, product.name))
        ident = next(filter(None, ids), None)
        shared = pci_ids.integrated_by_name(product.vendor, name if words[0] else product.name, "")
        alike = ident is not None and shared is not None and shared == pci_ids.integrated(ident)
    return device.vendor == product.vendor and alike and bool(name or not product.name)


def _loosely(value: str) -> Product | None:
    """Return what an answer names outside the grammar: a maker, a library, a gfx target."""
    if gfx(value.split(":")[0]) or _TARGET_ALONE.match(value):
        return Product("amd", "", 0, 0)
    if form("clauses", "processor").search(value) and not re.search("graphics|gpu", value, re.I):
        return None
    if len(re.split(r"[,;|(]", value)[0].split()) > 6:
        return None  # a sentence
    plain = re.sub(r"^Mesa (DRI )?|\((?:R|TM)\)", "", value)
    head = re.split(r"[,;|(]| - |\sv: ", plain)[0].strip(" .*`'\"[]")
    vendor = pci_ids.vendor_named_in(head) if len(head) < 60 else None
    if vendor and any(pci_ids.vendor_named_in(part) != vendor for part in head.split("/")):
        return None  # the form's own options: Nvidia/Intel/AMD
    library = next((v for words, v in _LIBRARIES if re.search(words, value[:40], re.I)), None)
    if vendor is None and library is None:
        return None
    bare = not _NO_NAME.search(head) and re.sub(
        r"\b(nvidia|amd|ati|intel|apple|gpus?|igpu|corporation|inc|technologies|graphics|card|cuda|"
        r"rocm|mps|detected|found|available)\b|\W",
        "",
        head,
        flags=re.I,
    )
    return Product(vendor or library or "nvidia", head if bare and vendor else "", 0, 0)


def _beside(mention: Mention) -> dict[str, str]:
    """Return what is next to a name on its line: a driver, an id, an address, the kind."""
    words = mention.words
    tail = words[mention.product.end :][:120]
    near = words[max(0, mention.product.start - 30) : mention.product.end]
    near = (
        re.split(r"\b(?:and|but)\b", near)[-1] + re.split(r" (?:and|but|\+) |[,;] ", tail[:30])[0]
    )
    driver = form("drivers", "beside").search(tail)
    ident = re.search(r"(?:[([](?=\w{6}[])])|\bdevice id(?: is)?\W+)(0x[0-9a-f]{4})\b", tail, re.I)
    pair = re.search(r"\b(10de|1002|8086):([0-9a-f]{4})\b", tail, re.I)
    return kept(
        driver=next(filter(None, driver.groups())) if driver else None,
        device=ident[1] if ident else None,
        ids=pair[0].lower() if pair else None,
        kind=near if SHARED.search(near) or OWN.search(near) else None,
        gfx=gfx(words),
        capability=spoken[1] if (spoken := form("clauses", "capability").search(tail)) else None,
        address=pci_address(words),
    )
