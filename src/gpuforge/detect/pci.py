"""GPUs of every vendor on the PCI bus, and devices there that only look like GPUs.

1. sysfs: ``/sys/bus/pci/devices`` and ``/sys/class/drm``
2. ``lspci``, ``udevadm info --export-db`` and ``pciconf -lv`` where sysfs shows nothing
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuforge.detect import pci_ids
from gpuforge.detect.notation import kept, pci_address
from gpuforge.detect.pci_text import (
    PLACELESS,
    Function,
    of_config,
    parse_lspci,
    parse_pciconf,
    parse_udev,
    parse_udev_platforms,
    parse_uevent,
)
from gpuforge.detect.seen import Facts, Seen
from gpuforge.detect.source import names_in, outputs_of, text_at
from gpuforge.facts import Absent, Driver, Failed, Reading, known
from gpuforge.probe import Probe

BUS = "/sys/bus/pci/devices"
CARDS = "/sys/class/drm"
ID_FILES = ("vendor", "device", "class", "modalias")
# PCI class codes: 03 display, 0b40 co-processor, 12 processing accelerator (PCI-SIG, class codes).
DISPLAY = (0x0300, 0x0301, 0x0302, 0x0380)
ACCELERATORS = (0x0B40, 0x1200)


def detect(probe: Probe) -> Seen:
    """Return the GPUs that the PCI bus shows."""
    seen = Seen()
    passed: set[str] = set()
    for route, functions in routes(probe):
        for function in functions:
            why = why_not(function, functions)
            vendor = pci_ids.vendor_of(function.vendor)
            if vendor and why == "":
                seen.add(vendor, route, [_facts(function, route)], trust=1)
            elif why and function.address not in passed:
                passed.add(function.address)
                seen.pass_over(why, function.name, function.address, function.pci_id)
    for output in outputs_of(probe, "udevadm"):  # displays on no PCI bus, as in a Raspberry Pi
        for name in parse_udev_platforms(output.stdout):
            seen.pass_over("platform device of another vendor", name)
    return seen


def routes(probe: Probe) -> Iterator[tuple[str, list[Function]]]:
    """Yield the functions of each route; tools are used only where sysfs shows none."""
    functions = read_sysfs(probe)
    yield "sysfs", functions
    tools = (
        ("lspci", ["-D", "-nnk"], parse_lspci),
        ("udevadm", ["info", "--export-db"], parse_udev),
        ("pciconf", ["-lv"], parse_pciconf),
    )
    for tool, arguments, parse in tools:
        if functions or probe.platform in ("darwin", "win32"):
            return
        for output in outputs_of(probe, tool, arguments):
            found = parse(output.stdout)
            functions = functions or found
            yield output.source, found


def read_sysfs(probe: Probe) -> list[Function]:
    """Return the bus's functions, or only those of DRM cards where the bus is not shown."""
    folders = [f"{BUS}/{name}" for name in names_in(probe, BUS)]
    functions = [f for folder in folders if (f := function_at(probe, folder)) is not None]
    if all(function.kind not in DISPLAY for function in functions):
        found = ((folder, function_at(probe, folder)) for folder in _cards(probe))
        cards = {card.address or folder: card for folder, card in found if card}
        for card in cards.values():
            card.kind = card.kind or DISPLAY[-1]  # a device with a DRM card is a display
        functions += cards.values()
    # For folders without a uevent, links to drivers were recorded for all or for none.
    if any(function.driver and not function.driver_shown for function in functions):
        for function in functions:
            function.driver_shown = True
    return functions


def _cards(probe: Probe) -> Iterator[str]:
    """Yield the PCI device folders behind DRM cards, connectors and render nodes."""
    for name in names_in(probe, CARDS):
        link = probe.read_link(f"{CARDS}/{name}")
        place = re.search(r"devices/pci[\w:./-]*(?=/drm/)", link) if isinstance(link, str) else None
        if place:
            yield f"/sys/{place[0]}"
        if name[4:].isdigit():
            yield f"{CARDS}/{name}/device"


def function_at(probe: Probe, folder: str) -> Function | None:
    """Return a function from its uevent, or else from its id files."""
    target = probe.read_link(folder)  # a card's folder links to its place on the bus
    slot = (target if isinstance(target, str) else folder).rpartition("/")[2]
    if slot == PLACELESS and folder.startswith(CARDS):
        slot = _slot_of_connector(probe, folder) or slot
    function = parse_uevent(text_at(probe, f"{folder}/uevent"), slot)
    if function is None:
        texts = (text_at(probe, f"{folder}/{part}") for part in ID_FILES)
        function = Function.of_files(slot, *texts)
    if function is None:
        function = of_config(slot, known(probe.read_bytes(f"{folder}/config")) or b"")
    driver = probe.read_link(f"{folder}/driver") if function is None or not function.driver else ""
    bound = driver.rpartition("/")[2] if isinstance(driver, str) else ""
    if function is None and (maker := pci_ids.maker_of_driver(bound)):
        address = pci_address(slot)
        function = Function(address, maker, "", None) if address else None
    if function is not None and not function.driver:
        function.driver = bound
    return function


def _slot_of_connector(probe: Probe, folder: str) -> str:
    """Return the address of a card whose folder is a copy, from its connectors' links."""
    card = folder.split("/")[-2]
    for name in names_in(probe, CARDS):
        link = probe.read_link(f"{CARDS}/{name}") if name.startswith(f"{card}-") else None
        place = re.search(r"([^/]+)/drm/", link) if isinstance(link, str) else None
        if place:
            return place[1]
    return ""


def why_not(function: Function, others: Iterable[Function]) -> str | None:
    """Return ``""`` for a GPU, why it is none, or None for what does not even look like one."""
    vendor = function.vendor
    if function.kind not in DISPLAY:
        if function.kind == 0x1200 and vendor == "1002":
            return ""  # Instinct cards since MI300 have the class of an accelerator
        if function.kind in ACCELERATORS:
            return "processing accelerator, not a GPU"
        return "NVSwitch or bridge" if vendor == "10de" and function.kind == 0x0680 else None
    if why := pci_ids.not_computing(vendor, function.pci_id):
        return why
    if pci_ids.vendor_of(vendor) is None:
        return "display of another vendor"
    slot, _, number = function.address.rpartition(".")
    first = f"{slot}.0"
    if number != "0" and any(
        other.address == first and other.vendor == vendor and other.kind in DISPLAY
        for other in others
    ):
        return "another function of the same GPU"
    return ""


def _facts(function: Function, route: str) -> Facts:
    driver: Reading[Driver]
    if function.driver:
        driver = Driver(function.driver)
    elif function.driver_shown:
        driver = Failed("no kernel driver is bound to it", kind="no_kernel_driver")
    else:
        driver = Absent(f"{route} does not show drivers")
    return kept(
        pci_address=function.address or None,
        pci_id=function.pci_id,
        name=function.name or None,
        integrated=pci_ids.integrated(function.pci_id),
        driver=driver,
    )
