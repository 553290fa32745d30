"""Machines that were pasted into a text: an issue report, a log, the dump of an environment.

The text is parted into the outputs that it holds (`sections`), and those are read as if each had
been recorded under its own name. Readers of what no detector asks a live machine for lie here, one
module for each tool: what has ``PROGRAM`` and ``read(text, route, seen)`` is a reader. None of them
is imported on a live machine.
"""

from __future__ import annotations

from gpuforge.facts import Machine
from gpuforge.probe import Probe

__all__ = ["machine_from_text", "unpacked"]


def machine_from_text(text: str) -> Machine:
    """Return the machine that `text` shows; what it does not show is left unknown.

    The text may be of any kind and length; it never raises. Nothing of this machine is read.
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
    return machine


def unpacked(probe: Probe) -> Probe:
    """Return a recorded machine with the outputs that its files under other names hold."""
    from gpuforge.detect.pci import BUS
    from gpuforge.detect.source import names_in
    from gpuforge.detect.text.pasted import PastedProbe
    from gpuforge.detect.text.sections import LINES, PROSE, asked_for, outputs_in
    from gpuforge.probe import Output

    found = []
    if probe.platform == "unknown":  # a text alone was parted already
        return probe
    outputs = [one for one in probe.recorded("") or () if isinstance(one, Output)]
    for output in outputs:
        if not asked_for(output.source):
            found += outputs_in(output.stdout, output.source)
    pasted = [name for name, _ in found].count(LINES)
    if len(outputs) > pasted or names_in(probe, BUS):
        found = [one for one in found if one[0] != PROSE]  # what is said yields to what is shown
    return PastedProbe(found, probe) if found else probe
