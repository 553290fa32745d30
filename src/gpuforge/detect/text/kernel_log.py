"""Kernel log, from ``dmesg``, the journal or a file: what each driver logs about its cards."""

from __future__ import annotations

import re

from gpuforge.detect import pci_ids
from gpuforge.detect.notation import Facts, kept, lines_of, pci_address, pci_id, size, whole, word
from gpuforge.detect.report import first_error
from gpuforge.detect.seen import Seen, Sighting
from gpuforge.facts import Driver, Vendor, VendorFailure

PROGRAM = "lines"
CARDS_AT_MOST = 256
_STAMP = re.compile(r"^.{0,80}?\bkernel: (?:\[[\s\d.]+\] )?|^\s*(?:<\d+>)?\[[\s\d.]{6,20}\]\s?")
_KERNEL = re.compile(
    r"\[drm|amdgpu[ :]|radeon[ :]|NVRM(?::| version: )|nouveau |nvidia |i915 |\bxe 0|drmn\d+: |"
    r"nvidia-modeset: |kfd kfd: |asahi [0-9a-f]+\.gpu: |"
    r"vfio-pci |\[[0-9a-f]{4}:[0-9a-f]{4}\] type|GPU HANG: ecode|^PCI ID: 0x"
)
_ADDRESS = r"([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_OF_DRIVER = re.compile(
    rf"(amdgpu|radeon|nouveau|nvidia|i915|xe)(?: |\s+\[ *[\w|]+ ?\]\[){_ADDRESS}(?:: |\] )"
)
_CHIP = re.compile(r"\bnouveau .*(?:\bChipset: |: NVIDIA )([A-Z]{1,2}\d{2,3}[A-Z]?) \(")
_READY = re.compile(rf"Initialized (amdgpu|radeon|nouveau|i915|xe|nvidia-drm) .* for {_ADDRESS}")
_SETTING = re.compile(
    r"initializing kernel modesetting \(([\w ]+) 0x([0-9a-f]{4}):0x([0-9a-f]{4})", re.I
)
_MEMORY = re.compile(
    r"\bVRAM: (\d+) ?M(?:iB)?\b|: (\d+)M of VRAM memory ready|Detected VRAM RAM=(\d+)M|"
    r"fb: (\d+) MiB|"
    r"VRAM\[\d(?:, \d)?\]: Actual physical size (0x[0-9a-f]+)"
)
_FOUND = re.compile(
    r"Found \w+(?:/\w+)? \(device ID ([0-9a-f]{4})\)(?: (integrated|discrete))?", re.I
)
_BUS = re.compile(
    rf"pci {_ADDRESS}: \[([0-9a-f]{{4}}):([0-9a-f]{{4}})\] type .* class 0x(03\d\d|1200)"
)
_MODULE = re.compile(r"(?:loading |NVRM version: )NVIDIA UNIX .*?\s(\d{3}\.\d+(?:\.\d+)?)\s")
_NVIDIA = re.compile(
    r"NVRM: .*?\b(?:GPU|PCI)[ :]+(?:at )?(?:PCI:)?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})(\.\d)?"
)
# What vendor-reset says of a card that a virtual machine has.
_GIVEN = re.compile(rf"vfio-pci {_ADDRESS}: AMD_[A-Z]")
# What the driver of compute says of a card, and what NVIDIA's says of one without its place.
_COMPUTES = re.compile(
    r"(?:kfd kfd: (?:amdgpu: )?(?:add|skipp)ed device |Topology: Add GPU node \[0x)"
    r"(1002):(?:0x)?([0-9a-f]{4})"
)
_MODESET = re.compile(r"nvidia-modeset: \w+: GPU:\d|NVRM: RmInitAdapter failed")
_ASAHI = re.compile(r"\basahi [0-9a-f]+\.gpu: ")
# In whose lines to look for errors.
_FAILS: dict[Vendor, str] = {"amd": "amdgpu", "intel": "i915", "nvidia": "NVRM:"}
# What precedes the lines without an address: whose they are, and which release of AMD's.
_ENABLED = re.compile(r"\b(amdgpu|radeon) (?:kernel modesetting enabled|version: (\d[\d.]+\d))")
_UUID = re.compile(r"NVRM: GPU at (?:PCI:)?\S+: (GPU-[0-9a-f-]{36})")


def read(text: str, route: str, seen: Seen) -> None:
    """Add the GPUs that the kernel's lines in a text show."""
    lines = [_STAMP.sub("", line) for line in lines_of(text) if _KERNEL.search(line)]
    log = _Log()
    for line in lines:
        log.take(line)
    for facts in [*log.cards, *log.computing()]:
        maker = facts.pop("maker", "") or pci_ids.maker_of_driver(facts.pop("bound", ""))
        vendor = pci_ids.vendor_of(maker)
        if vendor:
            seen.add(vendor, "kernel log", [facts], trust=1)
    error = None  # at last NVIDIA's
    for maker, mark in _FAILS.items():
        said = "\n".join(line for line in lines if mark in line)
        error = first_error(said, maker, "" if maker == "nvidia" else "init_failed")
        if error:
            seen.failures.append(VendorFailure(maker, *error))
    if any(_MODESET.search(line) for line in lines):
        seen.sightings.append(Sighting("nvidia", "kernel log", {}, everywhere=True))
    if any(_ASAHI.search(line) for line in lines):
        seen.add("apple", "kernel log", [{"driver": Driver("asahi")}], trust=1)
    if log.nvidia and not (error and error[0] == "no_devices"):
        driver = {"driver": Driver("nvidia", log.nvidia)}
        seen.sightings.append(Sighting("nvidia", "kernel log", driver, everywhere=True))


class _Log:
    """The cards in the lines read so far.

    A line without an address is about the card that the driver is initialising: the one named
    last, until it is ready.
    """

    def __init__(self) -> None:
        self.cards: list[Facts] = []
        self.nvidia: str | None = None
        self._current: Facts | None = None
        self._driver: Driver | None = None
        self._added: list[str] = []

    def computing(self) -> list[Facts]:
        """Return the cards that the driver of compute alone tells of."""
        told = {card.get("pci_id") for card in self.cards}
        return [{"maker": "1002", "pci_id": one} for one in self._added if one not in told]

    def take(self, line: str) -> None:
        """Read one line."""
        if ready := _READY.search(line):
            self._bind(ready[1], ready[2])
            self._current = None
        elif enabled := _ENABLED.search(line):
            self._driver = Driver(*filter(None, enabled.groups()))
        elif setting := _SETTING.search(line):
            if driver := _OF_DRIVER.search(line):
                self._bind(driver[1], driver[2])
            self._set(setting[2].lower(), setting[3])
        elif bus := _BUS.search(line):
            if pci_ids.vendor_of(bus[2]) and not pci_ids.not_computing(bus[2], None):
                card = self._at(bus[1])
                card.update(maker=bus[2], pci_id=f"{bus[2]}:{bus[3]}")
        elif given := _GIVEN.search(line):
            self._at(given[1]).update(maker="1002", driver=Driver("vfio-pci"))
        elif added := _COMPUTES.search(line):
            self._added.append(f"{added[1]}:{added[2]}")
            if self._current and self._current.get("bound") == "amdgpu":  # being initialised
                self._current.setdefault("pci_id", self._added[-1])
        elif module := _MODULE.search(line + " "):
            self.nvidia = module[1]
        elif place := _NVIDIA.search(line):
            card = self._at(f"{place[1]}{place[2] or '.0'}")
            card["maker"] = "10de"
            card.update(kept(uuid=found[1] if (found := _UUID.search(line)) else None))
            self._current = card
        elif ident := re.search(r"PCI ID: (10de):([0-9a-f]{4})", line):
            self._open()["pci_id"] = f"{ident[1]}:{ident[2]}"
        elif driver := _OF_DRIVER.search(line):
            self._bind(driver[1], driver[2])
            if found := _FOUND.search(line):
                self._open()["pci_id"] = f"8086:{found[1].lower()}"
            if chip := _CHIP.search(line):
                self._open().update(kept(name=word(chip[1])))
        elif "GPU HANG: ecode" in line and not any(
            one.get("bound") == "i915" for one in self.cards
        ):
            self._current = {"bound": "i915", "driver": Driver("i915")}
            self.cards.append(self._current)
        elif (ident := re.match(r"PCI ID: 0x([0-9a-f]{4})$", line)) and self._current:
            self._current.update(kept(pci_id=pci_id("8086", ident[1])))
        if memory := _MEMORY.search(line):
            shown = next(part for part in memory.groups() if part)
            total = whole(shown, 16) if shown.startswith("0x") else size(shown, "M")
            self._open().update(kept(memory_total_bytes=total or None))
            if driver_named := re.search(r"(amdgpu|radeon): \d+M of VRAM", line):
                self._open().setdefault("bound", driver_named[1])

    def _open(self) -> Facts:
        if self._current is None:
            self._current = {}
            self.cards.append(self._current)
        return self._current

    def _at(self, address: str) -> Facts:
        place = pci_address(address) or address
        card = next((card for card in self.cards if card.get("pci_address") == place), None)
        if card is None:
            card = kept(pci_address=pci_address(address))
            if len(self.cards) < CARDS_AT_MOST:  # a log names addresses without end
                self.cards.append(card)
        return card

    def _bind(self, driver: str, address: str) -> None:
        """Set the driver of the card at an address, which may be the one being initialised."""
        name = driver.removesuffix("-drm")
        place = pci_address(address)
        known = any(card.get("pci_address") == place for card in self.cards)
        if not known and self._current is not None and "pci_address" not in self._current:
            self._current["pci_address"] = place
        card = self._at(address)
        setting = self._current
        placeless = setting if known and setting and "pci_address" not in setting else None
        if placeless and card.get("pci_id") in (None, placeless.get("pci_id")):
            self.cards = [one for one in self.cards if one is not placeless]  # the bus named it too
            card.update(placeless)
        own = self._driver if self._driver and self._driver.name == name else None
        card.update(bound=name, driver=own or Driver(name))
        self._current = card

    def _set(self, maker: str, device: str) -> None:
        if self._current is not None and "pci_id" in self._current:
            self._current = None
        self._open().update(maker=maker, **kept(pci_id=pci_id(maker, device), driver=self._driver))
