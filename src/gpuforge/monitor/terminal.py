"""Rendering a sample as lines of text for a terminal of any size; pure functions.

Unknown values are shown as ``-``. Colour only repeats what the text says.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Sequence
from typing import Any

from gpuforge.facts import Failed, Reading, known
from gpuforge.monitor.sample import ProcessSample, Sample
from gpuforge.published import Published
from gpuforge.readings.model import DeviceReading, HostReading
from gpuforge.units import format_bytes, format_seconds, significant

BAR = 20
SHOWN_LOSS = 0.01
"""Share of the time of calls from which the time lost is shown."""
OTHERS = 9
"""Lines needed for everything but GPUs: title, host, headings, and some processes."""
# Memory pressure: the share in use from which a level applies, its name and its colour.
_PRESSURES = ((0.99, "critical", "31"), (0.95, "high", "31"), (0.8, "moderate", "33"))
_COLUMNS = (("PID", 7), ("CPU", 6), ("MEMORY", 9), ("GPU MEM", 9), ("CALLS", 8), ("QUEUE", 6),
            ("RUN", 4), ("BATCH", 6))  # fmt: skip


def screen(
    sample: Sample, width: int, height: int, *, own: str = "", keys: str = "", colour: bool = False
) -> list[str]:
    """Return the lines that show a sample: at most `height` lines of at most `width` columns.

    Parameters
    ----------
    own
        The cost of monitoring, as text.
    keys
        The keys that the user can press, as text.
    colour
        Whether to use colours.
    """
    paint = _paint if colour else lambda text, code: text
    clock = time.strftime("%H:%M:%S", time.localtime(sample.taken_at))
    title = f"gpuforge top  {clock}  {own}"
    room = max(1, width - columns(keys))
    lines = [paint(fit(f"{fit(title, room - 1):<{room}}{keys}".rstrip(), width), "7")]
    body = [*_host(sample.host), *_devices(sample, height)]
    lines += [paint(fit(text, width), code) if code else fit(text, width) for text, code in body]
    heading = "".join(f"{name:>{size}}" for name, size in _COLUMNS) + "  PROGRAM AND ACTIVITY"
    lines += ["", paint(fit(heading, width), "1")]
    lines += [fit(text, width) for text in _processes(sample, height - len(lines))]
    return lines[:height]


def _devices(sample: Sample, height: int) -> list[tuple[str, str]]:
    """Return the lines of all GPUs: one line per GPU if there is no room for more."""
    lines = [line for device in sample.devices for line in _device(device)]
    if len(lines) > height - OTHERS:
        lines = [_in_one_line(device) for device in sample.devices]
    lines += [(f"failed: {one.vendor}: {one.message}", "31") for one in sample.failures]
    return lines if sample.devices else [*lines, ("no GPU found", "")]


def _processes(sample: Sample, room: int) -> list[str]:
    """Return the lines of the processes, busiest first, and the number of those not shown."""
    if not sample.processes:
        return ["no gpuforge processes of this user are running"]
    ones = sorted(sample.processes, key=lambda one: -(known(one.cpu_ratio) or 0.0))
    most = room if len(ones) <= room else max(0, room - 1)
    lines = [_process(one, sample.devices) for one in ones[:most]]
    return lines if len(ones) <= most else [*lines, f"and {len(ones) - most} more"]


def _host(host: HostReading) -> list[tuple[str, str]]:
    total, free = known(host.memory_total_bytes), known(host.memory_available_bytes)
    load = " ".join(f"{one:.2f}" for one in known(host.load_averages) or ()) or "-"
    waits = {"CPU": host.cpu_pressure_ratio, "memory": host.memory_pressure_ratio,
             "I/O": host.io_pressure_ratio}  # fmt: skip
    waiting = ", ".join(f"{what} {_percent(ratio).strip()}" for what, ratio in waits.items())
    swap = f"  swap {_bytes(host.swap_used_bytes)}" if known(host.swap_total_bytes) else ""
    busy = host.utilization_ratio
    cores = f"{known(host.cores) or '-'} cores"
    return [
        (f"CPU  {bar(known(busy))} {_percent(busy)}  {cores}  load {load}", ""),
        _memory("Mem", None if free is None or total is None else total - free, total, swap),
        (f"     waiting for {waiting}", ""),
    ]


def _memory(name: str, used: int | None, total: int | None, more: str = "") -> tuple[str, str]:
    """Return the line of a memory, and its colour."""
    share = used / total if used is not None and total else None
    pressure, code = _pressure(share)
    shown = f"{_bytes(used)} of {_bytes(total)}{more}{pressure}"
    return f"{name:<4} {bar(share)} {_percent(share)}  {shown}", code


def _device(device: DeviceReading) -> list[tuple[str, str]]:
    name, place = known(device.name) or device.vendor, known(device.pci_address) or ""
    lines = [(f"GPU {device.index}  {name}  {place}", "1")]
    busy, throttled = device.utilization_ratio, known(device.throttle_reasons)
    if isinstance(busy, Failed):
        return [*lines, (f"     failed: {busy.reason}", "31")]
    lines += [
        (f"busy {bar(known(busy))} {_percent(busy)}  {_of(device)}", ""),
        _memory("mem", known(device.memory_used_bytes), known(device.memory_total_bytes)),
        (f"     {_link(device)}", ""),
    ]
    return [*lines, (f"     throttled: {', '.join(throttled)}", "33")] if throttled else lines


def _in_one_line(device: DeviceReading) -> tuple[str, str]:
    (name, _), *rest = _device(device)
    if isinstance(device.utilization_ratio, Failed):
        return f"GPU {device.index}  {rest[0][0].strip()}", "31"
    memory = f"{_bytes(device.memory_used_bytes)} of {_bytes(device.memory_total_bytes)}"
    held = "  throttled" if known(device.throttle_reasons) else ""
    start = f"GPU {device.index:<2}  {_percent(device.utilization_ratio)}  {memory:<20}"
    heat = _limited(known(device.temperature_celsius), None, "°C")
    now = f"{_limited(known(device.power_watts), None, 'W'):>6}  {heat}"
    return f"{start}  {now}{held}  {name.partition('  ')[2]}", "33" if held else ""


def _of(device: DeviceReading) -> str:
    """Return power, temperature and clock; power and clock with their limits if known."""
    mega = [known(one) for one in (device.core_clock_hertz, device.core_clock_max_hertz)]
    now, most = (None if one is None else round(one / 1e6) for one in mega)
    return "  ".join((
        _limited(known(device.power_watts), known(device.power_limit_watts), "W"),
        _limited(known(device.temperature_celsius), None, "°C"),
        _limited(now, most, "MHz"),
    ))  # fmt: skip


def _limited(number: float | None, most: float | None, unit: str) -> str:
    limit = f" of {significant(most)}" if number is not None and most else ""
    return f"{'-' if number is None else significant(number)}{limit} {unit}"


def _link(device: DeviceReading) -> str:
    now = known(device.link_generation), known(device.link_width)
    most = known(device.link_generation_max), known(device.link_width_max)
    if None in now:
        return "PCIe -"
    best = f" (at most {most[0]} x{most[1]})" if None not in most and most != now else ""
    sides = {"in": device.link_received_bytes_per_second, "out": device.link_sent_bytes_per_second}
    rates = (f"  {way} {_bytes(rate)}/s" for way, rate in sides.items() if known(rate) is not None)
    return f"PCIe {now[0]} x{now[1]}{best}{''.join(rates)}"


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
    return f"{row}  {shown.program}{where}{_unusual(shown)}{doing}"


def _unusual(shown: Published) -> str:
    """Return the time that calls lost to the best known backend, and how often memory was short."""
    seconds = sum(use.seconds for use in shown.backends)
    lost = sum(use.lost_seconds for use in shown.backends)
    ran_out = sum(use.pressure.exhausted for use in shown.backends)
    short = sum(use.pressure.warnings + use.pressure.criticals for use in shown.backends)
    told = {
        f"{_percent(lost / seconds).strip()} lost": bool(seconds) and lost >= SHOWN_LOSS * seconds,
        f"memory ran out {ran_out}x": ran_out, f"memory short {short}x": short,
    } if seconds else {}  # fmt: skip
    return "".join(f", {what}" for what, is_so in told.items() if is_so)


def bar(share: float | None) -> str:
    """Return a share as a bar; an unknown one as an empty bar."""
    filled = round(min(1.0, max(0.0, share or 0.0)) * BAR)
    return f"[{'|' * filled:<{BAR}}]"


def _pressure(share: float | None) -> tuple[str, str]:
    """Return the text of the memory pressure level and its colour; empty if it is low."""
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
    """Return how many terminal columns a text takes; wide characters take two."""
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def fit(text: str, width: int) -> str:
    """Return a text truncated to `width` columns, with unprintable characters as ``?``."""
    if len(text) <= width and text.isascii():
        return text
    taken, kept = 0, []
    for letter in text:
        taken += _columns(letter)
        if taken > width:
            break
        kept.append(letter if letter.isprintable() else "?")
    return "".join(kept)
