"""CuPy on CUDA and ROCm.

What it does not do as NumPy is in `DEVIATIONS`: it cannot raise from a kernel. Its arrays have no
read-only flag and an argument may not be written, so functions that write are left out.

Sources: CuPy documentation, page "Differences between CuPy and NumPy" (indices out of range wrap,
duplicate indices in a write, no checks in linalg), ``cupyx.errstate(linalg=...)``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from importlib import import_module
from typing import Any, cast

import numpy as np

from gpuforge.detect.free_memory import FreeMemory
from gpuforge.runtime.backends import Array, Backend
from gpuforge.runtime.staging import CHUNK_BYTES, TO_DEVICE, TO_HOST, Lane, Staging
from gpuforge.runtime.watching import (
    REMAINDERS,
    WRITES,
    EagerBackend,
    Library,
    integer_deviations,
    is_index_array,
    whole,
)

LIBRARY = "cupy"
WRAPPED = "CuPy wraps an index out of range, NumPy raises"
_WRITTEN = "CuPy's arrays cannot be made read-only, so a write to an argument would go unseen"
_SILENT = "CuPy returns NaN where NumPy raises LinAlgError"
_FACTORISATIONS = ("inv", "cholesky", "solve", "svd", "svdvals", "eigh", "eigvalsh", "pinv")
DEVIATIONS = {
    **dict.fromkeys(WRITES, _WRITTEN),
    **dict.fromkeys(("take", "take_along_axis", "put", "put_along_axis"), WRAPPED),
    **dict.fromkeys(_FACTORISATIONS, _SILENT),
}
"""operation -> how it differs from NumPy's"""
_DIVISION = "CuPy does not check integer division by zero as NumPy does"
INTEGER_DEVIATIONS = integer_deviations("CuPy") | dict.fromkeys(
    (*REMAINDERS, "__rmod__"), _DIVISION
)
"""operation -> how it differs from NumPy's, where all operands are whole numbers"""
_READ_BY_PYTHON = {"__bool__", "__int__", "__float__", "__complex__", "__index__", "item"}


class CupyBackend(EagerBackend):
    """One CUDA or ROCm device."""

    deterministic = False  # atomic sums in reductions and scatters have no fixed order

    def __init__(self, cupy: Any, index: int) -> None:
        self.cupy = cupy
        self.device = cupy.cuda.Device(index)
        place = "rocm" if cupy.cuda.runtime.is_hip else "cuda"
        self.name = f"cupy:{place}:{index}"
        self.version = str(cupy.__version__)
        self.staging: Staging = Staging(lambda: _open_lane(cupy))
        self.library = Library(
            "CuPy",
            import_module("array_api_compat.cupy"),
            lambda value: isinstance(value, cupy.ndarray),
            lambda value: np.dtype(value.dtype) if isinstance(value, cupy.ndarray) else None,
            _deviation,
        )

    def _to_device(self, array: Array) -> Any:
        with self.device:
            if array.flags.c_contiguous and self.staging.takes(TO_DEVICE, array.nbytes):
                made = self.cupy.empty(array.shape, array.dtype)
                if self.staging.copy(TO_DEVICE, _bytes(array), _bytes(made)):
                    return made
            return self.cupy.array(array, order="K")

    def get(self, array: Any) -> Array:
        with self.device:
            if array.flags.c_contiguous and self.staging.takes(TO_HOST, array.nbytes):
                made: Array = np.empty(array.shape, array.dtype)
                if self.staging.copy(TO_HOST, _bytes(made), _bytes(array)):
                    return made
            return cast(Array, self.cupy.asnumpy(array, order="A"))

    def scope(self) -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(self.device)
        return stack

    def wait(self, value: Any) -> None:
        self.device.synchronize()

    def exhausted(self, error: BaseException) -> bool:
        return isinstance(error, self.cupy.cuda.memory.OutOfMemoryError | MemoryError)

    def release(self) -> None:
        self.cupy.get_default_memory_pool().free_all_blocks()
        self.cupy.get_default_pinned_memory_pool().free_all_blocks()

    def memory(self) -> FreeMemory:
        return FreeMemory(*self.device.mem_info)


def _open_lane(cupy: Any) -> Lane:
    """Return two page-locked arrays and a stream of the current device."""
    stream = cupy.cuda.Stream(non_blocking=True)
    both = import_module("cupyx").empty_pinned(2 * CHUNK_BYTES, np.uint8)

    def queue(target: Any, source: Any) -> None:
        if isinstance(source, np.ndarray):
            target.data.copy_from_host_async(source.ctypes.data, source.nbytes, stream)
        else:
            source.data.copy_to_host_async(target.ctypes.data, target.nbytes, stream)

    return Lane(
        chunks=(both[:CHUNK_BYTES], both[CHUNK_BYTES:]),
        begin=lambda: stream.wait_event(cupy.cuda.get_current_stream().record()),
        queue=queue,
        mark=stream.record,
    )


def _bytes(array: Any) -> Any:
    return array.reshape(-1).view(np.uint8)


def _deviation(name: str, given: tuple[Any, ...]) -> str:
    if name == "__getitem__":
        return WRAPPED if is_index_array(given[1]) else ""
    if name in _READ_BY_PYTHON:
        return "values steer Python code: each one waits for the GPU"
    if name in INTEGER_DEVIATIONS and whole(name, given, lambda v: v.dtype.kind in "iub"):
        return INTEGER_DEVIATIONS[name]
    return DEVIATIONS.get(name, "")


def open_devices() -> list[Backend]:
    """Import CuPy and return a backend for each device."""
    cupy = import_module("cupy")
    return [CupyBackend(cupy, index) for index in range(cupy.cuda.runtime.getDeviceCount())]
