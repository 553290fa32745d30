"""MLX on Metal, CUDA or the CPU. It is lazy: results are computed by `wait` or `get`.

It has no float64 and no complex128, its slices are copies, and masks cannot index. It does not
check indices or divisors, so guards do. If an allocation fails, it ends the process.

Sources: MLX documentation, pages "Indexing" (no bounds checks, no masks), "Data Types" (float64 on
the CPU only, never by default) and "Lazy Evaluation"; the rest is measured by the contract suite.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, cast

import numpy as np

from gpuforge.detect.free_memory import FreeMemory, read_free_memory
from gpuforge.runtime.array.indexing import index_of
from gpuforge.runtime.backends import Array, Backend
from gpuforge.runtime.lowering.contract import (
    COMPLEX_GUARDED,
    GUARDS,
    NOT_COMPLEX,
    Lowering,
    numpy_like,
    only,
    written,
)

LIBRARY = "mlx"
NAMED_ONLY = True
"""Used only when named, because it ends the process when memory is short."""


class MlxBackend(Backend):
    """One MLX device."""

    dies_when_short = True

    def __init__(self, mx: Any, device: Any, place: str) -> None:
        self.mx = mx
        self.device = device
        self.name = f"mlx:{place}"
        self.version = str(mx.__version__)
        self.lowering = lowering(mx)

    def put(self, array: Array) -> Any:
        """Return a copy of `array` in the memory that all of MLX's devices share."""
        try:
            return self.mx.array(array)
        except (ValueError, RuntimeError):  # negative strides, non-native byte order
            native = array.astype(array.dtype.newbyteorder("="), order="C")
            return self.mx.array(native)

    def get(self, array: Any) -> Array:
        made = np.array(array)
        return made.view(made.dtype.name)  # MLX's int64 is C's long long, NumPy's is long

    def scope(self) -> AbstractContextManager[Any]:
        return cast(AbstractContextManager[Any], self.mx.stream(self.device))

    def wait(self, value: Any) -> None:
        self.mx.eval(value)

    def exhausted(self, error: BaseException) -> bool:
        text = str(error)
        return isinstance(error, MemoryError) or "malloc" in text or "allocate" in text

    def release(self) -> None:
        self.mx.clear_cache()

    def memory(self) -> FreeMemory | None:
        whole = self.mx.device_info().get("max_recommended_working_set_size")
        if whole:  # Metal's
            used = self.mx.get_active_memory() + self.mx.get_cache_memory()
            return FreeMemory(whole - used, whole)
        return read_free_memory() if self.name == "mlx:cpu" else None


_RENAMED = {
    "true_divide": "divide", "absolute": "abs", "fabs": "abs", "invert": "bitwise_invert",
    "deg2rad": "radians", "rad2deg": "degrees", "rint": "round", "integer_power": "power",
    "float_power": "power",
}  # fmt: skip
"""row -> MLX's name for it"""


def _on_arrays(mx: Any, function: Any) -> Any:
    """Wrap a function of two arrays so that one of them may be a Python number."""

    def call(left: Any, right: Any) -> Any:
        if not hasattr(left, "dtype"):
            left = mx.array(left, right.dtype)
        elif not hasattr(right, "dtype"):
            right = mx.array(right, left.dtype)
        return function(left, right)

    return call


def _two_numbers(mx: Any) -> tuple[str, ...]:
    names = (
        "add subtract multiply true_divide floor_divide remainder power float_power integer_power"
        " maximum minimum arctan2 logical_and logical_or logaddexp greater greater_equal less"
        " less_equal equal not_equal bitwise_and bitwise_or bitwise_xor left_shift right_shift"
    )
    return tuple(names.split())


def _not_finite(mx: Any) -> Any:
    def not_finite(result: Any) -> Any:
        return ~mx.isfinite(result).all() if "complex" in str(result.dtype) else False

    return not_finite


def lowering(mx: Any) -> Lowering:
    """Return the lowering to MLX."""

    def typed(dtype: Any) -> Any:
        return getattr(mx, "bool_" if dtype.kind == "b" else dtype.name)

    functions = numpy_like(mx)
    functions |= {row: getattr(mx, name) for row, name in _RENAMED.items()}
    functions |= {name: _on_arrays(mx, functions[name]) for name in _two_numbers(mx)}
    functions |= {
        "sum": lambda x, axes, keep: mx.sum(x, axes, keep).astype(x.dtype),
        "prod": lambda x, axes, keep: mx.prod(x, axes, keep).astype(x.dtype),
        "fixed_power": lambda x, n: mx.power(x, mx.array(n, x.dtype)),
        "astype": lambda x, dtype: x.astype(typed(dtype)),
        "full": lambda shape, value, dtype: mx.full(shape, value, typed(dtype)),
        "eye": lambda n, m, k, dtype: mx.eye(n, m, k, typed(dtype)),
        "sign": lambda x: mx.where(mx.isnan(x), x, mx.sign(x)),
        "argmax": lambda x, axis: mx.argmax(x, axis=axis).astype(mx.int64),
        "argmin": lambda x, axis: mx.argmin(x, axis=axis).astype(mx.int64),
        "trunc": lambda x: mx.where(x < 0, mx.ceil(x), mx.floor(x)),
        "setitem": lambda x, value, *rest: written(mx.array(x), value, *rest),
        "checked_gather": lambda x, *rest: x[index_of(rest)],
        "scatter": lambda x, value, *rest: written(mx.array(x), value, *rest),
        "checked_scatter": lambda x, value, *rest: written(mx.array(x), value, *rest),
        "join_complex": lambda real, imag: real + mx.array(1j) * imag,
    }  # fmt: skip
    return Lowering(
        "MLX", functions, frozenset("?bBhHiIlLqQefF"),
        guards=GUARDS,
        result_guards=dict.fromkeys(COMPLEX_GUARDED, _not_finite(mx)),
        refused={
            **dict.fromkeys(NOT_COMPLEX, only("biuf", "MLX's complex function differs")),
            "floor_divide": only("iu", "MLX's result for this dtype differs from NumPy's"),
            "reciprocal": only("f", "MLX's result for this dtype differs from NumPy's"),
            **dict.fromkeys(("matmul", "einsum"), only("fc", "MLX has no product for this dtype")),
        },
        finite=lambda x: mx.isfinite(x).all(),
    )  # fmt: skip


def open_devices() -> list[Backend]:
    """Import MLX and return a backend for the CPU and, if there is one, for the GPU."""
    mx = import_module("mlx.core")
    found: list[Backend] = [MlxBackend(mx, mx.cpu, "cpu")]
    if mx.is_available(mx.gpu):
        found.append(MlxBackend(mx, mx.gpu, "metal" if mx.metal.is_available() else "cuda"))
    return found
