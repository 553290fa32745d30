"""Open a library: import it, check a first result on each device, measure its minimum time."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from gpuforge.dataclass import replace
from gpuforge.runtime import staging
from gpuforge.runtime.backends import Backend, Failure, Opened, load
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.evaluation.background import ProgramEnds, importing
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs, describe_error
from gpuforge.runtime.evaluation.program_store import ProgramStore
from gpuforge.runtime.evaluation.recording import record
from gpuforge.runtime.evaluation.reference import compare
from gpuforge.runtime.threads import contention, draws, fork_warning

_FLOOR_CALLS = 7
_SELDOM = 300_000  # net allocations between two garbage collections
_FROZEN = 1_000  # Python 3.12 starts with 375 frozen objects, others with none
_tested: dict[str, Opened] = {}


def open_library(name: str, store: ProgramStore | None = None) -> Opened:
    """Import a library, once per process, and return its backends that agree with NumPy.

    In `store` is the program of the first result, for a backend that compiles.
    """
    return settle(name, tested(name, store))


def load_library(name: str, store: ProgramStore) -> Opened:
    """Do the part of `open_library` that may run in the background; `settle` does the rest."""
    made = Opened()
    with suppress(ProgramEnds), importing():
        start = thread_time()  # other threads' time is not the library's
        made = replace(tested(name, store), seconds=thread_time() - start)
    if not made.devices and not threading.main_thread().is_alive():
        # The import was stopped; some libraries catch that, and then fail in another way.
        return Opened((), (Failure(name, "the program ended first"),))
    return made


def settle(name: str, opened: Opened) -> Opened:
    """Do the part that must not run while NumPy computes: restart the threads of its BLAS."""
    if opened.devices:
        contention.tame(name)
    return opened


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Collect garbage less often inside: an import allocates many objects and frees few.

    Collection takes a tenth of PyTorch's import. The new objects then join the oldest generation,
    or the next young collection takes 0.1 s. A threshold that the program sets meanwhile stays.
    """
    before = gc.get_threshold()
    if 0 < before[0] < _SELDOM:
        gc.set_threshold(_SELDOM, *before[1:])
    try:
        yield
    finally:
        if gc.get_threshold()[0] == _SELDOM:
            gc.set_threshold(*before)
            if gc.get_freeze_count() < _FROZEN:  # the program has frozen none
                gc.freeze()
                gc.unfreeze()  # into the oldest generation


def tested(name: str, store: ProgramStore | None = None) -> Opened:
    """Return the backends of one library that passed a test, made at the first call.

    Does not touch NumPy's BLAS threads.
    """
    found = _tested.get(name)
    if found is None:
        found = _tested[name] = _test(name, store)
    return found


def _test(name: str, store: ProgramStore | None) -> Opened:
    contention.prepare_environment()
    start = perf_counter()
    try:
        with fork_warning.spared(), draws.apart(name), seldom_collected():
            devices = load(name).open_devices()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it may fail to import in any way
        failed = Failure(name, describe_error(error))
        return Opened((), (failed,), perf_counter() - start)
    good: list[Backend] = []
    failures: list[Failure] = []
    for backend in devices:
        reason = test_backend(backend, store)
        if reason:
            failures.append(Failure(backend.name, reason))
        else:
            good.append(backend)
            if backend.staging:
                staging.check(backend)
    return Opened(tuple(good), tuple(failures), perf_counter() - start)


def test_backend(backend: Backend, store: ProgramStore | None = None) -> str:
    """Compute a small result, compare it with NumPy's, and measure the backend's minimum time.

    What compiling takes is measured, too, unless the program is in `store`. Returns why the backend
    is excluded; empty if it works.
    """
    values = np.arange(16, dtype=np.float32)
    expected = values * 2 + 1
    programs, reference = Programs(store), NumpyBackend()

    def measure() -> tuple[Any, float, BackendEngine]:
        engine = BackendEngine(backend, reference, programs)
        start = perf_counter()
        made = record(_affine, (values,), {}, engine).result
        return made, perf_counter() - start, engine

    try:
        result, first, engine = measure()
        loaded = engine.latest is not None and engine.latest.is_loaded
        difference = engine.outcome.refused or compare(expected, result)
        if difference and store is not None:  # perhaps of the stored program only
            return test_backend(backend)
        if difference:
            return f"its first result is wrong: {difference}"
        times = [measure()[1] for _ in range(_FLOOR_CALLS)]
    except Exception as error:  # noqa: BLE001 - whatever goes wrong bars the backend
        return describe_error(error)
    backend.floor_seconds = min(times)
    if backend.compiles and not loaded:
        backend.compile_seconds = first - min(times)
    return ""


def _affine(x: Any) -> Any:
    return x * 2 + 1
