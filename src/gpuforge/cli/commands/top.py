"""``gpuforge top``: the devices of all vendors and this user's gpuforge processes, live."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing

from gpuforge import settings
from gpuforge.cli import render
from gpuforge.errors import InvalidSettings
from gpuforge.monitor.sample import Sample, Sampler
from gpuforge.monitor.terminal import screen
from gpuforge.monitor.values import document
from gpuforge.probe import LiveProbe, Probe, SnapshotProbe
from gpuforge.units import format_seconds, parse_seconds, significant

SUMMARY = "show GPUs, CPU, memory and gpuforge processes live"
ONCE_SECONDS = 0.2
"""Time between the two readings of ``--once`` and ``--json``, which rates need."""
PLAIN_WIDTH, PLAIN_HEIGHT = 120, 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    parser.add_argument("--once", action="store_true", help="print the view once and exit")
    parser.add_argument("--json", action="store_true", help="print one JSON document and exit")
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        help="time between two readings (default: the setting monitor_interval)",
    )
    parser.add_argument(
        "--snapshot", metavar="DIR", help="show a recorded machine instead of this one"
    )


def run(arguments: argparse.Namespace) -> int:
    """Show readings until the user quits."""
    interval = settings.load().settings.monitor_interval
    if arguments.interval is not None:
        interval = parse_seconds(arguments.interval, "--interval ")
    if interval < 0.05:
        raise InvalidSettings(
            f"gpuforge top: --interval {arguments.interval} is below 0.05 s", hint="use 1 or more"
        )
    probe: Probe = SnapshotProbe(arguments.snapshot) if arguments.snapshot else LiveProbe()
    draws = os.name == "posix" and os.environ.get("TERM", "") not in ("", "dumb")
    with closing(Sampler(probe)) as sampler:
        sampler.take()
        if arguments.json or arguments.once:
            time.sleep(min(interval, ONCE_SECONDS))
            _once(sampler.take(), as_json=arguments.json)
        elif draws and sys.stdout.isatty() and sys.stdin.isatty():
            _live(sampler, interval)
        else:
            _lines(sampler, interval)
    return 0


def _once(sample: Sample, *, as_json: bool) -> None:
    if as_json:
        render.document(document(sample))
    else:
        render.data("\n".join(_plain(sample)))


def _plain(sample: Sample) -> list[str]:
    own = f"this reading took {format_seconds(sample.cost_seconds)} of CPU time"
    width = shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns
    return screen(sample, width, PLAIN_HEIGHT, own=own)


def _lines(sampler: Sampler, interval: float) -> None:
    """Print one view after the other, for pipes and simple terminals."""
    while True:
        time.sleep(interval)
        render.data("\n".join([*_plain(sampler.take()), ""]))


def _live(sampler: Sampler, interval: float) -> None:
    """Draw on the terminal until q is pressed; Ctrl-C and Ctrl-Z do what they usually do."""
    while _draw(sampler, interval):
        signal.raise_signal(signal.SIGTSTP)


def _draw(sampler: Sampler, interval: float) -> bool:
    """Draw until the user quits; return True instead if the program is to be suspended."""
    colour = not os.environ.get("NO_COLOR")
    cost = ""
    with _keyboard() as signals, render.whole_screen():
        sample, before, spent = sampler.take(), time.monotonic(), time.process_time()
        due = before + interval
        while True:
            own = f"every {format_seconds(interval)}{cost}"
            size = os.get_terminal_size(1)  # shutil's version would prefer a stale COLUMNS
            render.screen(
                screen(sample, size.columns, size.lines, own=own, keys="q quits", colour=colour)
            )
            ready, _, _ = select.select([0, signals], [], [], max(0.0, due - time.monotonic()))
            if signals in ready and signal.SIGTSTP in os.read(signals, 512):
                return True
            if 0 in ready and os.read(0, 64).lower()[:1] in (b"q", b""):
                return False
            if (now := time.monotonic()) >= due:
                share = (time.process_time() - spent) / (now - before)
                cost = f", using {significant(100 * share)} % of a core"
                before, spent, due = now, time.process_time(), now + interval
                sample = sampler.take()


@contextlib.contextmanager
def _keyboard() -> Iterator[int]:
    """Read single keys without echo; yield a descriptor of which signals are read."""
    import termios
    import tty

    before = termios.tcgetattr(0)
    told, ring = os.pipe()
    os.set_blocking(ring, False)
    handled = signal.SIGWINCH, signal.SIGTSTP
    handlers = [(one, signal.signal(one, lambda *_: None)) for one in handled]
    wakeup = signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
    try:
        tty.setcbreak(0)
        yield told
    finally:
        signal.set_wakeup_fd(wakeup)
        for one, handler in handlers:
            signal.signal(one, handler)
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        os.close(told)
        os.close(ring)
