"""NumPy on several cores: its own functions, over blocks of large arrays.

Most of NumPy's functions use one core, and each passes over whole arrays, most of which are then no
longer in the processor's caches. This backend needs no other library, so it is open in a
millisecond.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuforge.runtime.backends import Array, Backend
from gpuforge.runtime.threads.contention import allowed_cores

if TYPE_CHECKING:
    from gpuforge.runtime.lowering.contract import Lowered, Lowering

LIBRARY = "numpy"
VARIABLE = "OMP_NUM_THREADS"
"""Limits the threads, as it does those of other libraries: programs that run one process per core
set it to 1.
"""
MOST_THREADS = 8
"""More threads than this wait for the interpreter's lock too often."""


class BlocksBackend(Backend):
    """NumPy over blocks of arrays, on `threads` threads (`evaluation/blocked.py`)."""

    name = "blocks:cpu"
    version = np.__version__
    on_host = True
    tape_limit = 512
    """Each graph copies the arrays that it writes into first.

    Source: ``benchmarks/time_steps.py``, before `TAPE_BYTES` limited the graphs of large arrays;
    grids of 450 x 450 to 700 x 700 took 0.69 to 0.84 of NumPy's time, 0.86 to 1.05 with 128.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads

    @cached_property
    def lowering(self) -> Lowering:  # type: ignore[override]
        """NumPy's own functions, from the table, some by faster loops."""
        from gpuforge.dataclass import replace
        from gpuforge.runtime.array import loops
        from gpuforge.runtime.array.views import write
        from gpuforge.runtime.backends.numpy import NumpyBackend

        usual = NumpyBackend().lowering
        faster: dict[str, Lowered] = {
            "where": loops.where, "maximum": loops.maximum, "minimum": loops.minimum
        }  # fmt: skip
        return replace(
            usual, library="NumPy in blocks", functions={**usual.functions, **faster},
            reusing={"setitem": write},
        )  # fmt: skip

    def put(self, array: Array) -> Array:
        return array

    def get(self, array: Any) -> Array:
        return np.asarray(array)

    def wait(self, value: Any) -> None:
        """Do nothing: the threads have ended their work when a program returns."""

    def exhausted(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)


def open_devices() -> list[Backend]:
    """Return the single backend.

    Raises
    ------
    RuntimeError
        If this process may use one core only, or shall use one thread.
    """
    cores = allowed_cores()
    if cores < 2:
        raise RuntimeError("this process may use one core only")
    wanted = os.environ.get(VARIABLE, "").partition(",")[0].strip()
    if wanted == "1":
        raise RuntimeError(f"{VARIABLE} is 1")
    limit = int(wanted) if wanted.isdecimal() and int(wanted) else MOST_THREADS
    return [BlocksBackend(min(cores, limit, MOST_THREADS))]
