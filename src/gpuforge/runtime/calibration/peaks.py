"""Peaks: the maximum speed of each backend's link, memory and arithmetic.

Each is the fastest of some turns, since disturbances only add time. It is stored with the date and
what was measured, per version of the library. Arrays grow until a turn takes `LONG_SECONDS`, so
that its start-up time does not count. If the times disagree, there is no peak.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter
from typing import Any

import numpy as np

from gpuforge.history import History
from gpuforge.runtime.backends import Backend
from gpuforge.runtime.calibration.probes import agree
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs, describe_error
from gpuforge.runtime.evaluation.recording import record
from gpuforge.runtime.staging import CHUNK_BYTES, TO_DEVICE, TO_HOST
from gpuforge.units import format_bytes

CONSTANT = "peaks"
LINKS = {"to device": TO_DEVICE, "from device": TO_HOST}
REST = ("memory", "float32", "float64")
LINK_BYTES = 16 << 20
"""Size of the copies that measure a link if the library has no pinned memory."""
LEAST_TURNS, TURNS, ENOUGH_SECONDS, LONG_SECONDS = 3, 5, 0.015, 0.01
ALL_SECONDS = 0.05
"""No further link is measured at the end of a profile after this time."""
MEMORY_BYTES = (64 << 20, 256 << 20)
"""Sizes of each of three arrays: far larger than caches."""
SIDES = (256, 512, 1024, 2048, 4096)
_NOTHING_MOVES = "its arrays are in host memory: nothing is transferred"
_ELSEWHERE = "it computes in a worker process, which is handed its arrays within each run"
_NOT_MEASURED = {
    **dict.fromkeys(LINKS, "not measured yet: record with 'gpuforge run --save FILE --peaks'"),
    **dict.fromkeys(REST, "not measured yet: run 'gpuforge calibrate'"),
}
_CLOSED = "its library was closed before the profile ended"


class UnsteadyTimes(Exception):
    """The times of the same call disagree, so that the fastest says little."""


Told = dict[str, Any]
"""``per_second`` and ``source``, or ``unknown`` with the reason"""


def known(
    history: History, backends: Mapping[str, Backend | None], *, measure: bool
) -> dict[str, dict[str, Told]]:
    """Return the stored peaks of backends, or why there are none; `measure` also measures links.

    No measurement starts after `ALL_SECONDS`. None stands for a backend that is no longer open.
    """
    found: dict[str, dict[str, Told]] = {}
    deadline = perf_counter() + ALL_SECONDS
    for name, backend in backends.items():
        why, fresh = dict(_NOT_MEASURED), {}
        if backend is None:
            why = dict.fromkeys(why, _CLOSED)
        elif name.endswith(":worker"):
            why = dict.fromkeys(why, _ELSEWHERE)
        elif backend.on_host:
            why |= dict.fromkeys(LINKS, _NOTHING_MOVES)
        elif measure and perf_counter() < deadline:
            fresh = dict(_missing(history, backend, backend, LINKS))
        kept = _kept(history, backend) if backend is not None else {}
        found[name] = {**{what: {"unknown": text} for what, text in why.items()}, **fresh, **kept}
    return found


def measure(history: History, reference: Backend, backend: Backend) -> Iterator[tuple[str, Told]]:
    """Measure the missing peaks of a backend; each is stored, then yielded.

    A backend in a worker process has none, since passing arrays to the worker would count.
    """
    if not backend.name.endswith(":worker"):
        yield from _missing(history, reference, backend, (*LINKS, *REST))


def forget(history: History) -> None:
    """Forget the peaks of this machine."""
    history.keep_constant(CONSTANT, {})


def _missing(
    history: History, reference: Backend, backend: Backend, wanted: Iterable[str]
) -> Iterator[tuple[str, Told]]:
    """Measure and store the missing peaks of a backend, or say why they cannot be measured."""
    for what in wanted:
        kept = _kept(history, backend)
        if what in kept or (what in LINKS and backend.on_host):
            continue
        try:
            per_second, of = (
                _link(backend, what) if what in LINKS else _work(backend, reference, what)
            )
        except UnsteadyTimes as error:
            yield what, {"unknown": str(error)}
            continue
        except Exception as error:  # noqa: BLE001 - a device may fail in any way, memory included
            yield what, {"unknown": describe_error(error)}
            continue
        day = time.strftime("%Y-%m-%d")
        told = {"per_second": per_second, "source": f"measured on {day}: {of}"}
        all_kept = {**_all_kept(history), _key(backend): {**kept, what: told}}
        history.keep_constant(CONSTANT, all_kept)
        yield what, told


def _key(backend: Backend) -> str:
    return f"{backend.name}@{backend.version}"


def _kept(history: History, backend: Backend) -> dict[str, Told]:
    return _all_kept(history).get(_key(backend), {})


def _all_kept(history: History) -> dict[str, dict[str, Told]]:
    kept = history.constant(CONSTANT)
    return kept if isinstance(kept, dict) else {}


def _link(backend: Backend, what: str) -> tuple[float, str]:
    """Return the bytes per second of a link, using pinned memory if the library has it."""
    with backend.scope():
        if backend.staging is not None:
            there = backend.put(np.zeros(CHUNK_BYTES, np.uint8))
            seconds = backend.staging.link_seconds(LINKS[what], there)
            return CHUNK_BYTES / seconds, f"{format_bytes(CHUNK_BYTES)} of pinned memory"
        host = np.zeros(LINK_BYTES, np.uint8)
        there = backend.put(host)
        if what == "to device":
            seconds = _fastest(lambda: backend.wait([backend.put(host)]))
        else:
            seconds = _fastest(lambda: backend.get(there))
    return LINK_BYTES / seconds, f"the fastest copies of {format_bytes(LINK_BYTES)}"


def _work(backend: Backend, reference: Backend, what: str) -> tuple[float, str]:
    """Return the bytes per second of array sums, or the operations per second of matrix products.

    A sum reads two arrays and writes one; products are of square matrices.
    """
    function: np.ufunc = np.add if what == "memory" else np.matmul
    dtype = "float32" if what == "memory" else what
    found: list[tuple[float, str]] = []
    shape: tuple[int, ...]
    for size in MEMORY_BYTES if what == "memory" else SIDES:
        if what == "memory":
            shape, amount, of = (size // 4,), 3 * size, f"x + y of {format_bytes(size)} each"
        else:
            shape, amount, of = (size, size), 2 * size**3, f"x @ y of {size} x {size}"
        arrays = [np.full(shape, 0.5, dtype) for _ in range(2)]
        seconds = _fastest(_ready(backend, reference, function, arrays))
        found.append((amount / seconds, of))
        if seconds > LONG_SECONDS:
            break
    return max(found)


def _fastest(call: Callable[[], object]) -> float:
    """Return the seconds of the fastest of some calls, after an untimed warm-up call."""
    call()
    times: list[float] = []
    while len(times) < LEAST_TURNS or (len(times) < TURNS and sum(times) < ENOUGH_SECONDS):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    if not agree(times):
        raise UnsteadyTimes("not measured: its times vary too much")
    return min(times)


def _ready(
    backend: Backend, reference: Backend, function: np.ufunc, arrays: list[Any]
) -> Callable[[], object]:
    """Return a callable that computes a function of arrays on the device, and waits for it."""
    if backend is reference:
        made = function(*arrays)
        return lambda: function(*arrays, out=made)
    engine = BackendEngine(backend, reference, Programs())
    recorder = record(lambda x, y: function(x, y), tuple(arrays), {}, engine).recorder
    program, outcome = engine.latest, engine.outcome
    elsewhere = [outcome.refused, outcome.settled, *map(": ".join, recorder.fallbacks)]
    if program is None or any(elsewhere):
        raise NotImplementedError("; ".join(filter(None, elsewhere)) or "nothing ran on it")
    call = program.compiled if backend.compiles else program
    with backend.scope():
        given = [backend.put(array) for array in arrays]
        backend.wait(given)

    def run() -> None:
        with backend.scope():
            backend.wait(call(*given)[0])  # type: ignore[misc]

    return run
