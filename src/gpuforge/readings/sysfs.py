"""Reading the sysfs files of kernel drivers for GPUs: numbers, sensors, and the PCIe link.

Sources: Linux ``Documentation/hwmon/sysfs-interface.rst`` (units of sensors) and
``Documentation/ABI/testing/sysfs-bus-pci`` (link speed and width).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gpuforge.detect import pci
from gpuforge.detect.source import names_in, text_at
from gpuforge.facts import Absent, Device, Failed, Reading, known
from gpuforge.probe import Probe

MICRO, MILLI, MHZ = 1e-6, 1e-3, 1e6
# PCIe generation by gigatransfers per second of a lane (PCI Express Base Specification 6.0).
GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6, "5": 2, "8": 3}
LINK = ("link_generation", "link_generation_max", "link_width", "link_width_max")
OWN_SWITCH = Absent("the system does not show the card's own PCIe switch, whose link matters")


def card_of(probe: Probe, device: Device) -> str | None:
    """Return the DRM folder of a device, such as ``/sys/class/drm/card0``; None if it has none."""
    address = known(device.pci_address)
    for name in names_in(probe, pci.CARDS):
        if re.fullmatch(r"card\d+", name):
            found = pci.function_at(probe, f"{pci.CARDS}/{name}/device")
            if found is not None and found.address == address:
                return f"{pci.CARDS}/{name}"
    return None


def number(probe: Probe, path: str, unit: float = 1.0) -> Reading[Any]:
    """Return the integer in a file times `unit`; an int if `unit` is one."""
    text = probe.read_text(path)
    if not isinstance(text, str):
        return text
    try:
        return int(text.strip(" \r\n\0")) * unit
    except ValueError:
        return Failed(f"{path} contains {text[:40]!r}, not a number")


def first(*readings: Reading[Any]) -> Reading[Any]:
    """Return the first reading that has a value; if none has, the first one."""
    return next((one for one in readings if known(one) is not None), readings[0])


def hwmon(probe: Probe, folder: str) -> Callable[[str, float], Reading[Any]]:
    """Return a function that reads a sensor of the device at `folder` by file name and unit."""
    names = names_in(probe, f"{folder}/hwmon")
    if not names:
        return lambda name, unit: Absent("the driver shows no sensors")
    return lambda name, unit: number(probe, f"{folder}/hwmon/{names[0]}/{name}", unit)


def link(probe: Probe, folder: str, address: str, *, switched: bool) -> dict[str, Any]:
    """Return generation and width of the link between a card and its slot: current and maximum.

    The GPU of a card with its own PCIe switch reports the link inside the card, which never
    changes; the link of interest is the one at the switch's upstream port.

    Parameters
    ----------
    switched
        Whether all cards of this driver have such a switch.
    """
    upper = _switch(probe, address)
    if switched and upper is None:
        return dict.fromkeys(LINK, OWN_SWITCH)
    found: dict[str, Any] = {}
    for ending, prefix in (("", "current"), ("_max", "max")):
        speed = text_at(probe, f"{upper or folder}/{prefix}_link_speed")
        generation = GENERATIONS.get(speed.partition(" ")[0])
        found[f"link_generation{ending}"] = generation or Absent(f"its link speed is {speed!r}")
        width = number(probe, f"{upper or folder}/{prefix}_link_width", 1)
        found[f"link_width{ending}"] = width or Absent("it has no PCIe link of its own")
    return found


def _switch(probe: Probe, address: str) -> str | None:
    """Return the folder of the upstream port of a card's own switch, made by the GPU's vendor."""
    place = probe.read_link(f"{pci.BUS}/{address}")
    if not isinstance(place, str):
        return None
    # .../pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0: host, port, switch, GPU
    way = place.partition("/pci")[2].split("/")[2:-1]
    vendor = text_at(probe, f"{pci.BUS}/{address}/vendor")
    own = [one for one in way if vendor and text_at(probe, f"{pci.BUS}/{one}/vendor") == vendor]
    return f"{pci.BUS}/{own[0]}" if own else None
