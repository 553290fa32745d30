"""``gpuforge detect``: the GPUs and the CPU of this machine, or of a recorded one."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from gpuforge import log, settings
from gpuforge.cli import machine_view, render
from gpuforge.cli.main import NOTHING
from gpuforge.detect import read_machine
from gpuforge.detect.differences import differences
from gpuforge.errors import UnknownName, WorkloadError
from gpuforge.facts import Host, Machine
from gpuforge.probe import LiveProbe, Probe, SnapshotProbe
from gpuforge.units import format_seconds

SUMMARY = "list the GPUs and the CPU of this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--snapshot", metavar="DIR", help="read a recorded machine instead of this one"
    )
    parser.add_argument(
        "--from",
        dest="pasted",
        metavar="FILE|-",
        help="read the machine from the text of a bug report or log",
    )
    parser.add_argument(
        "--record", metavar="DIR", help="record this machine in a new folder, for a bug report"
    )
    parser.add_argument("--refresh", action="store_true", help="ignore the cache and detect again")
    parser.add_argument("--cpu-only", action="store_true", help="do not read GPUs")
    parser.add_argument("--watch", action="store_true", help="keep running, and report each change")
    parser.add_argument(
        "--why",
        action="store_true",
        help="show where each fact comes from, how scores add up, and what is not a GPU",
    )


def run(arguments: argparse.Namespace) -> int:
    """Detect and show the machine; return 1 if a driver fails."""
    if arguments.watch and arguments.json:
        raise UnknownName(
            "gpuforge detect: --watch and --json cannot be combined",
            hint="run 'gpuforge detect --json --refresh' repeatedly instead",
        )
    machine = _machine(arguments)
    _log_phases(machine)
    told = machine.devices or machine.failures or machine.others or machine.toolkits
    if arguments.pasted and not told and machine.host == Host():
        if arguments.json:
            render.document(machine_view.document(machine))
        render.message("no machine was recognised in the text")
        return NOTHING
    if arguments.json:
        render.document(machine_view.document(machine))
    else:
        pasted = bool(arguments.pasted)
        render.data(machine_view.text(machine, cpu_only=arguments.cpu_only, pasted=pasted))
    if arguments.why and (reasons := machine_view.reasons(machine)):
        show = render.message if arguments.json else render.data
        show(reasons)
    elif arguments.why:
        render.message("--why has nothing to show: it explains GPUs, and none was found")
    if machine.error and not arguments.json:
        command = f"explain {arguments.pasted}" if arguments.pasted else "doctor"
        render.message(f"next: 'gpuforge {command}' shows how to fix it")
    if arguments.watch:
        _watch(machine, arguments)
    return 1 if machine.status == "driver_error" else 0


def _machine(arguments: argparse.Namespace) -> Machine:
    flags = {"snapshot": "--snapshot", "record": "--record", "pasted": "--from"}
    sources = [flag for name, flag in flags.items() if getattr(arguments, name)]
    if len(sources) > 1:
        raise UnknownName(
            f"gpuforge detect: {' and '.join(sources)} cannot be combined", hint="use one of them"
        )
    if arguments.pasted:
        return _pasted(arguments)
    probe: Probe = SnapshotProbe(arguments.snapshot) if arguments.snapshot else LiveProbe()
    if arguments.record:
        return _record(Path(arguments.record))
    refresh = arguments.refresh or arguments.watch
    machine = read_machine(probe, refresh=refresh, cpu_only=arguments.cpu_only or None)
    if arguments.why and isinstance(probe, LiveProbe) and not arguments.cpu_only:
        from gpuforge.detect.opencl import open_platforms

        machine = replace(machine, toolkits=(*machine.toolkits, *open_platforms(probe)))
    return machine


def _pasted(arguments: argparse.Namespace) -> Machine:
    """Return the machine that a text describes, read from a file or stdin."""
    from gpuforge.detect.text import machine_from_text
    from gpuforge.probe.files import read

    if arguments.cpu_only or arguments.watch:
        raise UnknownName(
            "gpuforge detect: --from cannot be combined with --cpu-only or --watch",
            hint="remove them",
        )
    if arguments.pasted == "-":
        if sys.stdin.isatty():
            render.message("reading the text from the terminal; end it with Ctrl-D")
        return machine_from_text(_text(sys.stdin.buffer.read()))
    content = read(arguments.pasted, arguments.pasted)
    if not isinstance(content, bytes):
        raise WorkloadError(
            f"cannot read the text: {content.reason}",
            hint="name a file, or use - for standard input",
        )
    return machine_from_text(_text(content))


MOST_CONTROLS = 0.03
"""Share of control characters beyond which something is not text: in compressed files, one in nine
characters is one, and names of devices are found by chance."""


def _text(content: bytes) -> str:
    """Return what a user gave as text.

    Raises
    ------
    WorkloadError
        If it is not text.
    """
    from gpuforge.probe.files import text_of

    text = text_of(content)
    usual = "\0\a\b\t\n\f\r\x1b"  # NUL: the kernel's files may end with many
    controls = sum(text.count(chr(code)) for code in range(32) if chr(code) not in usual)
    if controls > MOST_CONTROLS * len(text):
        raise WorkloadError(
            f"this is not text: {controls} of {len(text)} characters are control characters",
            hint="give the output of a tool as text; unpack a compressed file first",
        )
    return text


def _watch(before: Machine, arguments: argparse.Namespace) -> NoReturn:
    """Detect repeatedly and print each change, until Ctrl-C."""
    interval = settings.load().settings.monitor_interval
    render.message(f"checking every {format_seconds(interval)}; press Ctrl-C to stop")
    while True:
        time.sleep(interval)
        probe = SnapshotProbe(arguments.snapshot) if arguments.snapshot else LiveProbe()
        machine = read_machine(probe, refresh=True, cpu_only=arguments.cpu_only or None)
        for change in differences(before, machine):
            render.data(f"{time.strftime('%H:%M:%S')} {change}")
        before = machine


def _record(folder: Path) -> Machine:
    """Detect without opening libraries, whose answers cannot be recorded, and save a snapshot."""
    from gpuforge.probe.recording import RecordingProbe

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WorkloadError(f"{folder} exists and is not empty", hint="name a new folder")
    probe = RecordingProbe(LiveProbe(), libraries=False)
    machine = read_machine(probe)
    try:
        files = probe.save(folder)
    except OSError as error:
        raise WorkloadError(
            f"{folder} cannot be written: {error.strerror}", hint="name another folder"
        ) from None
    render.message(
        f"{len(files)} files are in {folder}, without serial numbers and user names: "
        "review them before you share them"
    )
    return machine


def _log_phases(machine: Machine) -> None:
    logger = log.logger("detect")
    where = "taken from the cache" if machine.from_cache else "detected"
    logger.info("%s in %s", where, format_seconds(machine.elapsed_seconds))
    for name, seconds in machine.timings.items():
        logger.info("%s took %s", name, format_seconds(seconds))
    for note in machine.notes:
        logger.info("%s", note)
