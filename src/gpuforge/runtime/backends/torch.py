"""PyTorch on the CPU, CUDA or ROCm, Apple's MPS and Intel's XPU.

Operations run eagerly. Where PyTorch differs from NumPy for some values there is a guard: it leaves
shifts beyond the width and conversions beyond the dtype to the processor, raises for integers
divided by zero, and has NaN and infinities in other places in complex arithmetic.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, cast

import numpy as np

from gpuforge.detect.free_memory import FreeMemory
from gpuforge.runtime.array.index import NEW, PLACE
from gpuforge.runtime.array.indexing import ARRAY
from gpuforge.runtime.backends import Array, Backend
from gpuforge.runtime.lowering import placing
from gpuforge.runtime.lowering.contract import (
    COMPLEX_GUARDED,
    GUARDS,
    NOT_COMPLEX,
    Lowering,
    never,
    only,
)
from gpuforge.runtime.lowering.placing import complex_not_finite
from gpuforge.runtime.lowering.torch import extended
from gpuforge.runtime.staging import CHUNK_BYTES, TO_DEVICE, TO_HOST, Lane, Staging
from gpuforge.runtime.timing import MarkTimer

LIBRARY = "torch"


class TorchBackend(Backend):
    """One PyTorch device."""

    def __init__(self, torch: Any, device: str) -> None:
        self.torch = torch
        self.device = torch.device(device)
        self.name = f"torch:{device}"
        self.version = str(torch.__version__)
        self.on_host = self.device.type == "cpu"
        self.lowering = lowering(torch, self.device)
        cuda = self.device.type == "cuda"
        self.staging = Staging(lambda: _open_lane(torch, self.device)) if cuda else None

    @property
    def deterministic(self) -> bool:
        return self.on_host or bool(self.torch.are_deterministic_algorithms_enabled())

    def put(self, array: Array) -> Any:
        tensor = self.torch.from_numpy(_writable(array))  # PyTorch warns about read-only ones
        return tensor if self.on_host else self._move(TO_DEVICE, tensor, self.device)

    def get(self, array: Any) -> Array:
        if self.on_host and not (array.is_conj() or array.is_neg() or array.requires_grad):
            return cast(Array, array.numpy())
        if array.is_conj() or array.is_neg() or array.requires_grad:
            array = array.detach().resolve_conj().resolve_neg()
        return cast(Array, self._move(TO_HOST, array, "cpu").numpy())

    def _move(self, way: str, tensor: Any, place: Any) -> Any:
        staging, torch = self.staging, self.torch
        if staging and staging.takes(way, tensor.nbytes) and tensor.is_contiguous():
            made = torch.empty(tensor.shape, dtype=tensor.dtype, device=place)
            host, device = (tensor, made) if way == TO_DEVICE else (made, tensor)
            if staging.copy(way, *(t.view(-1).view(torch.uint8) for t in (host, device))):
                return made
        return tensor.cpu() if way == TO_HOST else tensor.to(place)

    def scope(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.on_host else self.device

    def wait(self, value: Any) -> None:
        if not self.on_host:
            getattr(self.torch, self.device.type).synchronize()

    def timer(self) -> MarkTimer | None:
        if self.device.type not in ("cuda", "xpu"):
            return None
        place = getattr(self.torch, self.device.type)

        def mark() -> Any:
            event = place.Event(enable_timing=True)
            event.record()
            return event

        return MarkTimer(mark, lambda first, last: 1e6 * first.elapsed_time(last))

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
    with torch.inference_mode(False):  # else it could not be written to outside
        both = torch.empty(2 * CHUNK_BYTES, dtype=torch.uint8, device="cpu", pin_memory=True)

    def queue(target: Any, source: Any) -> None:
        with torch.cuda.stream(stream):
            target.copy_(source, non_blocking=True)

    return Lane(
        chunks=(both[:CHUNK_BYTES], both[CHUNK_BYTES:]),
        begin=lambda: stream.wait_stream(torch.cuda.current_stream(device)),
        queue=queue,
        mark=stream.record_event,
        copy=lambda target, source: target.copy_(source),  # uses several threads, NumPy one
    )


def _writable(array: Array) -> Array:
    """Return a view of an array that PyTorch accepts, or a copy if there is none."""
    if any(stride < 0 for stride in array.strides):
        return np.ascontiguousarray(array)
    if not array.flags.writeable:
        array = array.view()
        try:
            array.flags.writeable = True
        except ValueError:  # the memory itself is read-only
            return array.copy(order="K")
    return array


def _on_tensors(torch: Any, function: Any) -> Any:
    """Wrap a function of two tensors so that one of them may be a Python number."""

    def call(left: Any, right: Any) -> Any:
        if not hasattr(left, "dtype"):
            left = torch.full((), left, dtype=right.dtype, device=right.device)
        elif not hasattr(right, "dtype"):
            right = torch.full((), right, dtype=left.dtype, device=left.device)
        return function(left, right)

    return call


def _forwards(part: tuple[int, int | None, int]) -> tuple[slice, bool]:
    """Return a slice with a positive step, and whether its result must be reversed."""
    start, stop, step = part
    if step > 0:
        return slice(start, stop, step), False
    places = range(start, -1 if stop is None else stop, step)
    return slice(places[-1], places[0] + 1, -step), True


def _index(rest: Any) -> tuple[tuple[Any, ...], list[int]]:
    """Return PyTorch's index, and the axes of its result that must be reversed."""
    *places, pattern = rest
    numbers = iter(places)
    index: list[Any] = []
    reversed_axes: list[int] = []
    axis = 0
    for part in pattern:
        if part == PLACE:
            index.append(next(numbers))
            continue
        if part == NEW:
            index.append(None)
        else:
            forwards, turned = _forwards(part)
            index.append(forwards)
            reversed_axes += [axis] if turned else []
        axis += 1
    return tuple(index), reversed_axes


def _getitem(x: Any, *rest: Any) -> Any:
    index, turned = _index(rest)
    return x[index].flip(turned) if turned else x[index]


def _setitem(x: Any, value: Any, *rest: Any) -> Any:
    index, turned = _index(rest)
    target = x[index]
    target.copy_(value.expand(target.shape).flip(turned) if turned else value)
    return x


def _places(x: Any, rest: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the array to index and PyTorch's index for a gather; integers count as arrays."""
    *given, pattern = rest
    count = pattern.count(ARRAY)
    arrays, numbers = iter(given[:count]), iter(given[count:])
    index: list[Any] = []
    axis = 0
    for part in pattern:
        if part == ARRAY:
            index.append(next(arrays))
        elif part == PLACE:
            index.append(given[0].new_full((1,) * max(given[0].ndim, 1), next(numbers)))
        else:
            index.append(None if part == NEW else _turned_slice(x.shape[axis], part))
        axis += part != NEW
    return x, tuple(index)


def _gather(x: Any, *rest: Any) -> Any:
    turned = _backward(rest[-1])
    if turned:
        x = x.flip(turned)
    whole, index = _places(x, rest)
    return whole[index]


def _scatter(x: Any, value: Any, *rest: Any) -> Any:
    turned = _backward(rest[-1])
    whole, index = _places(x.flip(turned) if turned else x, rest)
    whole[index] = value
    return whole.flip(turned) if turned else whole


def _backward(pattern: Any) -> list[int]:
    """Return the axes that a pattern reverses."""
    axes = [part for part in pattern if part != NEW]
    return [axis for axis, part in enumerate(axes) if type(part) is tuple and part[2] < 0]


def _turned_slice(length: int, part: tuple[int, int | None, int]) -> slice:
    """Return the equivalent slice, with a positive step, of a reversed axis."""
    start, stop, step = part
    if step > 0:
        return slice(*part)
    return slice(length - 1 - start, None if stop is None else length - 1 - stop, -step)


def _prod(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    for axis in reversed(axes):
        x = x.prod(dim=axis, keepdim=keep, dtype=x.dtype)
    return x if axes else x.clone()


def _full(torch: Any, device: Any) -> Any:
    return lambda shape, value, dtype: torch.full(
        shape, value, dtype=getattr(torch, dtype.name), device=device
    )


def _not_finite(result: Any) -> Any:
    """Return whether a sum is not finite: the order of its terms decides about NaN."""
    return not result.isfinite().all()


def _elementwise(torch: Any) -> dict[str, Any]:
    """Return PyTorch's functions of each element, with Python numbers among their inputs."""
    renamed = {
        "absolute": "abs", "fabs": "abs", "conjugate": "conj_physical", "deg2rad": "deg2rad",
        "radians": "deg2rad", "rad2deg": "rad2deg", "degrees": "rad2deg", "rint": "round",
        "invert": "bitwise_not", "left_shift": "bitwise_left_shift", "positive": "clone",
        "right_shift": "bitwise_right_shift",
    }  # fmt: skip
    single = (
        "negative absolute fabs sqrt square reciprocal exp exp2 expm1 log log2 log10 log1p sin cos"
        " tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh deg2rad rad2deg radians"
        " degrees rint floor ceil trunc isfinite isinf isnan signbit logical_not invert conjugate"
        " positive"
    ).split()
    both = (
        "maximum minimum fmax fmin arctan2 hypot logical_and logical_or logical_xor logaddexp"
        " copysign nextafter fmod"
    ).split()
    functions: dict[str, Any] = {name: getattr(torch, renamed.get(name, name)) for name in single}
    functions |= {name: _on_tensors(torch, getattr(torch, name)) for name in both}
    return functions | {
        "add": lambda a, b: a + b, "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
        "true_divide": _on_tensors(torch, torch.true_divide),
        "floor_divide": _on_tensors(torch, torch.floor_divide),
        "remainder": _on_tensors(torch, lambda a, b: torch.copysign(torch.remainder(a, b), b)
                                 if a.is_floating_point() else torch.remainder(a, b)),
        "power": _on_tensors(torch, torch.pow), "float_power": _on_tensors(torch, torch.pow),
        "integer_power": _on_tensors(torch, torch.pow),
        "fixed_power": lambda x, n: torch.pow(x, n),
        "sign": lambda x: torch.where(torch.isnan(x), x, torch.sign(x))
        if x.is_floating_point() else torch.sign(x),
        "heaviside": _on_tensors(torch, lambda x, h: torch.where(
            torch.isnan(x), x, torch.heaviside(x, h))),
        "greater": lambda a, b: a > b, "greater_equal": lambda a, b: a >= b,
        "less": lambda a, b: a < b, "less_equal": lambda a, b: a <= b,
        "equal": lambda a, b: a == b, "not_equal": lambda a, b: a != b,
        "bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b,
        "bitwise_xor": lambda a, b: a ^ b,
        "left_shift": _on_tensors(torch, torch.bitwise_left_shift),
        "right_shift": _on_tensors(torch, torch.bitwise_right_shift),
        "astype": lambda x, dtype: x != 0 if dtype.kind == "b" else x.to(
            getattr(torch, dtype.name)),
        "where": torch.where,
        "join_complex": torch.complex, "real": lambda x: x.real if x.is_complex() else x,
        "imag": lambda x: x.imag if x.is_complex() else torch.zeros_like(x),
    }  # fmt: skip


def _placing(torch: Any, device: Any) -> dict[str, Any]:
    """Return what creates, moves and selects elements."""
    return {
        "full": _full(torch, device),
        "eye": lambda n, m, k, dtype: torch.ones(
            n, m, dtype=getattr(torch, dtype.name), device=device).triu(k).tril(k),
        "getitem": _getitem, "setitem": lambda x, *rest: _setitem(x.clone(), *rest),
        "gather": _gather, "checked_gather": _gather,
        "scatter": lambda x, *rest: _scatter(x.clone(), *rest),
        "checked_scatter": lambda x, *rest: _scatter(x.clone(), *rest),
        "select": lambda x, mask: x[mask],
        "transpose": lambda x, axes: x.permute(axes),
        "reshape": lambda x, shape: x.reshape(shape),
        "broadcast_to": lambda x, shape: x.expand(shape),
        "concatenate": lambda *given: torch.cat(given[:-1], dim=given[-1]),
    }  # fmt: skip


def _reductions(torch: Any) -> dict[str, Any]:
    """Return sums, products, also of matrices, and extremes; over no axis, they are copies."""
    return {
        "sum": lambda x, axes, keep: torch.sum(x, dim=axes, keepdim=keep, dtype=x.dtype)
        if axes else x.clone(),
        "prod": _prod,
        "max": lambda x, axes, keep: torch.amax(x, dim=axes, keepdim=keep) if axes else x.clone(),
        "min": lambda x, axes, keep: torch.amin(x, dim=axes, keepdim=keep) if axes else x.clone(),
        "any": lambda x, axes, keep: torch.any(x, dim=axes, keepdim=keep) if axes else x.clone(),
        "all": lambda x, axes, keep: torch.all(x, dim=axes, keepdim=keep) if axes else x.clone(),
        "argmax": lambda x, axis: torch.argmax(x, dim=axis),
        "argmin": lambda x, axis: torch.argmin(x, dim=axis),
        "matmul": torch.matmul,
        "einsum": lambda *given: torch.einsum(given[-1], *given[:-1]),
    }  # fmt: skip


def lowering(torch: Any, device: Any) -> Lowering:
    """Return the lowering to PyTorch."""
    functions = {**_elementwise(torch), **_placing(torch, device), **_reductions(torch)}
    plain = Lowering(
        "PyTorch", functions, frozenset("?bBhiqlefF" if device.type == "mps" else "?bBhiqlefdFD"),
        guards=GUARDS,
        refused={
            **dict.fromkeys(NOT_COMPLEX, only("biuf", "PyTorch's complex function differs")),
            **dict.fromkeys(("argmax", "argmin"), only("iuf", "PyTorch orders it differently")),
            **dict.fromkeys(("rint", "floor", "ceil", "trunc", "signbit"),
                            only("f", "PyTorch rounds only floating-point numbers")),
            "matmul": only("iufc" if device.type == "cpu" else "fc",
                           "PyTorch has no product for this dtype"),
            "absolute": never("?", "PyTorch has no absolute value for bool"),
            "einsum": only("fc", "PyTorch sums integers in int64"),
            "reciprocal": only("fc", "PyTorch's result for integers is not an integer"),
            "nextafter": never("e", "PyTorch has no nextafter for float16"),
        },
        result_guards=dict.fromkeys(COMPLEX_GUARDED, complex_not_finite)
        | dict.fromkeys(("matmul", "einsum", "sum", "prod"), _not_finite),
        reusing={"setitem": _setitem, "scatter": _scatter, "checked_scatter": _scatter},
        views=frozenset("getitem transpose reshape broadcast_to real imag conjugate".split()),
        finite=lambda x: x.sum().isfinite() or x.isfinite().all(),
    )  # fmt: skip
    return placing.in_torch(extended(plain, torch), torch, _places)


def open_devices() -> list[Backend]:
    """Import PyTorch and return a backend for each of its devices: CUDA's, the CPU, the others."""
    torch = import_module("torch")
    names = []
    if torch.cuda.is_available():
        names += [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    names.append("cpu")
    if torch.backends.mps.is_available():
        names.append("mps")
    xpu = getattr(torch, "xpu", None)
    if xpu is not None and xpu.is_available():
        names += [f"xpu:{index}" for index in range(xpu.device_count())]
    return [TorchBackend(torch, name) for name in names]
