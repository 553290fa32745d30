"""NumPy on the host: the reference, always there."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from gpuforge.runtime.backends import Array, Backend

LIBRARY = "numpy"


class NumpyBackend(Backend):
    """Arguments are read-only views, results are what NumPy made."""

    name = "numpy"
    version = np.__version__
    writes = True

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

    def wait(self, value: Any) -> None:
        """NumPy has finished when it returns."""

    def exhausted(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)


def open_devices() -> list[Backend]:
    """Return the one device there is."""
    return [NumpyBackend()]
