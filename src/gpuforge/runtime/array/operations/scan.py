"""Running sums, products and extremes, and differences of neighbouring elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of, ordered
from gpuforge.runtime.array.dispatch import into, operand, refuse
from gpuforge.runtime.array.elementwise import note_ufunc
from gpuforge.runtime.array.graph import Dtype, Node, Operation
from gpuforge.runtime.array.operations.creation import full_node, where
from gpuforge.runtime.array.operations.view import broadcast_to_, concatenate, joined, ravel, taken
from gpuforge.runtime.array.recorder import NUMERIC_KINDS, Recorder
from gpuforge.runtime.array.rules import count, normalise_axis
from gpuforge.runtime.array.table import notes, row
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import cast, reshape

_NONE = np._NoValue


def _accumulation(ufunc: Any) -> Any:
    return lambda array, axis: ufunc.accumulate(array, axis=axis, dtype=array.dtype)


CUMSUM = row("cumsum", _accumulation(np.add), "scan")
"""array, axis; likewise the others"""
CUMPROD = row("cumprod", _accumulation(np.multiply), "scan")
CUMMAX = row("cummax", _accumulation(np.maximum), "scan")
CUMMIN = row("cummin", _accumulation(np.minimum), "scan")


def _wide(dtype: Dtype, wanted: Any) -> Dtype:
    """Return the dtype that sums and products accumulate in."""
    if wanted is not None:
        made: Dtype = np.dtype(wanted)
        if made.kind not in NUMERIC_KINDS or not np.can_cast(dtype, made, "same_kind"):
            raise Unsupported(f"dtype={made}")
        return made
    if dtype.kind in "bi" and dtype.itemsize < 8:
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" and dtype.itemsize < 8 else dtype


def _accumulated(recorder: Recorder, operation: Operation, node: Node, axis: Any) -> Node:
    if not node.shape:
        raise Unsupported("an accumulation over a scalar")
    at = normalise_axis(axis, len(node.shape))
    return recorder.note(operation, (node,), (at,), node.shape, node.dtype)


def _accumulate(operation: Operation, *, wide: bool) -> Any:
    """Return a function that records ``ufunc.accumulate``."""

    def accumulate(recorder: Recorder, array: Any, axis: Any = 0, dtype: Any = None,
                   out: Any = None) -> Any:  # fmt: skip
        recorder.watch_errors()
        node = operand(recorder, array)
        made = _wide(node.dtype, dtype) if wide or dtype is not None else node.dtype
        found = _accumulated(recorder, operation, cast(recorder, node, made), axis)
        return into(out, ordered(make(recorder, found), (array,)))

    return accumulate


for _ufunc, _operation, _sums in (
    (np.add, CUMSUM, True), (np.multiply, CUMPROD, True),
    (np.maximum, CUMMAX, False), (np.minimum, CUMMIN, False),
):  # fmt: skip
    notes((_ufunc, "accumulate"))(_accumulate(_operation, wide=_sums))


def _running(operation: Operation, empty: int | None = None) -> Any:
    """Return a recorder of ``np.cumsum`` or ``np.cumprod``; NaN count as `empty` if given."""

    def running(recorder: Recorder, a: Any, axis: Any = None, dtype: Any = None,
                out: Any = None) -> Any:  # fmt: skip
        array = taken(recorder, a)
        if empty is not None and array.dtype.kind in "fc":
            array = where(recorder, note_ufunc(recorder, np.isnan, (array,)), empty, array)
        node = node_of(array)
        if axis is None:
            node, axis = reshape(recorder, node, (count(node.shape),)), 0
        node = cast(recorder, node, _wide(node.dtype, dtype))
        found = make(recorder, _accumulated(recorder, operation, node, axis))
        return into(out, ordered(found, (array,)))

    return running


notes(np.cumsum, method="cumsum")(_running(CUMSUM))
notes(np.cumprod, method="cumprod")(_running(CUMPROD))
notes(np.nancumsum)(_running(CUMSUM, 0))
notes(np.nancumprod)(_running(CUMPROD, 1))


def _cumulative(operation: Operation, identity: int) -> Any:
    def cumulative(recorder: Recorder, x: Any, /, *, axis: Any = None, dtype: Any = None,
                   out: Any = None, include_initial: Any = False) -> Any:  # fmt: skip
        refuse(out=out)
        node = operand(recorder, x)
        node = node if node.shape else reshape(recorder, node, (1,))
        if axis is None and len(node.shape) > 1:
            raise Unsupported("an axis is needed")
        at = normalise_axis(axis or 0, len(node.shape))
        node = cast(recorder, node, _wide(node.dtype, dtype))
        made = _accumulated(recorder, operation, node, at)
        if include_initial:
            shape = (*node.shape[:at], 1, *node.shape[at + 1 :])
            made = joined(recorder, [full_node(recorder, shape, identity, node.dtype), made], at)
        return make(recorder, made)

    return cumulative


notes(np.cumulative_sum)(_cumulative(CUMSUM, 0))
notes(np.cumulative_prod)(_cumulative(CUMPROD, 1))


@notes(np.diff)
def diff(recorder: Recorder, a: Any, n: Any = 1, axis: Any = -1, prepend: Any = _NONE,
         append: Any = _NONE) -> Any:  # fmt: skip
    """Record differences of neighbouring elements."""
    array: Any = taken(recorder, a)
    if type(n) is not int or n < 0 or not array.ndim:
        raise Unsupported("an invalid order of differences")
    if n == 0:
        return a
    at = normalise_axis(axis, array.ndim)
    shape = (*array.shape[:at], 1, *array.shape[at + 1 :])
    parts = [_end(recorder, prepend, shape), array, _end(recorder, append, shape)]
    parts = [part for part in parts if part is not None]
    if len(parts) > 1:
        array = concatenate(recorder, parts, at)
    ufunc = np.not_equal if array.dtype.kind == "b" else np.subtract
    before = (slice(None),) * at
    for _ in range(n):
        pair = (array[(*before, slice(1, None))], array[(*before, slice(None, -1))])
        array = note_ufunc(recorder, ufunc, pair)
    return array


def _end(recorder: Recorder, value: Any, shape: tuple[int, ...]) -> Any:
    if value is _NONE:
        return None
    given = taken(recorder, value)
    return given if given.ndim else broadcast_to_(recorder, given, shape)


@notes(np.ediff1d)
def ediff1d(recorder: Recorder, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Record differences of neighbours in a flat array, with values added at the ends."""
    array: Any = ravel(recorder, ary)
    made = note_ufunc(recorder, np.subtract, (array[1:], array[:-1]))
    if to_end is None and to_begin is None:
        return made
    return concatenate(
        recorder, [*_flat(recorder, to_begin, made), made, *_flat(recorder, to_end, made)]
    )


def _flat(recorder: Recorder, value: Any, like: Array) -> list[Array]:
    if value is None:
        return []
    given = ravel(recorder, value)
    if not np.can_cast(given.dtype, like.dtype, "same_kind"):
        raise Unsupported("values of a different kind")
    return [make(recorder, cast(recorder, node_of(given), like.dtype))]
