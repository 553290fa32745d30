"""Keep the thread pools of backends in one process from competing for cores.

Idle workers of OpenBLAS (NumPy) spin for about 0.1 s after a call, on cores that the next library's
workers need. If requested before NumPy loads, they spin for only some microseconds; if NumPy was
loaded before, its workers are restarted with that request when another library is opened
(`openblas.py`). On few cores, short placed NumPy calls that use BLAS also run with one BLAS thread
while another backend is in use. PyTorch's OpenMP workers are left alone: they spin for less, and
waking one that sleeps costs its next call more than it would take from others
(`docs/decisions/0004-threads-of-several-libraries.md`).

Source: OPENBLAS_THREAD_TIMEOUT (a power of two of cycles), OpenBLAS user manual.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING

from gpuforge import settings
from gpuforge.dataclass import dataclass, field
from gpuforge.errors import InvalidSettings
from gpuforge.log import logger

if TYPE_CHECKING:
    from gpuforge.runtime.threads.openblas import Copy

_log = logger("contention")
VARIABLE, VALUE, LIBRARY = "OPENBLAS_THREAD_TIMEOUT", "14", "numpy"
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
"""If one of these is 1, OpenBLAS has no workers that could spin."""
WITHOUT_WORKERS = ("numpy", "cupy")
"""Libraries without CPU workers of their own."""
FEW_CORES = 4
SHORT_CALL_SECONDS = (20e-6, 500e-6)
"""Shorter calls use one thread anyway; longer ones gain more from threads than others lose."""
BLAS_CLASSES = frozenset(["linalg", "matmul"])


@dataclass
class Threads:
    """What was done against spinning threads in this process.

    Attributes
    ----------
    set_variables : environment variables that gpuforge set, name to value
    too_late : libraries that still spin because they were loaded before their variable could be set
    restarted : libraries whose workers were restarted to apply the variable
    reason : why NumPy's workers still spin although another library is open; empty if they do not
    limited_calls : NumPy calls that ran with one BLAS thread to leave room for others
    """

    set_variables: dict[str, str] = field(default_factory=dict)
    too_late: list[str] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)
    reason: str = ""
    limited_calls: int = 0


state = Threads()
_lock = threading.Lock()
_settled = False


def prepare_environment() -> dict[str, str]:
    """Set the variables that keep idle threads from spinning, unless they are set already.

    OpenBLAS reads them when it loads; `tame` handles a copy that was loaded before. Returns all
    variables set so far by this process, name to value. Does nothing if the setting
    ``tame_threads`` is off.
    """
    if not _wanted():
        return {}
    if VARIABLE in os.environ or any(os.environ.get(name) == "1" for name in ONE_THREAD):
        return dict(state.set_variables)
    os.environ[VARIABLE] = state.set_variables[VARIABLE] = VALUE
    if LIBRARY in sys.modules:
        state.too_late.append(LIBRARY)
    return dict(state.set_variables)


def tame(library: str) -> None:
    """Make sure that NumPy's idle workers leave the cores to `library`, which was just imported.

    Does nothing if the user chose a time-out or a number of threads, or if the setting
    ``tame_threads`` is off. The outcome is in `state`; a failure because other threads were running
    is retried when the next library is opened.
    """
    global _settled
    prepare_environment()
    if library in WITHOUT_WORKERS or VARIABLE not in state.set_variables or not _wanted():
        return
    from gpuforge.runtime.threads import openblas

    with _lock:
        if _settled:
            return
        outcome = openblas.calm(int(VALUE))
        _settled, state.reason = not outcome.reason, outcome.reason
        if outcome.restarted:
            state.restarted.append(LIBRARY)
        if _settled:
            state.too_late.clear()
    _log.info("NumPy's BLAS threads beside %s: %s", library, outcome)


def _wanted() -> bool:
    try:
        chosen = settings.load().settings
        return chosen.enabled and chosen.tame_threads
    except InvalidSettings as error:  # the session will raise it
        _log.info("settings cannot be read yet: %s", error)
        return True


def allowed_cores() -> int:
    """Return the number of logical CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class BlasLimit:
    """Limits NumPy's BLAS to one thread while others need the cores.

    Others are workers of other libraries, during short calls, and gpuforge's background work. The
    threads of a matrix product wait for each other without sleeping: when one of them lost its core
    to a compilation, a product of 3 ms was seen to take 1.5 s. OpenBLAS has one thread count for
    the whole process, so overlapping calls of several threads share one limit, which ends with the
    last of them.
    """

    _copies: list[Copy] | None = None
    _given: tuple[int, ...] = ()
    """The thread counts to restore, while a limit is in force."""
    _inside = 0
    _lock = threading.Lock()

    def needed(self, operations: str, seconds: float) -> bool:
        """Return whether a NumPy call of this class and duration should leave cores to others."""
        low, high = SHORT_CALL_SECONDS
        return operations in BLAS_CLASSES and low < seconds < high and self._few_cores

    @cached_property
    def _few_cores(self) -> bool:
        return 1 < allowed_cores() <= FEW_CORES

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Limit BLAS to one thread inside, then restore the previous number."""
        state.limited_calls += 1
        with self._limited():
            yield

    def leave_a_core(self) -> AbstractContextManager[None]:
        """Return a context that leaves a core to a background job, if few and if enabled."""
        return self._limited() if self._few_cores and _wanted() else nullcontext()

    @contextmanager
    def _limited(self) -> Iterator[None]:
        shared = BlasLimit
        with shared._lock:
            if not shared._inside:
                shared._limit()
            shared._inside += 1
        try:
            yield
        finally:
            with shared._lock:
                shared._inside -= 1
                if not shared._inside:
                    shared._give_back()

    @classmethod
    def after_fork(cls) -> None:
        """In a forked child, end the limits of threads that do not exist there."""
        cls._lock = threading.Lock()
        if cls._inside:
            cls._inside = 0
            cls._give_back()

    @classmethod
    def _limit(cls) -> None:
        copies = cls._find()
        cls._given = tuple(copy.threads for copy in copies)
        for copy in copies:
            copy.threads = 1

    @classmethod
    def _give_back(cls) -> None:
        for copy, threads in zip(cls._find(), cls._given, strict=True):
            if copy.threads == 1:  # else the program changed it meanwhile
                copy.threads = threads

    @classmethod
    def _find(cls) -> list[Copy]:
        if cls._copies is None:
            from gpuforge.runtime.threads.openblas import copies

            cls._copies = copies()
        return cls._copies
