"""GPUs on the PCI bus, of every vendor, and what there only looks like one.

1. sysfs: ``/sys/bus/pci/devices`` and ``/sys/class/drm``
2. ``lspci``, ``udevadm info --export-db``, ``pciconf -lv`` where sysfs shows nothing
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuforge.detect.notation import kept
from gpuforge.detect.pci_text import (
    Function,
    parse_lspci,
    parse_pciconf,
    parse_udev,
    parse_udev_platforms,
    parse_uevent,
)
from gpuforge.detect.seen import Seen, Sighting
from gpuforge.detect.source import names_in, outputs_of, text_at
from gpuforge.facts import Absent, Driver, Failed, Reading, Vendor
from gpuforge.probe import Probe

BUS = "/sys/bus/pci/devices"
CARDS = "/sys/class/drm"
ID_FILES = ("vendor", "device", "class", "modalias")
VENDORS: dict[str, Vendor] = {"10de": "nvidia", "1002": "amd", "8086": "intel", "106b": "apple"}
# PCI class codes: 03 display, 0b40 co-processor, 12 processing accelerator (PCI-SIG, class codes).
DISPLAY = (0x0300, 0x0301, 0x0302, 0x0380)
ACCELERATORS = (0x0B40, 0x1200)
NOT_COMPUTING = {
    "virtual": "1013 1234 15ad 80ee 1af4 1b36 1414 5853 1ab8 1d0f fffe",
    "bmc": "102b 1a03 126f 19e5 18ca 1fc9",
}
BMC_IDS = {"1002:515e", "1002:5969"}  # ES1000, the display of many servers' management chips
# Parts of a processor or chipset, by the chip that pci.ids names. NVIDIA: nForce and ION from NV1A
# and C51 to MCP89, Thor, GB10.
NVIDIA_PARTS = (
    *((0x01A0, 0x01A0), (0x01F0, 0x01F0), (0x0240, 0x0247), (0x03D0, 0x03D6), (0x0531, 0x053F)),
    *((0x07E0, 0x07E5), (0x0840, 0x08A5), (0x2B00, 0x2B7F), (0x2E00, 0x2E3F)),
)
# AMD: APUs have ids of their own ranges; before them the chipsets RS300 to RS880.
AMD_PARTS = (
    *((0x1100, 0x1FFF), (0x5834, 0x5835), (0x5954, 0x5955), (0x5974, 0x5975), (0x5A41, 0x5A42)),
    *((0x5A61, 0x5A62), (0x7834, 0x7835), (0x791E, 0x791F), (0x793F, 0x7942), (0x796C, 0x796E)),
    *((0x9610, 0x964F), (0x9710, 0x9715), (0x9800, 0x9A0F)),
)
# Intel's cards; every other Intel display function sits in the processor or chipset: Arctic Sound,
# Ponte Vecchio, DG1, DG2 and ATS-M, Crescent Island, Battlemage.
INTEL_CARDS = (
    *((0x0201, 0x0210), (0x0B69, 0x0B6E), (0x0BD0, 0x0BDB), (0x4905, 0x4909), (0x5690, 0x56CF)),
    *((0x674C, 0x6750), (0xE200, 0xE2FF)),
)


def detect(probe: Probe) -> Seen:
    """Return the GPUs that the PCI bus shows."""
    seen = Seen()
    known: set[str] = set()
    for route, functions in routes(probe):
        for function in functions:
            why = why_not(function, functions)
            if why == "":
                seen.sightings.append(_sighting(function, route))
            elif why and function.address not in known:
                known.add(function.address)
                seen.pass_over(why, function.name, function.address, function.pci_id)
    for output in outputs_of(probe, "udevadm"):  # display devices on no bus, as a Raspberry Pi's
        for name in parse_udev_platforms(output.stdout):
            seen.pass_over("platform device of another vendor", name)
    return seen


def routes(probe: Probe) -> Iterator[tuple[str, list[Function]]]:
    """Yield each route's functions; tools are asked only where sysfs shows none."""
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
    """Return the functions of the bus; of the display cards alone where the bus is not shown."""
    folders = [f"{BUS}/{name}" for name in names_in(probe, BUS)]
    if not folders:
        cards = names_in(probe, CARDS)
        folders = [f"{CARDS}/{name}/device" for name in cards if name[4:].isdigit()]
    functions = [f for folder in folders if (f := function_at(probe, folder)) is not None]
    if any(function.driver for function in functions):
        for function in functions:
            function.driver_shown = True
    return functions


def function_at(probe: Probe, folder: str) -> Function | None:
    """Return one function from its uevent, or from its id files where there is none."""
    target = probe.read_link(folder)  # a card's folder is a link to its place on the bus
    slot = (target if isinstance(target, str) else folder).rpartition("/")[2]
    function = parse_uevent(text_at(probe, f"{folder}/uevent"), slot)
    if function is None:
        texts = (text_at(probe, f"{folder}/{part}") for part in ID_FILES)
        function = Function.of_files(slot, *texts)
    if function is not None and not function.driver:
        driver = probe.read_link(f"{folder}/driver")
        function.driver = driver.rpartition("/")[2] if isinstance(driver, str) else ""
    return function


def why_not(function: Function, others: Iterable[Function]) -> str | None:
    """Return ``""`` for a GPU, why it is none, or None for what nobody takes for one."""
    vendor = function.vendor
    ours = vendor in VENDORS
    if function.kind not in DISPLAY:
        if function.kind == 0x1200 and vendor == "1002":
            return ""  # Instinct cards from MI300 on have the class of an accelerator
        if function.kind in ACCELERATORS:
            return "processing accelerator, not a GPU"
        return "NVSwitch or bridge" if vendor == "10de" and function.kind == 0x0680 else None
    for why, vendors in NOT_COMPUTING.items():
        if vendor in vendors.split():
            return why
    if function.pci_id in BMC_IDS:
        return "bmc"
    if not ours:
        return "display of another vendor"
    slot, _, number = function.address.rpartition(".")
    first = f"{slot}.0"
    if number != "0" and any(
        other.address == first and other.vendor == vendor and other.kind in DISPLAY
        for other in others
    ):
        return "another function of the same GPU"
    return ""


def integrated(pci_id: str | None) -> bool | None:
    """Return whether a GPU is part of the processor or chipset, from its PCI id."""
    if pci_id is None:
        return None
    vendor, device = pci_id.split(":")[0], int(pci_id.split(":")[1], 16)
    ranges = {"10de": NVIDIA_PARTS, "1002": AMD_PARTS, "8086": INTEL_CARDS}.get(vendor)
    if ranges is None:
        return None
    inside = any(low <= device <= high for low, high in ranges)
    return not inside if vendor == "8086" else inside


def _sighting(function: Function, route: str) -> Sighting:
    driver: Reading[Driver]
    if function.driver:
        driver = Driver(function.driver)
    elif function.driver_shown:
        driver = Failed("no kernel driver is bound to it", kind="no_kernel_driver")
    else:
        driver = Absent(f"{route} does not show drivers")
    facts = kept(
        pci_address=function.address,
        pci_id=function.pci_id,
        name=function.name or None,
        integrated=integrated(function.pci_id),
        driver=driver,
    )
    return Sighting(VENDORS[function.vendor], route, facts, trust=1)
