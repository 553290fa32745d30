"""Peaks: how fast the link, the memory and the arithmetic of each backend are at most.

Each is the fastest of some turns, since a disturbance only ever adds; it is kept with the date and
what was measured, for this version of the library. Products grow until `PRODUCT_SECONDS` have
passed, so that starting them does not count. Times that disagree give no peak.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from typing import Any

import numpy as np

from gpuforge.history import History
from gpuforge.runtime.backends import Backend
from gpuforge.runtime.calibration.probes import STEADY_FACTOR
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs, describe_error
from gpuforge.runtime.evaluation.recording import record
from gpuforge.runtime.staging import CHUNK_BYTES, TO_DEVICE, TO_HOST
from gpuforge.units import format_bytes

CONSTANT = "peaks"
LINKS = {"to device": TO_DEVICE, "from device": TO_HOST}
REST = ("memory", "float32", "float64")
LINK_BYTES, LINK_SECONDS, LEAST_TURNS, TURNS = 16 << 20, 0.012, 3, 5
"""A link is measured by copies of so many bytes, each way for so long, after one untimed copy."""
ALL_SECONDS = 0.05
"""After which no link is begun to be measured at the end of a profile."""
MEMORY_BYTES = (64 << 20, 256 << 20)
"""Of each of three arrays: far more than caches hold; the larger ones where the first are quick."""
SIDES, PRODUCT_SECONDS, LONG_SECONDS = (256, 512, 1024, 2048, 4096), 0.3, 0.01
_NOTHING_MOVES = "its arrays lie in the host's memory: nothing is moved"
_ELSEWHERE = "it computes in a worker process, which is handed its arrays within each run"
_NOT_MEASURED = {
    **dict.fromkeys(LINKS, "not measured yet: record with 'gpuforge run --save FILE --peaks'"),
    **dict.fromkeys(REST, "not measured yet: run 'gpuforge calibrate'"),
}
_CLOSED = "its library was closed before the profile ended"
Told = dict[str, Any]
"""``per_second`` and ``source``, or ``unknown``: why there is none"""


def known(
    history: History, backends: Mapping[str, Backend | None], *, measure: bool
) -> dict[str, dict[str, Told]]:
    """Return the peaks of backends: kept ones, with `measure` also links measured now, or why not.

    Nothing is begun after `ALL_SECONDS`; None is a backend that is not open any more.
    """
    found: dict[str, dict[str, Told]] = {}
    deadline = perf_counter() + ALL_SECONDS
    for name, backend in backends.items():
        kept = _kept(history).get(_key(backend), {}) if backend is not None else {}
        why = dict(_NOT_MEASURED)
        if backend is None:
            why = dict.fromkeys(why, _CLOSED)
        elif name.endswith(":worker"):
            why = dict.fromkeys(why, _ELSEWHERE)
        elif backend.on_host:
            why |= dict.fromkeys(LINKS, _NOTHING_MOVES)
        elif measure and perf_counter() < deadline:
            fresh = {what: _told(_link, backend, what) for what in LINKS if what not in kept}
            _keep(history, backend, fresh)
            kept = {**fresh, **kept}
        found[name] = {**{what: {"unknown": text} for what, text in why.items()}, **kept}
    return found


def measure(history: History, reference: Backend, backend: Backend) -> Iterator[tuple[str, Told]]:
    """Measure the peaks of a backend that were not measured yet; each is kept, then yielded.

    None of one in a worker process: handing over the arrays would count.
    """
    if backend.name.endswith(":worker"):
        return
    kept = _kept(history).get(_key(backend), {})
    for what in REST if backend.on_host else (*LINKS, *REST):
        if what in kept:
            continue
        if what in LINKS:
            found = _told(_link, backend, what)
        elif what == "memory":
            found = _told(_memory, backend, reference)
        else:
            found = _told(_product, backend, reference, what)
        _keep(history, backend, {what: found})
        yield what, found


def forget(history: History) -> None:
    """Forget the peaks of this machine."""
    history.keep_constant(CONSTANT, {})


def _key(backend: Backend) -> str:
    return f"{backend.name}@{backend.version}"


def _kept(history: History) -> dict[str, dict[str, Told]]:
    kept = history.constant(CONSTANT)
    return kept if isinstance(kept, dict) else {}


def _keep(history: History, backend: Backend, found: dict[str, Told]) -> None:
    if good := {what: told for what, told in found.items() if "per_second" in told}:
        kept = _kept(history)
        kept[_key(backend)] = {**kept.get(_key(backend), {}), **good}
        history.keep_constant(CONSTANT, kept)


def _told(ask: Callable[..., tuple[float, str]], *given: Any) -> Told:
    """Return a rate with what was measured, or why there is none."""
    try:
        per_second, what = ask(*given)
    except Exception as error:  # noqa: BLE001 - a device may fail in any way, memory included
        return {"unknown": describe_error(error)}
    day = time.strftime("%Y-%m-%d")
    return {"per_second": per_second, "source": f"measured on {day}: {what}"}


def _link(backend: Backend, what: str) -> tuple[float, str]:
    """Return the bytes per second of a link: from pinned memory where the library has such."""
    with backend.scope():
        if backend.staging is not None:
            there = backend.put(np.zeros(CHUNK_BYTES, np.uint8))
            seconds = backend.staging.link_seconds(LINKS[what], there)
            return CHUNK_BYTES / seconds, f"{format_bytes(CHUNK_BYTES)} of pinned memory"
        host = np.zeros(LINK_BYTES, np.uint8)
        there = backend.put(host)

        def put() -> None:
            backend.wait([backend.put(host)])

        copy = put if what == "to device" else lambda: backend.get(there)
        copy()
        seconds = _fastest(copy, LINK_SECONDS)
    return LINK_BYTES / seconds, f"the fastest copies of {format_bytes(LINK_BYTES)}"


def _fastest(call: Callable[[], object], enough_seconds: float = 0.0) -> float:
    times: list[float] = []
    while len(times) < LEAST_TURNS or (len(times) < TURNS and sum(times) < enough_seconds):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    first, second = sorted(times)[:2]
    if second > STEADY_FACTOR * first:
        raise ValueError("its times disagree: other programs used the machine")
    return first


def _memory(backend: Backend, reference: Backend) -> tuple[float, str]:
    """Return the bytes per second of sums of arrays: two are read, one is written."""
    rate, told = 0.0, ""
    for size in MEMORY_BYTES:
        arrays = [np.full(size // 4, 0.5, np.float32) for _ in range(2)]
        seconds = _fastest(_ready(backend, reference, np.add, arrays), 0.1)
        if 3 * size / seconds > rate:
            rate, told = 3 * size / seconds, f"x + y of {format_bytes(size)} each"
        if seconds > LONG_SECONDS:
            break
    return rate, told


def _product(backend: Backend, reference: Backend, dtype: str) -> tuple[float, str]:
    """Return the operations per second of a product of square matrices."""
    rate, told, began = 0.0, "", perf_counter()
    for side in SIDES:
        arrays = [np.full((side, side), 0.5, dtype) for _ in range(2)]
        seconds = _fastest(_ready(backend, reference, np.matmul, arrays), 0.02)
        if 2 * side**3 / seconds > rate:
            rate, told = 2 * side**3 / seconds, f"x @ y of {side} x {side}"
        if perf_counter() - began > PRODUCT_SECONDS:
            break
    return rate, told


def _ready(
    backend: Backend, reference: Backend, function: np.ufunc, arrays: list[Any]
) -> Callable[[], object]:
    """Return what computes a function of arrays that lie on the device already, and waits."""
    if backend is reference:
        made = function(*arrays)
        return lambda: function(*arrays, out=made)
    engine = BackendEngine(backend, reference, Programs())
    recorder = record(lambda x, y: function(x, y), tuple(arrays), {}, engine).recorder
    program, outcome = engine.latest, engine.outcome
    elsewhere = [outcome.refused, outcome.settled, *map(": ".join, recorder.fallbacks)]
    if program is None or any(elsewhere):
        raise NotImplementedError("; ".join(filter(None, elsewhere)) or "nothing ran there")
    call = program.compiled if backend.compiles else program
    with backend.scope():
        given = [backend.put(array) for array in arrays]
        backend.wait(given)

    def run() -> None:
        with backend.scope():
            backend.wait(call(*given)[0])  # type: ignore[misc]

    run()
    return run
