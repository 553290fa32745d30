"""MLX on Metal, CUDA or the CPU. Lazy: what a function returns is computed by `wait` or `get`.

What it does not do as NumPy is in `DEVIATIONS`; it has no float64 and no complex128, `svd` takes no
``full_matrices``, masks cannot index. Where an allocation fails it ends the process.

Sources: MLX documentation, pages "Indexing" (no bounds checks, no masks), "Data Types" (float64 on
the CPU only, never by default) and "Lazy Evaluation"; the rest is measured by the contract suite.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, cast

import numpy as np

from gpuforge.detect.free_memory import FreeMemory, read_free_memory
from gpuforge.runtime.backends import Array, Backend, NotExact
from gpuforge.runtime.watching import (
    REMAINDERS,
    WRITES,
    EagerBackend,
    Library,
    integer_deviations,
    unchecked_index,
    whole,
)

LIBRARY = "mlx"
_TOO_WIDE = "dDgG"
UNCHECKED = "MLX does not check indices: one out of range reads other memory, NumPy raises"
_SILENT = "MLX returns a result where NumPy raises LinAlgError"
_ALIASES = "MLX's slices are copies: what is written through them does not reach the whole"
DEVIATIONS = {
    **dict.fromkeys(WRITES, _ALIASES),
    **dict.fromkeys(("take", "take_along_axis", "put_along_axis", "at"), UNCHECKED),
    **dict.fromkeys(("inv", "cholesky", "solve", "pinv", "svd", "eigh", "eigvalsh"), _SILENT),
    "sign": "MLX's sign of NaN is 0, NumPy's is NaN",
    "sin": "MLX's sin of -0 is 0, NumPy's is -0",
    "logaddexp": "MLX's logaddexp has other signs of zero than NumPy's",
    "convolve": "MLX convolves by other sums, which spread NaN and infinities",
    **dict.fromkeys(
        REMAINDERS,
        "MLX divides without NumPy's checks: signs of zero and infinities differ,"
        " and integers by zero end the process",
    ),
    "mean": "MLX adds float16 up in float16, NumPy in float32",
    "__rmod__": "MLX's remainders have other signs of zero than NumPy's",
}
"""operation -> how it differs from NumPy's"""
INTEGER_DEVIATIONS = integer_deviations("MLX") | dict.fromkeys(
    ("round", "isclose", "allclose"), "MLX takes whole numbers as float32, NumPy as float64"
)
"""operation -> how it differs from NumPy's, where all operands are whole numbers"""


class MlxBackend(EagerBackend):
    """One MLX device."""

    dies_when_short = True

    def __init__(self, mx: Any, device: Any, place: str) -> None:
        self.mx = mx
        self._made = mx.array
        self.device = device
        self.name = f"mlx:{place}"
        self.version = str(mx.__version__)
        self.library = Library(
            "MLX", mx, lambda value: isinstance(value, mx.array), self._dtype, _deviation
        )

    def _dtype(self, value: Any) -> np.dtype[Any] | None:
        if not isinstance(value, self.mx.array):
            return None
        name = str(value.dtype).rpartition(".")[2]
        return np.dtype("float16" if name == "bfloat16" else name)

    def put(self, array: Array, *, share: bool) -> Any:
        """Return a copy of `array` in the memory that all of MLX's devices share.

        Raises
        ------
        NotExact
            If MLX has not its dtype, and would take a narrower one.
        """
        if array.dtype.char in _TOO_WIDE:
            raise NotExact(f"MLX has no {array.dtype}")
        try:
            return self._made(array)
        except (ValueError, RuntimeError):  # negative strides, the other order of bytes
            native = array.astype(array.dtype.newbyteorder("="), order="C")
            return self._made(native)

    def get(self, array: Any) -> Array:
        return np.array(array)

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


def _deviation(name: str, given: tuple[Any, ...]) -> str:
    if name == "__getitem__":
        return UNCHECKED if unchecked_index(given[1], given[0].shape) else ""
    if name == "mean" and "float16" not in str(given[0].dtype):
        return ""
    if name in ("round", "isclose", "allclose") and "int" in str(given[0].dtype):
        return INTEGER_DEVIATIONS[name]
    if name in INTEGER_DEVIATIONS and whole(name, given, lambda v: "int" in str(v.dtype)):
        return INTEGER_DEVIATIONS[name]
    return DEVIATIONS.get(name, "")


def open_devices() -> list[Backend]:
    """Import MLX and return a backend for the CPU and for the GPU where there is one."""
    mx = import_module("mlx.core")
    found: list[Backend] = [MlxBackend(mx, mx.cpu, "cpu")]
    if mx.is_available(mx.gpu):
        found.append(MlxBackend(mx, mx.gpu, "metal" if mx.metal.is_available() else "cuda"))
    return found
