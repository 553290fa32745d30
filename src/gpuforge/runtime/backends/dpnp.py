"""dpnp over SYCL: Intel GPUs by Level Zero, CPUs by OpenCL (the wheel ``intel-opencl-rt``).

The wheel's own vendor files name a folder of the machine it was built on. Where the user set no
vendor files, the loader is shown the wheel's library while it looks for devices. Over PoCL, which
has no shared memory for SYCL, no result comes back: then it is listed with that reason.

Sources: Khronos OpenCL ICD loader, section "OpenCL ICD Loader Environment Variables"
(OCL_ICD_FILENAMES, OCL_ICD_VENDORS); dpnp reference, ``dpnp.take`` (mode "wrap" by default).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np

from gpuforge.runtime.backends import Array, Backend
from gpuforge.runtime.watching import (
    REMAINDERS,
    EagerBackend,
    Library,
    integer_deviations,
    is_index_array,
    whole,
)

LIBRARY = "dpnp"
CLIPPED = "dpnp clips or wraps an index out of range, NumPy raises"
_SILENT = "dpnp returns NaN where NumPy raises LinAlgError"
_INDEXING = ("take", "take_along_axis", "put", "put_along_axis", "place")
DEVIATIONS = {
    **dict.fromkeys(_INDEXING, CLIPPED),
    **dict.fromkeys(("svd", "svdvals", "pinv", "lstsq", "cholesky", "eigh", "eigvalsh"), _SILENT),
    **dict.fromkeys(("matrix_rank", "matrix_norm", "cond"), _SILENT),
    **dict.fromkeys(
        ("inv", "matrix_power"), "dpnp's inverse has numbers where infinities give NumPy's NaN"
    ),
    "astype": "dpnp takes infinities as other unsigned numbers than NumPy",
    **dict.fromkeys(
        REMAINDERS,
        "dpnp's division gives infinity where NumPy gives NaN, and does not check integers",
    ),
    **dict.fromkeys(
        ("cumsum", "cumulative_sum"), "dpnp's running sums of floats lose the sign of leading zeros"
    ),
    **dict.fromkeys(("argmax", "argmin"), "dpnp finds another one of several NaN than NumPy"),
    **dict.fromkeys(
        ("norm", "vector_norm"), "dpnp squares whole numbers in their dtype: they wrap"
    ),
    "__rmod__": "dpnp's remainders have other signs of zero than NumPy's",
    "mean": "dpnp adds float16 up in float16, NumPy in float32",
    "nextafter": "dpnp's results for zeros of float16 are not NumPy's",
}
"""operation -> how it differs from NumPy's"""
INTEGER_DEVIATIONS = integer_deviations("dpnp")
"""operation -> how it differs from NumPy's, where all operands are whole numbers"""


_CHARS = {
    **dict.fromkeys(("cumsum", "cumulative_sum", "argmax", "argmin"), "efdFD"),
    **dict.fromkeys(("norm", "vector_norm"), "bBhHiIlLqQ"),
    **dict.fromkeys(("mean", "nextafter"), "e"),
}
"""operation -> type codes of NumPy for which it differs"""


class DpnpBackend(EagerBackend):
    """One SYCL device."""

    writes = True

    def __init__(self, dpnp: Any, device: Any, name: str) -> None:
        self.dpnp = dpnp
        self.queue = import_module("dpctl").SyclQueue(device)
        self.name = name
        self.version = str(dpnp.__version__)
        kind = dpnp.ndarray
        self.library = Library(
            "dpnp",
            dpnp,
            lambda value: isinstance(value, kind),
            lambda value: np.dtype(value.dtype) if isinstance(value, kind) else None,
            _deviation,
        )

    def put(self, array: Array, *, share: bool) -> Any:
        made = super().put(array, share=share)
        if share:
            made.flags.writable = False
        return made

    def _to_device(self, array: Array) -> Any:
        return self.dpnp.asarray(array, sycl_queue=self.queue)

    def get(self, array: Any) -> Array:
        return cast(Array, self.dpnp.asnumpy(array))

    def wait(self, value: Any) -> None:
        self.queue.wait()

    def exhausted(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError) or type(error).__name__ == "USMAllocationError"


def _deviation(name: str, given: tuple[Any, ...]) -> str:
    if name in ("__getitem__", "__setitem__"):
        return CLIPPED if is_index_array(given[1]) else ""
    if name == "norm" and given[0].ndim > 1:
        return _SILENT
    if name in _CHARS:
        chars = {value.dtype.char for value in given[:2] if hasattr(value, "dtype")}
        return DEVIATIONS[name] if chars & set(_CHARS[name]) else ""
    if name == "astype":
        kinds = [np.dtype(kind).kind for kind in (given[0].dtype, given[1])]
        return DEVIATIONS[name] if kinds == ["f", "u"] else ""
    if name in INTEGER_DEVIATIONS and whole(name, given, lambda v: v.dtype.kind in "iub"):
        return INTEGER_DEVIATIONS[name]
    return DEVIATIONS.get(name, "")


@contextmanager
def _vendors_of_the_wheel() -> Iterator[None]:
    """Name the wheel's OpenCL library to the loader, where the user named none; then unset it."""
    library = Path(sys.prefix) / "lib" / "libintelocl.so"
    wanted = not ({"OCL_ICD_FILENAMES", "OCL_ICD_VENDORS"} & set(os.environ)) and library.exists()
    if wanted:
        os.environ["OCL_ICD_FILENAMES"] = str(library)
    try:
        yield
    finally:
        if wanted:
            del os.environ["OCL_ICD_FILENAMES"]


def open_devices() -> list[Backend]:
    """Import dpnp and return a backend for each SYCL device.

    Raises
    ------
    RuntimeError
        If SYCL has no device.
    """
    with _vendors_of_the_wheel():
        devices = import_module("dpctl").get_devices()
        dpnp = import_module("dpnp")
    if not devices:
        raise RuntimeError("SYCL has no device: pip install intel-opencl-rt gives it the CPU")
    found: list[Backend] = []
    for device in devices:
        place = "gpu" if device.is_gpu else "cpu" if device.is_cpu else "accelerator"
        index = sum(other.name.startswith(f"dpnp:{place}") for other in found)
        name = f"dpnp:{place}:{index}" if index or place != "cpu" else "dpnp:cpu"
        found.append(DpnpBackend(dpnp, device, name))
    return found
