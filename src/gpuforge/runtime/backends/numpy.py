"""NumPy on the host: the reference, always there."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import numpy as np

from gpuforge.runtime.backends import Array, Backend, KeepsNothing, Program, Uses

LIBRARY = "numpy"


class NumpyBackend(KeepsNothing):
    """Arguments are read-only views, results are what NumPy made."""

    name = "numpy"
    version = np.__version__
    compiles = False
    writes = True
    dies_when_short = False
    floor_seconds = 0.0
    compile_seconds = 0.0
    deterministic = True

    def namespace(self) -> ModuleType:
        return np

    def put(self, array: Array, *, share: bool) -> Array:
        if not share:
            return array.copy(order="K")
        view = array.view()
        view.flags.writeable = False
        return view

    def get(self, array: Array) -> Array:
        return array

    def is_array(self, value: Any) -> bool:
        return isinstance(value, np.ndarray | np.generic)

    def program(self, function: Program) -> Program:
        return function

    def scope(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def watch(self, function: Program, arguments: tuple[Any, ...]) -> Uses:
        function(*arguments)
        return Uses()

    def wait(self, value: Any) -> None:
        """NumPy has finished when it returns."""

    def written(self, array: Array) -> bool:
        return False

    def exhausted(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)


def open_devices() -> list[Backend]:
    """Return the one device there is."""
    return [NumpyBackend()]
