"""Measuring this machine's backends: how each compares with NumPy, by class and size.

At most `LIMIT_SECONDS` of measuring, the most telling probes first; every finished probe is kept at
once, so that an interrupted calibration goes on where it stopped. Never run at import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from gpuforge.history import History
from gpuforge.runtime.backends import Backend
from gpuforge.runtime.execution import Program, describe_error
from gpuforge.runtime.namespace import namespace
from gpuforge.runtime.priors import CONSTANT
from gpuforge.runtime.reference import Disagreement, Template, describe
from gpuforge.runtime.structure import flatten

LIMIT_SECONDS = 10.0
SIZES = (2**17, 2**11, 2**20, 2**14, 2**7, 2**23)
LEAST_TURNS, MOST_TURNS, IN_A_ROW = 2, 6, 3
CELL_SECONDS, ENOUGH_SECONDS, ROW_SECONDS = 0.6, 0.02, 0.02
"""One probe at one size on all backends: the most; after which its least turns are enough; and
after which one backend's calls in a row are."""


def _square(x: Any) -> Any:
    side = int(x.shape[0] ** 0.5)
    return namespace(x).reshape(x[: side * side], (side, side))


def light(x: Any) -> Any:
    """Two cheap operations on each element."""
    return x * 2.0 + 1.0


def heavy(x: Any) -> Any:
    """Transcendental functions of each element."""
    xp = namespace(x)
    return xp.exp(x) * xp.sin(x)


def chain(x: Any) -> Any:
    """Twelve cheap operations, one after the other."""
    for _ in range(3):
        x = x * 0.999 + 0.25 - x * x * 0.1
    return x


def reduce(x: Any) -> Any:
    """One number from all elements."""
    return namespace(x).sum(x * x)


def scan(x: Any) -> Any:
    """Running sums."""
    return namespace(x).cumulative_sum(x)


def sort(x: Any) -> Any:
    """All elements in order."""
    return namespace(x).sort(x)


def gather(x: Any) -> Any:
    """Every second element, by index."""
    xp = namespace(x)
    return xp.take(x, xp.arange(0, x.shape[0], 2))


def matmul(x: Any) -> Any:
    """A square matrix times itself."""
    square = _square(x)
    return square @ square


def fft(x: Any) -> Any:
    """A complex Fourier transform."""
    return namespace(x).fft.fft(x)


def linalg(x: Any) -> Any:
    """A QR factorisation of a tall matrix with 16 columns."""
    xp = namespace(x)
    tall = xp.reshape(x[: x.shape[0] // 16 * 16], (-1, 16))
    return xp.linalg.qr(tall)[1]


PROBES: dict[str, Callable[[Any], Any]] = {
    f.__name__: f for f in (heavy, light, chain, sort, matmul, reduce, fft, scan, gather, linalg)
}


@dataclass(frozen=True)
class Point:
    """One finished probe: `ratio` is the backend's time over NumPy's, None when it cannot do it."""

    probe: str
    backend: str
    size: int
    ratio: float | None
    reason: str = ""


def plan_probes(backends: list[Backend]) -> list[tuple[str, Backend, int]]:
    """Return every probe to make, the most telling sizes first."""
    return [(name, b, size) for size in SIZES for name in PROBES for b in backends]


def calibrate(
    history: History, reference: Backend, backends: list[Backend], *, limit: float = LIMIT_SECONDS
) -> Iterator[Point]:
    """Measure what was not measured yet, and yield each point once it is kept.

    Parameters
    ----------
    history
        Where the ratios are kept.
    reference
        NumPy's backend.
    backends
        The open backends to compare with it.
    limit
        Seconds after which no further probe is begun.
    """
    kept = history.constant(CONSTANT) or {}
    ratios: dict[str, dict[str, list[list[float]]]] = kept.get("ratios", {})
    barred: dict[str, str] = kept.get("barred", {})
    start = perf_counter()
    for size, name in ((size, name) for size in SIZES for name in PROBES):
        known = ratios.setdefault(name, {})
        left = [
            backend
            for backend in backends
            if f"{name} {backend.name}" not in barred
            and all(point[0] != size for point in known.get(backend.name, []))
        ]
        if not left:
            continue
        if perf_counter() - start > limit - 2 * CELL_SECONDS:
            return
        points = measure_points(name, reference, left, size)
        for point in points:
            if point.ratio is None:
                barred[f"{name} {point.backend}"] = point.reason
            else:
                known.setdefault(point.backend, []).append([size, point.ratio])
        history.keep_constant(CONSTANT, {"ratios": ratios, "barred": barred})
        yield from points


def measure_points(
    name: str, reference: Backend, backends: list[Backend], size: int
) -> list[Point]:
    """Time one probe on NumPy and on `backends`, in turns, and compare their fastest calls.

    The fastest, since a disturbance only ever adds; and several in a row, since the first one may
    find the library's threads asleep, or those of another still at work.
    """
    probe = PROBES[name]
    values = np.random.default_rng(0).random(size, dtype=np.float32)
    leaves: list[Any] = []
    spec = flatten(((values,), {}), leaves)
    template = describe(probe(values), (values,))
    if isinstance(template, str):
        return [Point(name, backend.name, size, None, template) for backend in backends]
    programs = [Program(b, probe, spec, copies=False) for b in (reference, *backends)]
    fastest, failed = _in_turns(programs, (values,), template)
    base = fastest.get(reference.name)
    if base is None:
        reason = f"{reference.name}: {failed[reference.name]}"
        return [Point(name, backend.name, size, None, reason) for backend in backends]
    return [
        Point(name, b.name, size, None, failed[b.name])
        if b.name in failed
        else Point(name, b.name, size, fastest[b.name] / base)
        for b in backends
    ]


def _in_turns(
    programs: list[Program], arguments: tuple[Any, ...], template: Template
) -> tuple[dict[str, float], dict[str, str]]:
    """Return each backend's fastest call in seconds, the first turn left out; and what failed."""
    fastest: dict[str, float] = {}
    failed: dict[str, str] = {}
    start = perf_counter()
    for turn in range(MOST_TURNS + 1):
        for program in programs:
            backend = program.backend.name
            if backend in failed:
                continue
            try:
                took = _fastest_in_a_row(program, arguments, template)
            except Disagreement as difference:
                failed[backend] = str(difference)
            except Exception as error:  # noqa: BLE001 - a library may fail in any way; it says how
                failed[backend] = describe_error(error)
            else:
                if turn:
                    fastest[backend] = min(took, fastest.get(backend, took))
        spent = perf_counter() - start
        if turn and (spent > CELL_SECONDS or (turn >= LEAST_TURNS and spent > ENOUGH_SECONDS)):
            break
    return {name: took for name, took in fastest.items() if name not in failed}, failed


def _fastest_in_a_row(program: Program, arguments: tuple[Any, ...], template: Template) -> float:
    """Return the seconds of the fastest of some calls in a row."""
    times: list[float] = []
    while len(times) < IN_A_ROW and sum(times) < ROW_SECONDS:
        times.append(program.measure(arguments, template)[1])
    return min(times)
