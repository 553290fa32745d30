"""Functions that write into an argument, recorded as assignments."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of
from gpuforge.runtime.array.dispatch import operand
from gpuforge.runtime.array.formula import follow_numpy
from gpuforge.runtime.array.graph import Node
from gpuforge.runtime.array.indexing import note_where, number_node, setitem, value_node, write
from gpuforge.runtime.array.operations.view import reshape_
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.rules import broadcast
from gpuforge.runtime.array.table import notes
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import broadcast_to, cast

follow_numpy(np.put_along_axis)  # it writes once, at its end
_NUMBERS = (bool, int, float, complex)


def _target(array: Any) -> Array:
    if type(array) is not Array or array._scalar:
        raise Unsupported("it writes into an array that is not recorded")
    return array


def _put_everywhere(target: Array, mask: Node | None, value: Node) -> None:
    node, recorder = node_of(target), target._recorder
    value = cast(recorder, value, node.dtype)
    for given in (value, *([] if mask is None else [mask])):
        if broadcast(given.shape, node.shape) != node.shape:
            raise Unsupported("incompatible shapes")
    if mask is None:
        write(target, broadcast_to(recorder, value, node.shape))
    else:
        write(target, note_where(recorder, mask, value, node))


@notes(np.copyto)
def copyto(recorder: Recorder, dst: Any, src: Any, casting: Any = "same_kind",
           where: Any = True) -> None:  # fmt: skip
    """Record values copied into an array, everywhere or where a mask is true."""
    target = _target(dst)
    if type(src) in _NUMBERS:
        kind = np.result_type(target.dtype, src)
    else:
        kind = operand(recorder, src).dtype
    if casting not in ("same_kind", "unsafe") or not np.can_cast(kind, target.dtype, casting):
        raise Unsupported("values that cannot be cast")
    mask = None if where is True else operand(recorder, where)
    if mask is not None and mask.dtype.kind != "b":
        raise Unsupported("a mask that is not boolean")
    _put_everywhere(target, mask, value_node(recorder, src, target.dtype))


def _one_value(recorder: Recorder, values: Any, target: Array) -> Node:
    """Return the single number to write, converted as NumPy does, even if precision is lost."""
    if type(values) not in _NUMBERS and not isinstance(values, np.generic):
        raise Unsupported("several values")
    if np.asarray(values).dtype.kind == "c" != target.dtype.kind:
        raise Unsupported("complex values written into another dtype")
    return number_node(recorder, values, target.dtype)


@notes(np.putmask)
def putmask(recorder: Recorder, a: Any, mask: Any, values: Any) -> None:
    """Record values written where a mask is true: one, or an array of them in the same places."""
    target = _target(a)
    if np.shape(values) != target.shape or not target.ndim:
        place(recorder, a, mask, values)
        return
    value = operand(recorder, values)
    if not np.can_cast(value.dtype, target.dtype):
        raise Unsupported("values that cannot be cast")
    _put_everywhere(target, _mask_over(recorder, mask, target), value)


@notes(np.place)
def place(recorder: Recorder, arr: Any, mask: Any, vals: Any) -> None:
    """Record one value written where a mask is true."""
    target = _target(arr)
    where = _mask_over(recorder, mask, target)
    _put_everywhere(target, where, _one_value(recorder, vals, target))


def _mask_over(recorder: Recorder, mask: Any, target: Array) -> Node:
    where = operand(recorder, mask)
    if where.shape != target.shape:
        raise Unsupported("a mask of a different shape")
    return cast(recorder, where, np.dtype(bool))


@notes(np.put, method="put")
def put(recorder: Recorder, a: Any, ind: Any, v: Any, mode: Any = "raise") -> None:
    """Record one value written at indices of the flat array."""
    target = _target(a)
    if mode != "raise" or type(ind) is Array:
        raise Unsupported("indices that are unknown while recording")
    line = reshape_(recorder, target, (target.size,))
    if line._storage is not target._storage:
        raise Unsupported("the flat array is a copy")
    value = _one_value(recorder, v, target)
    setitem(line, np.asarray(ind, dtype=np.intp).ravel(), make(recorder, value))


@notes(np.fill_diagonal)
def fill_diagonal(recorder: Recorder, a: Any, val: Any, wrap: Any = False) -> None:
    """Record values written on the main diagonal."""
    target = _target(a)
    if target.ndim < 2 or (target.ndim > 2 and len(set(target.shape)) > 1):
        raise Unsupported("an array without a diagonal")
    if wrap and target.shape[0] > target.shape[1]:
        raise Unsupported("a diagonal that wraps around")
    places = np.arange(min(target.shape))
    if type(val) in _NUMBERS:
        value = make(recorder, number_node(recorder, val, target.dtype))
    else:
        value = make(recorder, operand(recorder, val))
    if value.ndim and value.shape != places.shape:
        raise Unsupported("values of an incompatible shape")
    setitem(target, (places,) * target.ndim, value)
