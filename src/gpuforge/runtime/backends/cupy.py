"""CuPy on CUDA and ROCm.

Its kernels cannot raise: guards detect indices out of range, zero divisors, and shifts and
conversions beyond the dtype.

Sources: CuPy documentation, page "Differences between CuPy and NumPy" (indices out of range wrap,
duplicate indices in a write, casts beyond the dtype, reductions return arrays).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from functools import partial
from importlib import import_module
from typing import Any, cast

import numpy as np

from gpuforge.detect.free_memory import FreeMemory
from gpuforge.runtime.backends import Array, Backend
from gpuforge.runtime.lowering import placing
from gpuforge.runtime.lowering.contract import (
    COMPLEX_GUARDED,
    GUARDS,
    NOT_COMPLEX,
    REUSING,
    VIEWS,
    Lowering,
    copied_and_written,
    never,
    numpy_like,
    only,
)
from gpuforge.runtime.lowering.cupy import divided, extended, fmod
from gpuforge.runtime.staging import CHUNK_BYTES, TO_DEVICE, TO_HOST, Lane, Staging
from gpuforge.runtime.timing import MarkTimer

LIBRARY = "cupy"


class CupyBackend(Backend):
    """One CUDA or ROCm device."""

    def __init__(self, cupy: Any, index: int) -> None:
        self.cupy = cupy
        self.device = cupy.cuda.Device(index)
        place = "rocm" if cupy.cuda.runtime.is_hip else "cuda"
        self.name = f"cupy:{place}:{index}"
        self.version = str(cupy.__version__)
        self.staging: Staging = Staging(lambda: _open_lane(cupy))
        self.lowering = lowering(cupy)

    @property
    def deterministic(self) -> bool:
        return False  # atomic sums in reductions and scatters have no fixed order

    def put(self, array: Array) -> Any:
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

    def timer(self) -> MarkTimer:
        cuda = self.cupy.cuda
        return MarkTimer(
            lambda: cuda.get_current_stream().record(),
            lambda first, last: 1e6 * cuda.get_elapsed_time(first, last),
        )

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


def lowering(cupy: Any) -> Lowering:
    """Return the lowering to CuPy."""
    functions = numpy_like(cupy)
    for name in ("gcd", "lcm", "bitwise_count", "logaddexp2", "nextafter"):
        functions.pop(name, None)  # not tried against NumPy

    def not_finite(result: Any) -> Any:
        return ~cupy.isfinite(result).all() if result.dtype.kind == "c" else False

    def matmul(a: Any, b: Any) -> Any:
        return cupy.matmul(a, b).astype(a.dtype, copy=False)  # of vectors of int8, it gives int64

    def join(real: Any, imag: Any) -> Any:
        made = cupy.empty(real.shape, "F" if real.dtype.char == "f" else "D")
        made.real, made.imag = real, imag
        return made

    functions |= copied_and_written() | {
        "integer_power": cupy.power, "join_complex": join, "matmul": matmul,
        "floor_divide": lambda a, b: divided(cupy, a, b)[0],
        "remainder": lambda a, b: divided(cupy, a, b)[1],
        "fmod": partial(fmod, cupy),
        "argmax": lambda x, axis: cupy.argmax(x, axis=axis).view("int64"),  # not as longlong
        "argmin": lambda x, axis: cupy.argmin(x, axis=axis).view("int64"),
        "full": lambda shape, value, dtype: cupy.full(shape, value, dtype),
        "eye": lambda n, m, k, dtype: cupy.eye(n, m, k, dtype),
    }  # fmt: skip
    plain = Lowering(
        "CuPy", functions, frozenset("?bBhHiIlLqQefdFD"),
        guards=GUARDS,
        result_guards=dict.fromkeys(COMPLEX_GUARDED, not_finite),
        refused={
            **dict.fromkeys(NOT_COMPLEX, only("biuf", "CuPy's complex function differs")),
            **dict.fromkeys(("argmax", "argmin"), only("iuf", "CuPy orders it differently")),
            **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not"),
                            only("biuf", "CuPy has no logic of complex numbers")),
            "reciprocal": only("fc", "CuPy's result for integers differs from NumPy's"),
            "absolute": never("?", "CuPy's result for bool differs from NumPy's"),
        },
        reusing=REUSING,
        views=VIEWS,
        finite=lambda x: cupy.isfinite(x).all(),
    )  # fmt: skip
    return placing.in_cupy(extended(plain, cupy), cupy)


def open_devices() -> list[Backend]:
    """Import CuPy and return a backend for each device."""
    cupy = import_module("cupy")
    return [CupyBackend(cupy, index) for index in range(cupy.cuda.runtime.getDeviceCount())]
