"""dpnp over SYCL: Intel GPUs by Level Zero, CPUs by OpenCL (the wheel ``intel-opencl-rt``).

The wheel's own vendor files name a folder of the machine it was built on. If the user set no vendor
files, the wheel's library is named to the loader while it looks for devices. Over PoCL, which has
no shared memory for SYCL, no result comes back: it is then listed with that reason.

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

from gpuforge import trace
from gpuforge.runtime.backends import Array, Backend
from gpuforge.runtime.lowering.contract import (
    COMPLEX_GUARDED,
    GUARDS,
    NOT_COMPLEX,
    REUSING,
    VIEWS,
    Lowering,
    beyond_dtype,
    copied_and_written,
    numpy_like,
    only,
)
from gpuforge.runtime.timing import MarkTimer

LIBRARY = "dpnp"


class DpnpBackend(Backend):
    """One SYCL device."""

    def __init__(self, dpnp: Any, device: Any, name: str) -> None:
        self.dpnp = dpnp
        # Whether a queue times its events is fixed at its creation: it does if tracing is on then.
        kind = {"property": "enable_profiling"} if trace.enabled else {}
        self.queue = import_module("dpctl").SyclQueue(device, **kind)
        self.name = name
        self.version = str(dpnp.__version__)
        self.lowering = lowering(dpnp, self.queue, double=bool(device.has_aspect_fp64))

    def put(self, array: Array) -> Any:
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        return self.dpnp.asarray(array, sycl_queue=self.queue)

    def get(self, array: Any) -> Array:
        return cast(Array, self.dpnp.asnumpy(array))

    def wait(self, value: Any) -> None:
        self.queue.wait()

    def timer(self) -> MarkTimer | None:
        if not self.queue.has_enable_profiling:
            return None
        return MarkTimer(
            self.queue.submit_barrier,
            lambda first, last: last.profiling_info_start - first.profiling_info_end,
        )

    def exhausted(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError) or type(error).__name__ == "USMAllocationError"


def lowering(dpnp: Any, queue: Any, *, double: bool) -> Lowering:
    """Return the lowering to dpnp."""
    functions = numpy_like(dpnp)
    functions.pop("lcm", None)  # differs from NumPy on overflow

    def not_finite(result: Any) -> Any:
        return ~dpnp.isfinite(result).all() if result.dtype.kind == "c" else False

    def beyond(array: Any, dtype: Any) -> Any:
        """Return whether a conversion overflows; float16 is converted to unsigned through int16."""
        if array.dtype.char == "e" and dtype.char == "H":
            return ~((array > -1) & (array < 32768)).all()
        return beyond_dtype(array, dtype)

    def join(real: Any, imag: Any) -> Any:
        made = dpnp.empty_like(real, dtype="F" if real.dtype.char == "f" else "D")
        made.real, made.imag = real, imag
        return made

    functions |= copied_and_written() | {
        "integer_power": dpnp.power, "join_complex": join,
        "einsum": lambda *given: dpnp.einsum(  # it cannot take the diagonal of a slice
            given[-1], *map(dpnp.ascontiguousarray, given[:-1])),
        "full": lambda shape, value, dtype: dpnp.full(shape, value, dtype=dtype, sycl_queue=queue),
        "eye": lambda n, m, k, dtype: dpnp.eye(n, m, k, dtype=dtype, sycl_queue=queue),
    }  # fmt: skip
    return Lowering(
        "dpnp", functions, frozenset("?bBhHiIlLqQefdFD" if double else "?bBhHiIlLqQefF"),
        guards=GUARDS | {"astype": beyond},
        result_guards=dict.fromkeys(COMPLEX_GUARDED, not_finite),
        refused={
            **dict.fromkeys(NOT_COMPLEX, only("biuf", "dpnp's complex function differs")),
            "floor_divide": only("iu", "dpnp's result for this dtype differs from NumPy's"),
            "reciprocal": only("f", "dpnp's result for this dtype differs from NumPy's"),
        },
        reusing=REUSING,
        views=VIEWS,
        finite=lambda x: dpnp.isfinite(x).all(),
    )  # fmt: skip


@contextmanager
def _vendors_of_the_wheel() -> Iterator[None]:
    """Name the wheel's OpenCL library to the loader inside, if the user named none."""
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
        If SYCL has no device, or the current folder was deleted, in which its import would hang.
    """
    if not os.path.exists(os.curdir):
        raise RuntimeError("the current folder no longer exists")
    with _vendors_of_the_wheel():
        devices = import_module("dpctl").get_devices()
        dpnp = import_module("dpnp")
    if not devices:
        raise RuntimeError("SYCL has no device: 'pip install intel-opencl-rt' adds the CPU")
    found: list[Backend] = []
    for device in devices:
        place = "gpu" if device.is_gpu else "cpu" if device.is_cpu else "accelerator"
        index = sum(other.name.startswith(f"dpnp:{place}") for other in found)
        name = f"dpnp:{place}:{index}" if index or place != "cpu" else "dpnp:cpu"
        found.append(DpnpBackend(dpnp, device, name))
    return found
