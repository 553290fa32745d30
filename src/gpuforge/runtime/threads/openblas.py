"""The OpenBLAS loaded in this process: set its number of threads and restart its workers.

OpenBLAS reads ``OPENBLAS_THREAD_TIMEOUT`` when it loads, and passes it to its workers when they
start. It stops them before each fork of the process and restarts them with the next call that needs
them; this module does the same without a fork.

Stopping them while another thread is inside a BLAS call hangs, or frees that call's buffers. Hence
the workers are restarted only if there can be no such thread:

- Only the copy in NumPy's wheel, which only NumPy calls. SciPy's copy is also called by JAX, from
threads that Python does not know; a system's copy by any library.
- Only while the calling thread is the only Python thread, but for those of gpuforge that never call
BLAS, and without releasing the interpreter's lock in between.

The number of threads is set by OpenBLAS's own function, since threadpoolctl lets only the thread
that sets it first ever set it again.

Sources: OpenBLAS, ``driver/others/blas_server.c``, ``openblas_env.c`` and ``memory.c``.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Callable
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np

from gpuforge.dataclass import dataclass
from gpuforge.runtime.threads import WITHOUT_BLAS, symbols

FUNCTIONS = (
    "openblas_read_env",
    "openblas_thread_timeout",
    "blas_thread_shutdown_",
    "blas_thread_init",
)
_PREFIXES, _SUFFIXES = ("", "scipy_"), ("", "64_", "_64")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a restart of the workers.

    Attributes
    ----------
    restarted : whether they were stopped and started again
    reason : why they still spin; empty if they do not, or if there are none
    """

    restarted: bool = False
    reason: str = ""


class Copy:
    """A loaded copy of OpenBLAS with its own workers, shared by all threads."""

    def __init__(self, path: Path) -> None:
        loaded = getattr(os, "RTLD_NOLOAD", 0) | getattr(os, "RTLD_NOW", 0)
        self.library = ctypes.PyDLL(str(path), mode=loaded)  # calls keep the interpreter's lock
        self.path = path
        affixes = product(_PREFIXES, _SUFFIXES)
        self._prefix, self._suffix = next(
            (p, s) for p, s in affixes if hasattr(self.library, f"{p}openblas_get_num_threads{s}")
        )

    def _named(self, name: str) -> ctypes._NamedFuncPointer:
        function: ctypes._NamedFuncPointer = getattr(
            self.library, f"{self._prefix}{name}{self._suffix}"
        )
        return function

    @property
    def threads(self) -> int:
        """The process-wide number of threads that calls use."""
        return int(self._named("openblas_get_num_threads")())

    @threads.setter
    def threads(self, number: int) -> None:
        self._named("openblas_set_num_threads")(number)

    @property
    def is_numpys(self) -> bool:
        """Whether it is from NumPy's wheel, so that only NumPy calls it."""
        package = Path(np.__file__).parent
        return self.path.parent in (package.with_name("numpy.libs"), package / ".dylibs")

    @cached_property
    def internal(self) -> dict[str, Callable[[], int]]:
        """Those of `FUNCTIONS` that this copy has, exported or not. They take no arguments."""
        made: dict[str, Callable[[], int]] = {
            name: getattr(self.library, name) for name in FUNCTIONS if hasattr(self.library, name)
        }
        if len(made) < len(FUNCTIONS):
            known = self._named("openblas_get_num_threads")
            there = ctypes.cast(known, ctypes.c_void_p).value or 0
            found = symbols.addresses(self.path, FUNCTIONS, known.__name__, there)
            kind = ctypes.PYFUNCTYPE(ctypes.c_int)  # as of PyDLL: calls keep the interpreter's lock
            made = {name: kind(address) for name, address in found.items()} | made
        return made


def copies() -> list[Copy]:
    """Return the loaded copies whose workers are OpenBLAS's own (not OpenMP's)."""
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController().select(internal_api="openblas").lib_controllers
    return [Copy(Path(copy.filepath)) for copy in found if copy.threading_layer == "pthreads"]


def calm(timeout: int) -> Outcome:
    """Make idle workers sleep after two to the power `timeout` cycles, as the environment says.

    `timeout` is the value of ``OPENBLAS_THREAD_TIMEOUT``. Does nothing if the workers use it
    already, or if restarting them is not known to be safe.
    """
    found = copies()
    if not found or os.name != "posix":  # on Windows the workers do not spin
        return Outcome()
    copy = next((each for each in found if each.is_numpys), found[0])
    try:
        missing = [name for name in FUNCTIONS if name not in copy.internal]
    except (OSError, ValueError, IndexError, OverflowError, MemoryError, struct.error) as error:
        return Outcome(reason=f"the file of OpenBLAS cannot be read: {error!r}")
    if missing:
        return Outcome(reason=f"this OpenBLAS has no {' and no '.join(missing)}")
    if copy.internal["openblas_thread_timeout"]() == timeout:
        return Outcome()
    if not copy.is_numpys:
        return Outcome(reason="OpenBLAS is a copy that other libraries may be using")
    return _restart(copy.internal, timeout)


def _restart(internal: dict[str, Callable[[], int]], timeout: int) -> Outcome:
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return Outcome(reason="this Python has no lock that keeps other threads from using BLAS")
    harmless = {thread.ident for thread in threading.enumerate() if thread.name == WITHOUT_BLAS}
    if len(sys._current_frames().keys() - harmless) > 1:  # check before the environment is read
        return Outcome(reason="other threads were running, and might have been using BLAS")
    internal["openblas_read_env"]()
    if internal["openblas_thread_timeout"]() != timeout:
        return Outcome(reason="OpenBLAS does not take its time-out from the environment")
    internal["blas_thread_shutdown_"]()
    internal["blas_thread_init"]()
    return Outcome(restarted=True)
