"""PyTorch on the CPU, CUDA or ROCm, Apple's MPS and Intel's XPU.

Not exactly NumPy, and therefore left out for a kind of call that uses it: what `DEVIATIONS` names,
for the dtypes in `_CHARS`, and each step of another dtype than NumPy's (int32 + float32; an int32
array times an int64 number of no dimensions, which wraps). What raises here but not in NumPy
(reversed slices, negative ``take``) is settled by NumPy at run time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from types import ModuleType
from typing import Any, cast

import numpy as np

from gpuforge.detect.free_memory import FreeMemory
from gpuforge.runtime.backends import Array, Backend, Program, Uses
from gpuforge.runtime.staging import CHUNK_BYTES, TO_DEVICE, TO_HOST, Lane, Staging
from gpuforge.runtime.watching import COMPLEX, NAN_OF_COMPLEX, TIES, beyond, promotion

LIBRARY = "torch"
_POWERS = {"pow", "__pow__", "__rpow__", "__ipow__", "pow_"}
_SHIFTS = {"__lshift__", "__rshift__", "bitwise_left_shift", "bitwise_right_shift"}
_REMAINDERS = {"remainder", "fmod", "__mod__", "__rmod__", "__imod__"}
_COMPLEX = COMPLEX | {"__rdiv__", "add", "sub", "subtract", "__rsub__", "rsub", "add_", "sub_"}
_DRAWN = ("linspace", "arange", "tensor", "asarray", "full", "logspace")
DEVIATIONS = {
    **dict.fromkeys(_COMPLEX, f"PyTorch's {NAN_OF_COMPLEX}"),
    **dict.fromkeys(("argsort", "topk"), f"PyTorch's argsort: {TIES}"),
    **dict.fromkeys(("cumsum", "cumsum_"), "PyTorch's running sums lose the sign of leading zeros"),
    **dict.fromkeys(("searchsorted", "bucketize"), "PyTorch finds other places for NaN"),
    **dict.fromkeys(("angle", "nextafter"), "PyTorch's results for zeros are not NumPy's"),
    **dict.fromkeys(("std", "var"), "PyTorch's float16 squares do not overflow as NumPy's"),
    "take_along_dim": "array-api-compat wraps an index out of range, NumPy raises",
    "__rdiv__": "PyTorch divides by multiplying with the reciprocal, which may overflow",
    **dict.fromkeys(_DRAWN, "PyTorch makes float32 where NumPy makes float64"),
    **dict.fromkeys(_POWERS, "PyTorch's integer powers take negative exponents, NumPy's raise"),
    **dict.fromkeys(_SHIFTS, "PyTorch leaves shifts beyond the width undefined, NumPy does not"),
    **dict.fromkeys(_REMAINDERS, "PyTorch's remainders have other signs of zero than NumPy's"),
}
"""operation -> how it differs from NumPy's, for some dtypes and numbers only"""
_CHARS = {
    **dict.fromkeys(("argsort", "topk"), "?bBhHiIlLqQefdFD"),
    **dict.fromkeys(("cumsum", "cumsum_", "searchsorted", "bucketize"), "efdFD"),
    **dict.fromkeys(("angle", "nextafter"), "efd"),
    **dict.fromkeys(("std", "var"), "e"),
}
"""operation -> type codes of NumPy for which it differs"""
_NAMES = {
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
}
_READ_BY_PYTHON = {"__bool__", "item", "tolist", "__int__", "__float__", "__index__", "__array__"}


class TorchBackend(Backend):
    """One PyTorch device."""

    writes = True

    def __init__(self, torch: Any, device: str) -> None:
        self.torch = torch
        self.device = torch.device(device)
        self.name = f"torch:{device}"
        self.version = str(torch.__version__)
        self.on_host = self.device.type == "cpu"
        cuda = self.device.type == "cuda"
        self.staging = Staging(lambda: _open_lane(torch, self.device)) if cuda else None

    @property
    def deterministic(self) -> bool:
        return self.on_host or bool(self.torch.are_deterministic_algorithms_enabled())

    def namespace(self) -> ModuleType:
        return import_module("array_api_compat.torch")

    def put(self, array: Array, *, share: bool) -> Any:
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        elif not (share and self.on_host) or not array.flags.writeable or _reversed(array):
            plain = self.on_host or not array.flags.writeable  # PyTorch warns of read-only ones
            array = array.copy(order="K") if plain else np.ascontiguousarray(array)
        tensor = self.torch.from_numpy(array)
        if self.on_host:
            return tensor
        return self._move(TO_DEVICE, tensor, self.device)

    def get(self, array: Any) -> Array:
        if self.on_host and not (array.is_conj() or array.is_neg() or array.requires_grad):
            return cast(Array, array.numpy())
        settled = array.detach().resolve_conj().resolve_neg()
        return cast(Array, self._move(TO_HOST, settled, "cpu").numpy())

    def _move(self, way: str, tensor: Any, place: Any) -> Any:
        staging, torch = self.staging, self.torch
        if staging and tensor.is_contiguous() and staging.takes(way, tensor.nbytes):
            made = torch.empty(tensor.shape, dtype=tensor.dtype, device=place)
            host, device = (tensor, made) if way == TO_DEVICE else (made, tensor)
            if staging.copy(way, *(t.view(-1).view(torch.uint8) for t in (host, device))):
                return made
        return tensor.to(place)

    def is_array(self, value: Any) -> bool:
        return isinstance(value, self.torch.Tensor)

    def scope(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.on_host else self.device

    def watch(self, function: Program, arguments: tuple[Any, ...]) -> Uses:
        from torch.overrides import TorchFunctionMode

        uses = Uses()

        class Watch(TorchFunctionMode):
            def __torch_function__(
                self, called: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                name = getattr(called, "__name__", str(called))
                uses.operations.add(name)
                named = kwargs or {}
                result = called(*args, **named)
                given = (*args, *named.values())
                chosen = name in _DRAWN and named.get("dtype") is not None
                uses.not_exact = (
                    uses.not_exact
                    or ("" if chosen else _deviation(name, args, result))
                    or beyond("PyTorch", name, given, _dtype)
                    or promotion("PyTorch", name, given, result, _dtype)
                )
                return result

        with Watch():
            function(*arguments)
        if uses.operations & _READ_BY_PYTHON and not self.on_host:
            uses.not_exact = (
                uses.not_exact or "values steer Python code: each one waits for the GPU"
            )
        return uses

    def wait(self, value: Any) -> None:
        if not self.on_host:
            getattr(self.torch, self.device.type).synchronize()

    def written(self, array: Any) -> bool:
        return bool(array._version)

    def exhausted(self, error: BaseException) -> bool:
        if isinstance(error, self.torch.OutOfMemoryError | MemoryError):
            return True
        return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)

    def release(self) -> None:
        if not self.on_host:
            getattr(self.torch, self.device.type).empty_cache()

    def memory(self) -> FreeMemory | None:
        place = getattr(self.torch, self.device.type)
        if self.device.type == "mps":
            whole = int(place.recommended_max_memory())
            return FreeMemory(whole - int(place.driver_allocated_memory()), whole)
        read = None if self.on_host else getattr(place, "mem_get_info", None)
        return FreeMemory(*read(self.device)) if read else None


def _open_lane(torch: Any, device: Any) -> Lane:
    """Return two page-locked tensors and a stream of one CUDA device."""
    stream = torch.cuda.Stream(device)
    with torch.inference_mode(False):  # or it could not be written to outside
        both = torch.empty(2 * CHUNK_BYTES, dtype=torch.uint8, device="cpu", pin_memory=True)

    def queue(target: Any, source: Any) -> None:
        with torch.cuda.stream(stream):
            target.copy_(source, non_blocking=True)

    return Lane(
        chunks=(both[:CHUNK_BYTES], both[CHUNK_BYTES:]),
        begin=lambda: stream.wait_stream(torch.cuda.current_stream(device)),
        queue=queue,
        mark=stream.record_event,
        copy=lambda target, source: target.copy_(source),  # by several threads, NumPy's by one
    )


def _reversed(array: Array) -> bool:
    return any(stride < 0 for stride in array.strides)


def _dtype(value: Any) -> np.dtype[Any] | None:
    name = str(getattr(value, "dtype", "")).removeprefix("torch.")
    return np.dtype(name) if hasattr(value, "_version") and name in _NAMES else None


def _deviation(name: str, arguments: Any, result: Any) -> str:
    """Return how an operation on these arguments may differ from NumPy's; empty if it does not."""
    if name not in DEVIATIONS:
        return ""
    chars = {d.char for value in arguments[:2] if (d := _dtype(value)) is not None}
    if name in _COMPLEX and (chars & set("FD") or complex in map(type, arguments)):
        return f"PyTorch's {NAN_OF_COMPLEX}"
    if name == "take_along_dim":
        return DEVIATIONS[name]
    if name in _CHARS:
        return DEVIATIONS[name] if chars & set(_CHARS[name]) else ""
    if name == "__rdiv__":
        number = arguments[1]
        return DEVIATIONS[name] if isinstance(number, float | int) and abs(number) < 1 else ""
    if name in _DRAWN:
        return DEVIATIONS[name] if not chars and _dtype(result) == np.float32 else ""
    whole = [
        isinstance(a, int) or (hasattr(a, "is_floating_point") and not _inexact(a))
        for a in arguments[:2]
    ]
    if name not in _POWERS | _SHIFTS | _REMAINDERS:
        return ""
    if name in _REMAINDERS:
        return "" if all(whole) else DEVIATIONS[name]
    steady = isinstance(arguments[-1], int) and 0 <= arguments[-1] < 8
    if not all(whole) or (steady and name != "__rpow__"):
        return ""
    return DEVIATIONS[name]


def _inexact(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def open_devices() -> list[Backend]:
    """Import PyTorch and return a backend for each of its devices."""
    torch = import_module("torch")
    names = ["cpu"]
    if torch.cuda.is_available():
        names += [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("mps")
    xpu = getattr(torch, "xpu", None)
    if xpu is not None and xpu.is_available():
        names += [f"xpu:{index}" for index in range(xpu.device_count())]
    return [TorchBackend(torch, name) for name in names]
