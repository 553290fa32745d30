"""Backends in one process fight for the cores: what is set before they load, and what after.

Idle workers of OpenBLAS (NumPy) spin for about 0.1 s after a call, on the cores that the next
library's workers need. Asked before NumPy loads, they spin for some microseconds instead; where
NumPy was loaded before, they are started anew with the same request when another library is opened
(`openblas.py`). On few cores, short placed NumPy calls that use BLAS also run with one thread of it
while another backend is in use; with many cores there is room for both. PyTorch's OpenMP workers
are left as they are: they spin for less, and one that was put to sleep costs its next call more
than it would take from others (`docs/decisions/0004-threads-of-several-libraries.md`).

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
"""With one of these at 1, OpenBLAS has no workers that could spin."""
WITHOUT_WORKERS = ("numpy", "cupy")
"""Libraries that need no core for workers of their own beside NumPy's."""
FEW_CORES = 4
SHORT_CALL_SECONDS = (20e-6, 500e-6)
"""Shorter calls use one thread anyway; longer ones gain more from threads than others lose."""
BLAS_CLASSES = frozenset(["linalg", "matmul"])


@dataclass
class Threads:
    """What was done about spinning threads in this process.

    Attributes
    ----------
    set_variables : environment variables that gpuforge set, name to value
    too_late : libraries that were loaded before their variable could be set, and still spin
    restarted : libraries whose workers were started anew, to take the variable in
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
    """Set what keeps idle threads from spinning, only where unset.

    A copy of OpenBLAS reads it when it loads; `tame` sees to one that was loaded before. Returns
    all variables set so far by this process, name to value. Nothing is set where the setting
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

    Does nothing where the user chose a time-out or a number of threads, or where the setting
    ``tame_threads`` is off. What came of it is in `state`; what failed because other threads were
    running is tried again when the next library is opened.
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
    except InvalidSettings as error:  # the session that reads them again will raise it
        _log.info("settings cannot be read yet: %s", error)
        return True


def allowed_cores() -> int:
    """Return the number of logical CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class BlasLimit:
    """Lets NumPy's BLAS compute in one thread while others need the cores.

    These are the workers of other libraries, during short calls, and what gpuforge does beside the
    program. The threads of a product wait for each other without sleeping: where one of them has
    lost its core to a compilation, a product of 3 ms was seen to take 1.5 s.

    OpenBLAS has one number of threads for the whole process: calls that overlap in several threads
    share one limit, which ends with the last of them.
    """

    _copies: list[Copy] | None = None
    _given: tuple[int, ...] = ()
    """The numbers of threads to give back, while a limit is in force."""
    _inside = 0
    _lock = threading.Lock()

    def needed(self, operations: str, seconds: float) -> bool:
        """Return whether a NumPy call of this class and length should leave cores to others."""
        low, high = SHORT_CALL_SECONDS
        return operations in BLAS_CLASSES and low < seconds < high and self._few_cores

    @cached_property
    def _few_cores(self) -> bool:
        return 1 < allowed_cores() <= FEW_CORES

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Limit BLAS to one thread inside, and give the former number back."""
        state.limited_calls += 1
        with self._limited():
            yield

    def beside_the_program(self) -> AbstractContextManager[None]:
        """Return what leaves a core of few to a job beside the program, where that is wanted."""
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
        """End, in a forked child, the limits of threads that the child does not have."""
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
            if copy.threads == 1:  # else the program chose a number meanwhile
                copy.threads = threads

    @classmethod
    def _find(cls) -> list[Copy]:
        if cls._copies is None:
            from gpuforge.runtime.threads.openblas import copies

            cls._copies = copies()
        return cls._copies
