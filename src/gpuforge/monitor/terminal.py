"""A sample as lines of text for a terminal of any size; pure functions.

What is not known is shown as ``-``. Colour only repeats what a word says.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Sequence
from typing import Any

from gpuforge.facts import Failed, Reading, known
from gpuforge.monitor.sample import ProcessSample, Sample
from gpuforge.readings.model import DeviceReading, HostReading
from gpuforge.units import format_bytes, format_seconds, significant

BAR = 20
# Pressure on a memory: the share in use from which it has this name, and its colour.
_PRESSURES = ((0.99, "critical", "31"), (0.95, "high", "31"), (0.8, "moderate", "33"))
_COLUMNS = (("PID", 7), ("CPU", 6), ("MEMORY", 9), ("GPU MEM", 9), ("CALLS", 8), ("QUEUE", 6),
            ("RUN", 4), ("BATCH", 6))  # fmt: skip


def screen(
    sample: Sample, width: int, height: int, *, own: str = "", keys: str = "", colour: bool = False
) -> list[str]:
    """Return the lines that show a sample, none wider than `width`, at most `height`.

    Parameters
    ----------
    own
        What looking costs, in words.
    keys
        What the user can press.
    colour
        Whether the terminal shows colours.
    """
    paint = _paint if colour else lambda text, code: text
    clock = time.strftime("%H:%M:%S", time.localtime(sample.taken_at))
    title = f"gpuforge top  {clock}  {own}"
    lines = [paint(fit(f"{title}{keys:>{max(1, width - columns(title))}}", width), "7")]
    body = _host(sample.host)
    for device in sample.devices:
        body += _device(device)
    if not sample.devices:
        body.append(("no GPU found", ""))
    lines += [paint(fit(text, width), code) if code else fit(text, width) for text, code in body]
    room = max(0, height - len(lines) - 2)
    shown = (
        sample.processes[:room] if len(sample.processes) <= room else sample.processes[: room - 1]
    )
    heading = "".join(f"{name:>{size}}" for name, size in _COLUMNS) + "  PROGRAM, what it does now"
    lines += ["", paint(fit(heading, width), "1")]
    lines += [fit(_process(one, sample.devices), width) for one in shown]
    if len(shown) < len(sample.processes):
        lines.append(fit(f"and {len(sample.processes) - len(shown)} more", width))
    if not sample.processes:
        lines.append(fit("no gpuforge process of this user is running", width))
    return lines[:height]


def _host(host: HostReading) -> list[tuple[str, str]]:
    total, free = known(host.memory_total_bytes), known(host.memory_available_bytes)
    share = 1 - free / total if total and free is not None else None
    load = " ".join(f"{one:.2f}" for one in known(host.load_averages) or ()) or "-"
    waits = (host.cpu_pressure_ratio, host.memory_pressure_ratio, host.io_pressure_ratio)
    waiting = ", ".join(
        f"{what} {_percent(one).strip()}"
        for what, one in zip(("CPU", "memory", "I/O"), waits, strict=True)
    )
    used = total - free if total is not None and free is not None else None
    name, code = _pressure(share)
    swap = f"  swap {_bytes(host.swap_used_bytes)}" if known(host.swap_total_bytes) else ""
    return [
        (f"CPU  {bar(known(host.utilization_ratio))} {_percent(host.utilization_ratio)}"
         f"  {known(host.cores) or '-'} cores  load {load}", ""),
        (f"Mem  {bar(share)} {_percent(share)}  {_bytes(used)} of {_bytes(total)}{swap}{name}", code),
        (f"     waiting for {waiting}", ""),
    ]  # fmt: skip


def _device(device: DeviceReading) -> list[tuple[str, str]]:
    used, total = known(device.memory_used_bytes), known(device.memory_total_bytes)
    share = used / total if used is not None and total else None
    name, code = _pressure(share)
    lines = [
        (f"GPU {device.index}  {known(device.name) or device.vendor}"
         f"  {known(device.pci_address) or ''}", "1"),
    ]  # fmt: skip
    broken = device.utilization_ratio
    if isinstance(broken, Failed):
        return [*lines, (f"     failed: {broken.reason}", "31")]
    throttled = known(device.throttle_reasons)
    return [
        *lines,
        (f"busy {bar(known(broken))} {_percent(broken)}  {_of(device)}", ""),
        (f"mem  {bar(share)} {_percent(share)}  {_bytes(used)} of {_bytes(total)}{name}", code),
        (f"     {_link(device)}", ""),
        *([(f"     throttled: {', '.join(throttled)}", "33")] if throttled else []),
    ]


def _of(device: DeviceReading) -> str:
    watts, limit = known(device.power_watts), known(device.power_limit_watts)
    heat, clock = known(device.temperature_celsius), known(device.core_clock_hertz)
    most = known(device.core_clock_max_hertz)
    parts = [
        f"{significant(watts)} of {significant(limit)} W" if watts is not None and limit
        else f"{significant(watts)} W" if watts is not None else "- W",
        f"{significant(heat)} °C" if heat is not None else "- °C",
        f"{clock / 1e6:.0f} of {most / 1e6:.0f} MHz" if clock is not None and most
        else f"{clock / 1e6:.0f} MHz" if clock is not None else "- MHz",
    ]  # fmt: skip
    return "  ".join(parts)


def _link(device: DeviceReading) -> str:
    generation, width = known(device.link_generation), known(device.link_width)
    most = known(device.link_generation_max), known(device.link_width_max)
    if generation is None or width is None:
        return "PCIe -"
    best = (
        f" (at most {most[0]} x{most[1]})"
        if None not in most and most != (generation, width)
        else ""
    )
    sides = (
        ("in", device.link_received_bytes_per_second),
        ("out", device.link_sent_bytes_per_second),
    )
    traffic = "".join(f"  {way} {_bytes(rate)}/s" for way, rate in sides if known(rate) is not None)
    return f"PCIe {generation} x{width}{best}{traffic}"


def _process(one: ProcessSample, devices: Sequence[DeviceReading]) -> str:
    shown = one.published
    on_gpu = [
        known(use.memory_bytes)
        for device in devices
        for use in known(device.processes) or ()
        if use.pid == shown.pid
    ]
    held = sum(size for size in on_gpu if size is not None) if on_gpu else None
    calls = sum(use.calls for use in shown.backends)
    cells = (
        shown.pid, _percent(one.cpu_ratio).strip(), _bytes(one.resident_bytes), _bytes(held),
        _count(calls), _count(shown.queued), _count(shown.running), _count(shown.batches),
    )  # fmt: skip
    row = "".join(f"{cell:>{size}}" for cell, (_, size) in zip(cells, _COLUMNS, strict=True))
    most = max(shown.backends, key=lambda use: use.seconds, default=None)
    where = f" on {most.name} {format_seconds(most.seconds)}" if most else ""
    doing = f": {shown.span}" if shown.span else ""
    return f"{row}  {shown.program}{where}{doing}"


def bar(share: float | None) -> str:
    """Return a share as a bar, an empty one where it is not known."""
    filled = round(min(1.0, max(0.0, share or 0.0)) * BAR)
    return f"[{'|' * filled:<{BAR}}]"


def _pressure(share: float | None) -> tuple[str, str]:
    """Return the name of the pressure on a memory, and its colour; none where it is low."""
    for least, name, code in _PRESSURES:
        if share is not None and share >= least:
            return f"  pressure: {name}", code
    return "", ""


def _percent(share: Reading[float] | None) -> str:
    number = known(share) if share is not None else None
    return "   - " if number is None else f"{100 * number:3.0f} %"


def _bytes(size: Reading[Any] | None) -> str:
    number = known(size) if size is not None else None
    return "-" if number is None else format_bytes(round(number))


def _count(number: int) -> str:
    for unit, scale in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= 10 * scale:
            return f"{number // scale}{unit}"
    return str(number)


def _paint(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


def columns(text: str) -> int:
    """Return how many columns a terminal takes for a text; wide letters take two."""
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def fit(text: str, width: int) -> str:
    """Return a text in no more than `width` columns, the end of a longer one left out."""
    if len(text) <= width and text.isascii():
        return text
    taken, kept = 0, []
    for letter in text:
        taken += _columns(letter)
        if taken > width:
            break
        kept.append(letter if letter.isprintable() else "?")
    return "".join(kept)
