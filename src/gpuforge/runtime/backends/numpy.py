"""NumPy on the host: the reference, always available."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuforge.runtime.backends import Array, Backend

if TYPE_CHECKING:
    from gpuforge.runtime.lowering.contract import Lowering

LIBRARY = "numpy"


class NumpyBackend(Backend):
    """NumPy, which computes every operation of the table with the function in its row."""

    name = "numpy"
    version = np.__version__
    on_host = True

    @cached_property
    def lowering(self) -> Lowering:  # type: ignore[override]
        """NumPy's own functions, from the table."""
        import gpuforge.runtime.array.operations  # noqa: F401 - fills the table
        from gpuforge.runtime.array.table import OPERATIONS
        from gpuforge.runtime.lowering.contract import Lowering
        from gpuforge.runtime.lowering.reusing import VIEWS, reusing

        functions = {name: operation.compute for name, operation in OPERATIONS.items()}
        dtypes = frozenset("?bBhHiIlLqQefdgFDG")
        return Lowering("NumPy", functions, dtypes, reusing=reusing(functions), views=VIEWS)

    def put(self, array: Array) -> Array:
        return array

    def get(self, array: Array) -> Array:
        return array

    def wait(self, value: Any) -> None:
        """Do nothing: NumPy is synchronous."""

    def exhausted(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)


def open_devices() -> list[Backend]:
    """Return the single backend."""
    return [NumpyBackend()]
