"""``gpuforge calibrate``: measure this machine's backends, ten seconds at a time, resumable."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gpuforge.cli import render
from gpuforge.cli.main import FINE, NOTHING
from gpuforge.installation import install_command
from gpuforge.profiler.rates import UNITS
from gpuforge.units import format_bytes, format_seconds, significant

if TYPE_CHECKING:
    from gpuforge.runtime.calibration.probes import Point
    from gpuforge.runtime.session import Session

SUMMARY = "measure how fast each backend is here, compared with NumPy"
BYTES_PER_ELEMENT = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        "--list", action="store_true", help="list the available backends without measuring"
    )
    only.add_argument(
        "--reset", action="store_true", help="discard earlier measurements and start over"
    )
    only.add_argument("--export", metavar="FILE", help="write the measurements to FILE")
    only.add_argument(
        "--import",
        metavar="FILE",
        dest="read",
        help="read measurements from FILE (same hardware only)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the remaining measurements; or list backends, or export or import measurements."""
    from gpuforge.runtime.session import default_session

    start = perf_counter()
    session = default_session()
    if arguments.export or arguments.read:
        return _exchange(session, arguments)
    if not arguments.list:
        render.message("measuring the backends; this takes about ten seconds")
    failures = _open_all(session)
    if arguments.list:
        return _list(session, failures, as_json=arguments.json)
    if not session.backends():
        render.message("nothing to measure: NumPy is the only backend that works here")
        for line in failures:
            render.message(f"  {line}")
        render.message(f"hint: install another backend, such as JAX: {install_command('jax')}")
        return NOTHING
    if arguments.reset:
        from gpuforge.runtime.calibration import peaks, probes

        probes.forget(session.history)
        peaks.forget(session.history)
    _measure_peaks(session, start)
    points = _measure(session, start)
    _report(session, points, as_json=arguments.json)
    return FINE


def _exchange(session: Session, arguments: argparse.Namespace) -> int:
    """Export this machine's measurements to a file, or import those of a machine like it."""
    from pathlib import Path

    from gpuforge.runtime.calibration.exchange import export_constants, import_constants

    if arguments.export:
        points = export_constants(session.history, Path(arguments.export))
        done, text = "exported", f"wrote {points} measurements to {arguments.export}"
    else:
        points = import_constants(session.history, Path(arguments.read))
        done, text = "imported", f"read {points} new measurements from {arguments.read}"
    if session.history.problem:
        render.message(f"warning: {session.history.problem}")
    if arguments.json:
        render.document({"machine": session.history.machine, done: points})
    else:
        render.message(text)
    return FINE


def _open_all(session: Session) -> list[str]:
    for library in session.libraries.values():
        session.openings.open(library)
    return [f"{f.name}: {f.reason}" for lib in session.libraries.values() for f in lib.failures]


def _measure_peaks(session: Session, start: float) -> None:
    """Measure missing peaks until the time is up; those that are left are for the next run."""
    from gpuforge.runtime.calibration import peaks
    from gpuforge.runtime.calibration.probes import LIMIT_SECONDS

    for backend in (session.reference, *session.backends()):
        for what, told in peaks.measure(session.history, session.reference, backend):
            if "unknown" in told:
                render.message(f"highest rate of {backend.name}, {what}: {told['unknown']}")
            if perf_counter() - start > LIMIT_SECONDS:
                return


def _measure(session: Session, start: float) -> list[Point]:
    from tqdm import tqdm

    from gpuforge.runtime.calibration.probes import LIMIT_SECONDS, calibrate, plan_probes

    busy = _cpu_load()
    backends = session.backends()
    points: list[Point] = []
    total = sum(len(left) for _, _, left in plan_probes(session.history, backends))
    left = max(LIMIT_SECONDS - (perf_counter() - start), LIMIT_SECONDS / 2)
    with tqdm(
        total=total, unit=" measurements", leave=False, disable=not sys.stderr.isatty()
    ) as bar:
        for point in calibrate(session.history, session.reference, backends, limit=left):
            points.append(point)
            bar.set_description(f"{point.probe} on {point.backend}")
            bar.update()
    render.message(f"{len(points)} measurements in {format_seconds(perf_counter() - start)}")
    for line in _warnings(session, points, busy):
        render.message(line)
    return points


def _cpu_load() -> str:
    """Return the evidence that other programs use the CPU; empty if there is none."""
    from gpuforge.runtime.threads.contention import allowed_cores

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    cores = allowed_cores()
    return f"load {significant(load)} on {cores} cores" if load > cores else ""


def _warnings(session: Session, points: list[Point], busy: str) -> Iterator[str]:
    """Yield messages on what is missing in the measurements and what may be wrong with them."""
    from gpuforge.runtime.calibration.probes import plan_probes

    unable = {(p.probe, p.backend) for p in points if p.ratio is None and not p.unsteady}
    missing = sum(
        (probe, backend.name) not in unable
        for _, probe, left in plan_probes(session.history, session.backends())
        for backend in left
    )
    if missing:
        again = "" if session.history.problem else ": run 'gpuforge calibrate' again to continue"
        yield f"{missing} measurements remain{again}"
    for probe, name in sorted(unable):
        reason = next(p.reason for p in points if (p.probe, p.backend) == (probe, name))
        yield f"{probe} cannot be run by {name}: {reason}"
    unsteady = sum(point.unsteady for point in points)
    if unsteady:
        yield f"warning: {unsteady} measurements were discarded: their times varied too much"
    if unsteady or busy:
        cause = f" ({busy})" if busy else ""
        yield f"warning: other programs are using the CPU{cause}: results may be inaccurate"
        yield "hint: run 'gpuforge calibrate --reset' when they have finished"
    if session.history.problem:
        yield f"warning: {session.history.problem}"
        yield "hint: name a folder of your own: gpuforge config set cache_folder FOLDER"


def _report(session: Session, points: list[Point], *, as_json: bool) -> None:
    from gpuforge.runtime.placement.priors import Priors

    table = Priors(session.history).table
    if not table:  # nothing could be stored: show this run's measurements
        for point in points:
            if point.ratio is not None:
                measured = table.setdefault(point.probe, {}).setdefault(point.backend, [])
                measured.append([point.size, point.ratio])
    if as_json:
        render.document(
            {"machine": session.history.machine, "time_over_numpy": table, "peaks": _peaks(session)}
        )
        return
    rows = [
        (name, backend, *(_cell(points_of, size) for size in _sizes(table)))
        for name, backends in table.items()
        for backend, points_of in backends.items()
        if points_of
    ]
    heading = ("operations", "backend", *map(_size_text, _sizes(table)))
    render.data("time relative to NumPy, including transfers (below 1 is faster)")
    render.data(render.table(rows, heading=heading))
    peaks = [
        (name, what, f"{significant(told['per_second'] / 1e9)} {UNITS[what]}", told["source"])
        for name, found in _peaks(session).items()
        for what, told in found.items()
        if "per_second" in told
    ]
    if peaks:
        render.data("highest rates measured")
        render.data(render.table(peaks, heading=("backend", "of", "rate", "source")))


def _peaks(session: Session) -> dict[str, Any]:
    from gpuforge.runtime.calibration import peaks

    every = (session.reference, *session.backends())
    return peaks.known(session.history, {one.name: one for one in every}, measure=False)


def _sizes(table: dict[str, dict[str, list[list[float]]]]) -> list[int]:
    return sorted({int(n) for by in table.values() for points in by.values() for n, _ in points})


def _size_text(size: int) -> str:
    return format_bytes(size * BYTES_PER_ELEMENT)


def _cell(points: list[list[float]], size: int) -> str:
    return next((significant(ratio) for found, ratio in points if found == size), "-")


def _list(session: Session, failures: list[str], *, as_json: bool) -> int:
    from gpuforge.runtime.backends import list_backends
    from gpuforge.runtime.staging import plain_copies

    backends = [session.reference, *session.backends()]
    listed = list_backends(plugins=session.settings.plugins)
    failures += [f"{entry.name}: {entry.reason}" for entry in listed if entry.reason]
    failures += [
        f"{device.name}: used only on request: it ends the process when memory runs out"
        for library in session.libraries.values()
        for device in library.devices
        if device.dies_when_short and not session.libraries.usable(device)
    ]
    failures += [line for device in backends for line in plain_copies(device)]
    if as_json:
        found = [{"name": b.name, "version": b.version} for b in backends]
        render.document({"backends": found, "left_out": failures})
        return FINE
    render.data(render.table([(b.name, b.version) for b in backends]))
    for line in failures:
        render.message(f"not used: {line}")
    return FINE
