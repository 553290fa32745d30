"""Measure how this machine's backends compare with NumPy, by class of operations and size.

Measuring takes at most `LIMIT_SECONDS`, the most informative probes first. Each finished probe is
stored at once, so an interrupted calibration resumes where it stopped. Times that other programs
disturb are measured again, and dropped if they stay unsteady. Never runs at import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from gpuforge.history import History
from gpuforge.runtime.backends import Backend
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs, describe_error
from gpuforge.runtime.evaluation.recording import StartAgain, record
from gpuforge.runtime.namespace import namespace
from gpuforge.runtime.placement.priors import CONSTANT

LIMIT_SECONDS = 10.0
SIZES = (2**17, 2**11, 2**20, 2**14, 2**7, 2**23)
LEAST_TURNS, MOST_TURNS, IN_A_ROW = 2, 6, 3
CELL_SECONDS, ENOUGH_SECONDS, ROW_SECONDS = 0.6, 0.02, 0.02
"""Limits for one probe at one size: no turn starts after the first; after the second, the minimum
number of turns suffices if they agree; the third ends one backend's calls in a row."""
STEADY_FACTOR = 2.0
"""A time is valid if another turn came within this factor of it."""


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


Cell = tuple[int, str, list[Backend]]
"""size, name of the probe, backends to measure"""


@dataclass(frozen=True)
class Point:
    """One finished probe.

    Attributes
    ----------
    ratio : the backend's time relative to NumPy's; None if it cannot run the probe or was unsteady
    reason : why there is no ratio
    unsteady : whether there is no ratio because the times disagreed: other programs disturbed them
    """

    probe: str
    backend: str
    size: int
    ratio: float | None
    reason: str = ""
    unsteady: bool = False


def plan_probes(history: History, backends: list[Backend]) -> list[Cell]:
    """Return the probes that were not measured yet, the most informative sizes first."""
    ratios = _kept(history)
    cells: list[Cell] = []
    for size in SIZES:
        for name in PROBES:
            known = ratios.get(name, {})
            left = [b for b in backends if all(p[0] != size for p in known.get(b.name, []))]
            if left:
                cells.append((size, name, left))
    return cells


def _kept(history: History) -> dict[str, dict[str, list[list[float]]]]:
    kept = history.constant(CONSTANT)
    ratios = kept.get("ratios") if isinstance(kept, dict) else None
    return ratios if isinstance(ratios, dict) else {}


def forget(history: History) -> None:
    """Forget what was measured on this machine."""
    history.keep_constant(CONSTANT, {})


def calibrate(
    history: History, reference: Backend, backends: list[Backend], *, limit: float = LIMIT_SECONDS
) -> Iterator[Point]:
    """Measure the missing probes, and yield each point once it is stored.

    Parameters
    ----------
    history
        Where the ratios are stored.
    reference
        NumPy's backend.
    backends
        The open backends to compare with it.
    limit
        Seconds after which no call starts; an unfinished probe gives no point.
    """
    deadline = perf_counter() + limit
    ratios = _kept(history)
    unable: set[tuple[str, str]] = set()
    for size, name, left in plan_probes(history, backends):
        able = [backend for backend in left if (name, backend.name) not in unable]
        if perf_counter() > deadline:
            return
        points = measure_points(name, reference, able, size, deadline=deadline) if able else []
        for point in points:
            if point.ratio is not None:
                known = ratios.setdefault(name, {}).setdefault(point.backend, [])
                known.append([size, point.ratio])
            elif not point.unsteady:
                unable.add((name, point.backend))
        history.keep_constant(CONSTANT, {"ratios": ratios})
        yield from points


def measure_points(
    name: str,
    reference: Backend,
    backends: list[Backend],
    size: int,
    *,
    deadline: float = float("inf"),
) -> list[Point]:
    """Time one probe on NumPy and on `backends`, in turns, and compare their fastest calls.

    The fastest counts, since disturbances only add time; calls are made in a row, since the first
    may find the library's threads asleep or another's still running. Empty if `deadline` (on the
    clock of `perf_counter`) passed before there was anything to compare.
    """
    probe = PROBES[name]
    values = np.random.default_rng(0).random(size, dtype=np.float32)
    times, failed = _in_turns(probe, (reference, *backends), values, deadline)
    if reference.name in failed:
        reason = f"{reference.name}: {failed[reference.name]}"
        return [Point(name, backend.name, size, None, reason) for backend in backends]
    points: list[Point] = []
    for backend in backends:
        mine, base = times.get(backend.name, []), times.get(reference.name, [])
        if backend.name in failed:
            points.append(Point(name, backend.name, size, None, failed[backend.name]))
        elif mine and base and agree(mine) and agree(base):
            points.append(Point(name, backend.name, size, min(mine) / min(base)))
        elif mine and base and perf_counter() < deadline:
            points.append(Point(name, backend.name, size, None, "its times disagree", True))
    return points


def agree(times: list[float]) -> bool:
    """Return whether the two shortest times agree within `STEADY_FACTOR`."""
    first, second = sorted(times)[:2] if len(times) > 1 else (0.0, 1.0)
    return second <= STEADY_FACTOR * first


def _in_turns(
    probe: Callable[[Any], Any], backends: tuple[Backend, ...], values: Any, deadline: float
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Return each backend's fastest call per turn, without the first turn; and the failures."""
    times: dict[str, list[float]] = {}
    failed: dict[str, str] = {}
    programs, reference = Programs(), backends[0]
    start = perf_counter()
    for turn in range(MOST_TURNS + 1):
        for backend in backends:
            if backend.name in failed or perf_counter() > deadline:
                continue
            call = partial(_attempt, probe, values, backend, reference, programs, failed)
            took = _fastest_in_a_row(call)
            if turn and backend.name not in failed:
                times.setdefault(backend.name, []).append(took)
        spent = perf_counter() - start
        settled = spent > ENOUGH_SECONDS and all(map(agree, times.values()))
        if len(failed) >= len(backends) - 1 or reference.name in failed:
            break
        if turn >= LEAST_TURNS and (spent > CELL_SECONDS or settled):
            break
    return times, failed


def _attempt(
    probe: Callable[[Any], Any], values: Any, backend: Backend, reference: Backend,
    programs: Programs, failed: dict[str, str],
) -> None:  # fmt: skip
    """Run a probe, recorded unless on NumPy; if that fails, add the reason to the failures."""
    engine, elsewhere = BackendEngine(backend, reference, programs), ""
    try:
        if backend is reference:
            probe(values)
        else:
            fallbacks = record(probe, (values,), {}, engine).recorder.fallbacks
            elsewhere = next(map(": ".join, fallbacks), "")
    except StartAgain as again:
        elsewhere = str(again)
    except Exception as error:  # noqa: BLE001 - whatever it raises bars this backend from the probe
        elsewhere = describe_error(error)
    if why := engine.outcome.refused or engine.outcome.settled or elsewhere:
        failed[backend.name] = why


def _fastest_in_a_row(call: Callable[[], Any]) -> float:
    """Return the seconds of the fastest of some calls in a row."""
    times: list[float] = []
    while len(times) < IN_A_ROW and sum(times) < ROW_SECONDS:
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return min(times)
