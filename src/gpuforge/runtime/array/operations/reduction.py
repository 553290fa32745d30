"""Reductions: sums, extremes, means and what is composed of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of
from gpuforge.runtime.array.dispatch import into, operand, refuse
from gpuforge.runtime.array.elementwise import note_ufunc
from gpuforge.runtime.array.graph import Dtype, Node, Operation
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.rules import count, normalise_axes, normalise_axis, reduced
from gpuforge.runtime.array.table import notes, row
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import cast, reshape

_INT, _UINT, _BOOL = np.dtype(np.int64), np.dtype(np.uint64), np.dtype(bool)
_NONE = np._NoValue


def _reduction(function: Any) -> Any:
    return lambda array, axes, keepdims, out=None: function(
        array, axis=axes, keepdims=keepdims, out=out
    )


def _total(function: Any) -> Any:
    return lambda array, axes, keepdims, out=None: function(
        array, axis=axes, keepdims=keepdims, dtype=array.dtype, out=out
    )


SUM = row("sum", _total(np.sum), "reduction")
PROD = row("prod", _total(np.prod), "reduction")
MAX = row("max", _reduction(np.max), "reduction")
MIN = row("min", _reduction(np.min), "reduction")
ANY = row("any", _reduction(np.any), "reduction")
ALL = row("all", _reduction(np.all), "reduction")
ARGMAX = row("argmax", lambda array, axis: np.asarray(np.argmax(array, axis=axis)), "reduction")
ARGMIN = row("argmin", lambda array, axis: np.asarray(np.argmin(array, axis=axis)), "reduction")


def _finish(recorder: Recorder, node: Node, out: Any) -> Any:
    made = make(recorder, node, scalar=node.shape == ())
    if out is None:
        return made
    return into(out, made)


def _reduce(
    recorder: Recorder, operation: Operation, node: Node, axis: Any, keepdims: Any, dtype: Dtype
) -> Node:
    axes = normalise_axes(axis, len(node.shape))
    kept = keepdims is not _NONE and bool(keepdims)
    if operation in (MAX, MIN) and 0 in node.shape:
        raise Unsupported("the minimum or maximum of an empty array")
    shape = reduced(node.shape, axes, kept)
    return recorder.note(operation, (node,), (axes, kept), shape, dtype)


def _sum_dtype(dtype: Dtype, wanted: Any) -> Dtype:
    if wanted is not None and wanted is not _NONE:
        made: Dtype = np.dtype(wanted)
        return made
    if dtype.kind == "b" or (dtype.kind == "i" and dtype.itemsize < 8):
        return _INT
    return _UINT if dtype.kind == "u" and dtype.itemsize < 8 else dtype


def _folded(operation: Operation) -> Any:
    def folded(recorder: Recorder, x: Any, axis: Any = None, dtype: Any = None, out: Any = None,
               keepdims: Any = False, initial: Any = _NONE, where: Any = _NONE) -> Any:  # fmt: skip
        refuse(initial=initial, where=where)
        node = operand(recorder, x)
        made = _sum_dtype(node.dtype, dtype)
        if made.kind == "b":
            raise Unsupported("a sum of bool values")
        node = cast(recorder, node, made)
        return _finish(recorder, _reduce(recorder, operation, node, axis, keepdims, made), out)

    return folded


sum_ = notes(np.sum, method="sum")(_folded(SUM))
prod = notes(np.prod, method="prod")(_folded(PROD))


def _extreme(operation: Operation) -> Any:
    def extreme(recorder: Recorder, x: Any, axis: Any = None, out: Any = None,
                keepdims: Any = False, initial: Any = _NONE,
                where: Any = _NONE) -> Any:  # fmt: skip
        refuse(initial=initial, where=where)
        node = operand(recorder, x)
        return _finish(
            recorder, _reduce(recorder, operation, node, axis, keepdims, node.dtype), out
        )

    return extreme


notes(np.max, np.amax, method="max")(_extreme(MAX))
notes(np.min, np.amin, method="min")(_extreme(MIN))


def _truth(operation: Operation) -> Any:
    def truth(recorder: Recorder, x: Any, axis: Any = None, out: Any = None,
              keepdims: Any = False, *, where: Any = _NONE) -> Any:  # fmt: skip
        refuse(where=where)
        node = cast(recorder, operand(recorder, x), _BOOL)
        return _finish(recorder, _reduce(recorder, operation, node, axis, keepdims, _BOOL), out)

    return truth


notes(np.any, method="any")(_truth(ANY))
notes(np.all, method="all")(_truth(ALL))


@notes(np.count_nonzero)
def count_nonzero(recorder: Recorder, x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Record the number of non-zero values."""
    node = cast(recorder, cast(recorder, operand(recorder, x), _BOOL), _INT)
    made = _reduce(recorder, SUM, node, axis, keepdims, _INT)
    if axis is None and not keepdims and _COUNTS_IN_PYTHON:
        return int(make(recorder, made, scalar=True))
    return make(recorder, made, scalar=made.shape == ())


_COUNTS_IN_PYTHON = isinstance(np.count_nonzero(np.zeros(1)), int)


def _place(operation: Operation) -> Any:
    def place(recorder: Recorder, x: Any, axis: Any = None, out: Any = None, *,
              keepdims: Any = _NONE) -> Any:  # fmt: skip
        node = operand(recorder, x)
        shape = node.shape
        if axis is None:
            node, at = reshape(recorder, node, (count(shape),)), 0
        else:
            at = normalise_axis(axis, len(shape))
        if not node.shape[at] or 0 in node.shape:
            raise Unsupported("argmin or argmax of an empty array")
        kept = keepdims is not _NONE and bool(keepdims)
        found = reduced(node.shape, (at,), False)
        made = recorder.note(operation, (node,), (at,), found, np.dtype(np.intp))
        if kept:
            axes = normalise_axes(axis, len(shape))
            made = reshape(recorder, made, reduced(shape, axes, True))
        return _finish(recorder, made, out)

    return place


notes(np.argmax, method="argmax")(_place(ARGMAX))
notes(np.argmin, method="argmin")(_place(ARGMIN))


def _mean_dtypes(dtype: Dtype, wanted: Any) -> tuple[Dtype, Dtype]:
    """Return the dtype that a mean is computed in and that of its result."""
    if wanted is not None and wanted is not _NONE:
        return np.dtype(wanted), np.dtype(wanted)
    if dtype.kind in "biu":
        return np.dtype(np.float64), np.dtype(np.float64)
    return (np.dtype(np.float32), dtype) if dtype == np.float16 else (dtype, dtype)


def _number_of(node: Node, axis: Any) -> int:
    axes = normalise_axes(axis, len(node.shape))
    return count(tuple(node.shape[place] for place in axes))


@notes(np.mean, method="mean")
def mean(recorder: Recorder, x: Any, axis: Any = None, dtype: Any = None, out: Any = None,
         keepdims: Any = False, *, where: Any = _NONE) -> Any:  # fmt: skip
    """Record a mean."""
    refuse(where=where)
    node = operand(recorder, x)
    if 0 in node.shape:
        raise Unsupported("the mean of an empty array")
    inner, result = _mean_dtypes(node.dtype, dtype)
    total = _reduce(recorder, SUM, cast(recorder, node, inner), axis, keepdims, inner)
    made = note_ufunc(recorder, np.true_divide, (make(recorder, total), _number_of(node, axis)))
    return _finish(recorder, cast(recorder, node_of(made), result), out)


def _spread(recorder: Recorder, x: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any) -> Array:
    """Return the variance in the dtype it is computed in."""
    node = operand(recorder, x)
    if 0 in node.shape:
        raise Unsupported("the variance of an empty array")
    inner, _ = _mean_dtypes(node.dtype, dtype)
    values = make(recorder, cast(recorder, node, inner))
    number = _number_of(node, axis)
    total = make(recorder, _reduce(recorder, SUM, node_of(values), axis, True, inner))
    centre = note_ufunc(recorder, np.true_divide, (total, number))
    apart = note_ufunc(recorder, np.subtract, (values, centre))
    parts: Any = (apart.real, apart.imag) if inner.kind == "c" else (apart,)  # type: ignore[attr-defined]
    squares, *others = (note_ufunc(recorder, np.multiply, (one, one)) for one in parts)
    for other in others:
        squares = note_ufunc(recorder, np.add, (squares, other))
    kept = _reduce(recorder, SUM, node_of(squares), axis, keepdims, squares.dtype)
    left = number - ddof
    if left <= 0:
        raise Unsupported("no degrees of freedom")
    return note_ufunc(recorder, np.true_divide, (make(recorder, kept), left))


@notes(np.var, method="var")
def var(recorder: Recorder, x: Any, axis: Any = None, dtype: Any = None, out: Any = None,
        ddof: Any = 0, keepdims: Any = False, *, where: Any = _NONE, mean: Any = _NONE,
        correction: Any = _NONE) -> Any:  # fmt: skip
    """Record a variance."""
    refuse(where=where, mean=mean)
    ddof = ddof if correction is _NONE else correction
    made = _spread(recorder, x, axis, dtype, ddof, keepdims)
    return _finish(recorder, cast(recorder, node_of(made), _real_result(x, recorder, dtype)), out)


@notes(np.std, method="std")
def std(recorder: Recorder, x: Any, axis: Any = None, dtype: Any = None, out: Any = None,
        ddof: Any = 0, keepdims: Any = False, *, where: Any = _NONE, mean: Any = _NONE,
        correction: Any = _NONE) -> Any:  # fmt: skip
    """Record a standard deviation."""
    squared = var(recorder, x, axis, dtype, None, ddof, keepdims, where=where, mean=mean,
                  correction=correction)  # fmt: skip
    return _finish(recorder, node_of(note_ufunc(recorder, np.sqrt, (squared,))), out)


def _real_result(x: Any, recorder: Recorder, dtype: Any) -> Dtype:
    made = _mean_dtypes(operand(recorder, x).dtype, dtype)[1]
    return np.empty(0, made).real.dtype


@notes(np.ptp)
def ptp(
    recorder: Recorder, x: Any, axis: Any = None, out: Any = None, keepdims: Any = False
) -> Any:
    """Record the difference between maximum and minimum."""
    node = operand(recorder, x)
    high = make(recorder, _reduce(recorder, MAX, node, axis, keepdims, node.dtype))
    low = make(recorder, _reduce(recorder, MIN, node, axis, keepdims, node.dtype))
    return _finish(recorder, node_of(note_ufunc(recorder, np.subtract, (high, low))), out)


def _ufunc_reduce(recording: Any) -> Any:
    """Return a function that records ``ufunc.reduce``, whose default axis is 0."""

    def reduce(recorder: Recorder, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
               keepdims: Any = False, initial: Any = _NONE, where: Any = True) -> Any:  # fmt: skip
        if where is not True or dtype is not None:
            raise Unsupported("reduce with where= or dtype=")
        return recording(recorder, x, axis=axis, out=out, keepdims=keepdims, initial=initial)

    return reduce


for _ufunc, _recording in (
    (np.add, sum_), (np.multiply, prod), (np.maximum, _extreme(MAX)), (np.minimum, _extreme(MIN)),
):  # fmt: skip
    notes((_ufunc, "reduce"))(_ufunc_reduce(_recording))
