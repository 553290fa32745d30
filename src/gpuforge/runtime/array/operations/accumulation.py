"""Methods of universal functions besides a call: ``at``, ``outer`` and further ``reduce``."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of
from gpuforge.runtime.array.dispatch import operand
from gpuforge.runtime.array.elementwise import note_ufunc
from gpuforge.runtime.array.indexing import note_scattered, number_node, setitem
from gpuforge.runtime.array.operations.view import taken
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.table import FUNCTIONS, notes
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import cast, reshape


def _at(ufunc: Any) -> Any:
    def at(recorder: Recorder, a: Any, indices: Any, b: Any) -> None:
        if type(a) is not Array or a._scalar:
            raise Unsupported("it writes into an array that is not recorded")
        value = _added(recorder, a, b)
        if ufunc is np.subtract:
            if a.dtype.kind not in "ifc":
                raise Unsupported(f"{a.dtype} subtracted at places")
            value = note_ufunc(recorder, np.negative, (value,))
        parts = indices if type(indices) is tuple else (indices,)
        if any(isinstance(one, list | np.ndarray) for one in parts):
            note_scattered(a, indices, node_of(value))
        else:
            setitem(a, indices, note_ufunc(recorder, np.add, (a[indices], value)))  # type: ignore[index]

    return at


def _added(recorder: Recorder, a: Array, b: Any) -> Array:
    """Return what is added to places of `a`, in its dtype."""
    weak = type(b) in (int, float, complex)
    common = np.result_type(a.dtype, b if weak else operand(recorder, b).dtype)
    if weak and a.dtype == np.uint64:
        raise Unsupported("integers that NumPy adds as floating-point numbers")
    if not np.can_cast(common, a.dtype, "same_kind") or a.dtype.kind == "b":
        raise Unsupported("values that cannot be cast")
    node = number_node(recorder, b, a.dtype) if weak else operand(recorder, b)
    return make(recorder, cast(recorder, node, a.dtype))


def _outer(ufunc: Any) -> Any:
    def outer(recorder: Recorder, a: Any, b: Any, /, **options: Any) -> Any:
        if options:
            raise Unsupported("outer with options")
        left, right = (
            taken(recorder, np.asarray(one) if isinstance(one, list | tuple) else one)
            for one in (a, b)
        )
        column = reshape(recorder, node_of(left), (*left.shape, *(1,) * right.ndim))
        return note_ufunc(recorder, ufunc, (make(recorder, column), right))

    return outer


def _reduce(function: Any) -> Any:
    def reduce(recorder: Recorder, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
               keepdims: Any = False, where: Any = True) -> Any:  # fmt: skip
        if where is not True or dtype is not None:
            raise Unsupported("reduce with where= or dtype=")
        return FUNCTIONS[function](recorder, x, axis=axis, out=out, keepdims=keepdims)

    return reduce


_OUTER = (
    "add subtract multiply true_divide power maximum minimum hypot arctan2 less less_equal greater"
    " greater_equal equal not_equal logical_and logical_or bitwise_and bitwise_or bitwise_xor"
)
for _name in ("add", "subtract"):
    notes((getattr(np, _name), "at"))(_at(getattr(np, _name)))
for _name in _OUTER.split():
    notes((getattr(np, _name), "outer"))(_outer(getattr(np, _name)))
notes((np.logical_and, "reduce"))(_reduce(np.all))
notes((np.logical_or, "reduce"))(_reduce(np.any))
