"""Backends in one process fight for the cores: what is set before they load, and what after.

Idle workers of OpenBLAS (NumPy) spin for milliseconds after a call, on the cores that the next
library's workers need. Asked before NumPy loads, they spin for some microseconds instead. On few
cores, short placed NumPy calls that use BLAS run with one thread of it while another backend is in
use, so that neither's workers are in the other's way, also where NumPy was loaded before; with many
cores there is room for both. PyTorch's OpenMP workers are left as they are: they spin for less,
and one that was put to sleep costs its next call more than it would take from others
(`docs/decisions/0004-threads-of-several-libraries.md`). Figures: `benchmarks/contention.py`.

Source: OPENBLAS_THREAD_TIMEOUT (a power of two of cycles), OpenBLAS user manual.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gpuforge import settings
from gpuforge.errors import InvalidSettings
from gpuforge.log import logger

_log = logger("contention")
VARIABLE, VALUE, LIBRARY = "OPENBLAS_THREAD_TIMEOUT", "14", "numpy"
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
"""With one of these at 1, OpenBLAS has no workers that could spin."""
FEW_CORES = 4
SHORT_CALL_SECONDS = (20e-6, 500e-6)
"""Shorter calls use one thread anyway; for longer ones threads are worth more than the peace."""
BLAS_CLASSES = frozenset(["linalg", "matmul"])


@dataclass
class Threads:
    """What was done about spinning threads in this process.

    Attributes
    ----------
    set_variables : environment variables that gpuforge set, name to value
    too_late : libraries that were loaded before their variable could be set
    limited_calls : NumPy calls that ran with one BLAS thread to leave room for others
    """

    set_variables: dict[str, str] = field(default_factory=dict)
    too_late: list[str] = field(default_factory=list)
    limited_calls: int = 0


state = Threads()


def prepare_environment() -> dict[str, str]:
    """Set what keeps idle threads from spinning, only where unset and before the library loads.

    Returns all variables set so far by this process, name to value. Nothing is set where the
    setting ``tame_threads`` is off.
    """
    if not _wanted():
        return {}
    if VARIABLE in os.environ or any(os.environ.get(name) == "1" for name in ONE_THREAD):
        return dict(state.set_variables)
    if LIBRARY not in sys.modules:
        os.environ[VARIABLE] = state.set_variables[VARIABLE] = VALUE
    elif LIBRARY not in state.too_late:
        state.too_late.append(LIBRARY)
    return dict(state.set_variables)


def _wanted() -> bool:
    try:
        chosen = settings.load().settings
        return chosen.enabled and chosen.tame_threads
    except InvalidSettings as error:  # the session that reads them again will raise it
        _log.info("settings are not readable yet: %s", error)
        return True


def allowed_cores() -> int:
    """Return the number of logical CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class BlasLimit:
    """Runs short NumPy calls with one BLAS thread while other threaded backends are in use."""

    def __init__(self) -> None:
        self._libraries: list[Any] | None = None

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
        libraries = self._find()
        before = [library.get_num_threads() for library in libraries]
        for library in libraries:
            library.set_num_threads(1)
        state.limited_calls += 1
        try:
            yield
        finally:
            for library, threads in zip(libraries, before, strict=True):
                library.set_num_threads(threads)

    def _find(self) -> list[Any]:
        if self._libraries is None:
            from threadpoolctl import ThreadpoolController

            found = ThreadpoolController().select(internal_api="openblas")
            self._libraries = list(found.lib_controllers)
        return self._libraries
