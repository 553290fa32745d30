"""Machines described in pasted text: an issue report, a log, the dump of an environment.

The text is split into the outputs of the tools in it (`sections`), which are read as if each had
been recorded under its own name. This package also holds the readers of tools that no detector
runs, one module each: a module with ``PROGRAM`` and ``read(text, route, seen)`` is a reader. None
of them is imported on a live machine.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gpuforge.facts import Device, Machine, known
from gpuforge.probe import Probe

__all__ = ["machine_from_text", "unpacked"]


def machine_from_text(text: str) -> Machine:
    """Return the machine that `text` describes; whatever it does not show is unknown.

    The text may be of any kind and length; it never raises. This machine is not read.
    """
    from gpuforge.detect.machine import detect_machine
    from gpuforge.detect.text.pasted import PastedProbe
    from gpuforge.detect.text.sections import outputs_in
    from gpuforge.detect.text.thread import opening_posts

    own = opening_posts(text)
    for part in dict.fromkeys((own, text)):  # who tells of no GPU may be asked for it
        probe = PastedProbe(outputs_in(part))
        machine = detect_machine(probe, vendor_seconds=60, parallel=False)
        if machine.devices or machine.error:
            break
    return replace(machine, devices=tuple(_sized(one) for one in machine.devices))


def _sized(device: Device) -> Device:
    """Return a device with the memory size in its name, such as "A100 80GB", if no other is known.

    A live machine is asked; a text may show no more than the name.
    """
    sizes = set(re.findall(r"(?<![\d.])(\d{1,3})\s?GB\b", known(device.name) or ""))
    if len(sizes) != 1 or known(device.memory_total_bytes) is not None:
        return device
    origins = {**device.origins, "memory_total_bytes": "its name"}
    return replace(device, memory_total_bytes=int(sizes.pop()) << 30, origins=origins)


def unpacked(probe: Probe) -> Probe:
    """Return a recorded machine with the outputs found in its files of other names."""
    from gpuforge.detect.pci import BUS
    from gpuforge.detect.source import names_in
    from gpuforge.detect.text.pasted import PastedProbe
    from gpuforge.detect.text.sections import LINES, PROSE, asked_for, outputs_in
    from gpuforge.probe import Output

    found = []
    if probe.platform == "unknown":  # pasted text was split already
        return probe
    outputs = [one for one in probe.recorded("") or () if isinstance(one, Output)]
    for output in outputs:
        if not asked_for(output.source):
            found += outputs_in(output.stdout, output.source)
    pasted = [name for name, _ in found].count(LINES)
    if len(outputs) > pasted or names_in(probe, BUS):
        found = [one for one in found if one[0] != PROSE]  # recorded outputs outweigh prose
    return PastedProbe(found, probe) if found else probe
