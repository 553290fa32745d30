"""Diagonals, traces and the vector product."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of, view
from gpuforge.runtime.array.index import parse_basic
from gpuforge.runtime.array.operations.creation import full_node
from gpuforge.runtime.array.operations.reduction import sum_
from gpuforge.runtime.array.operations.view import moveaxis, ravel, stack, taken
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.rules import broadcast, normalise_axis
from gpuforge.runtime.array.table import notes
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import cast, follow_step, put, reshape


@notes(np.diagonal, method="diagonal")
def diagonal(recorder: Recorder, a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    """Record a diagonal: a read-only view."""
    array = taken(recorder, a)
    one, two = normalise_axis(axis1, array.ndim), normalise_axis(axis2, array.ndim)
    if one == two or type(offset) is not int:
        raise Unsupported("fewer than two axes")
    step = ("diagonal", offset, one, two)
    return view(array, step, follow_step(recorder, node_of(array), step))


@notes(np.linalg.diagonal)
def linalg_diagonal(recorder: Recorder, x: Any, /, *, offset: Any = 0) -> Any:
    """Record diagonals of the last two axes."""
    return diagonal(recorder, x, offset, -2, -1)


@notes(np.trace, method="trace")
def trace(recorder: Recorder, x: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1,
          dtype: Any = None, out: Any = None) -> Any:  # fmt: skip
    """Record sums of diagonals."""
    return sum_(recorder, diagonal(recorder, x, offset, axis1, axis2), -1, dtype, out)


@notes(np.linalg.trace)
def linalg_trace(recorder: Recorder, x: Any, /, *, offset: Any = 0, dtype: Any = None) -> Any:
    """Record sums of diagonals of the last two axes."""
    return trace(recorder, x, offset, -2, -1, dtype)


@notes(np.diag)
def diag(recorder: Recorder, v: Any, k: Any = 0) -> Any:
    """Record a diagonal, or a matrix with a vector as its diagonal."""
    array = taken(recorder, v)
    if array.ndim == 2:
        return diagonal(recorder, array, k)
    if array.ndim != 1 or type(k) is not int or not array.size:
        raise Unsupported("not a vector")
    return _matrix(recorder, array, k)


@notes(np.diagflat)
def diagflat(recorder: Recorder, v: Any, k: Any = 0) -> Any:
    """Record a matrix with a flat array as its diagonal."""
    array = taken(recorder, v)
    if type(k) is not int or not array.size:
        raise Unsupported("an empty or invalid diagonal")
    return _matrix(recorder, ravel(recorder, array), k)


def _matrix(recorder: Recorder, array: Array, k: int) -> Array:
    length = array.size
    side = length + abs(k)
    start = k if k >= 0 else -k * side
    places = slice(start, start + (length - 1) * (side + 1) + 1, side + 1)
    flat = full_node(recorder, side * side, 0, array.dtype)
    index = parse_basic([places], (side * side,))
    made = put(recorder, flat, index, node_of(array))
    return make(recorder, reshape(recorder, made, (side, side)))


@notes(np.cross)
def cross(recorder: Recorder, a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1,
          axis: Any = None) -> Any:  # fmt: skip
    """Record the vector product of vectors of three."""
    if axis is not None:
        axisa = axisb = axisc = axis
    left, right = taken(recorder, a), taken(recorder, b)
    if not left.ndim or not right.ndim:
        raise Unsupported("not vectors")
    left, right = moveaxis(recorder, left, axisa, -1), moveaxis(recorder, right, axisb, -1)
    if left.shape[-1] != 3 or right.shape[-1] != 3:
        raise Unsupported("vectors that do not have three components")
    dtype = np.promote_types(left.dtype, right.dtype)
    shape = (*broadcast(left.shape[:-1], right.shape[:-1]), 3)
    at = normalise_axis(axisc, len(shape))
    given = [make(recorder, cast(recorder, node_of(one), dtype)) for one in (left, right)]
    (x0, x1, x2), (y0, y1, y2) = ([one[..., place] for place in range(3)] for one in given)  # type: ignore[index]
    parts = [x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0]
    return make(recorder, node_of(moveaxis(recorder, stack(recorder, parts, -1), -1, at)))


@notes(np.linalg.cross)
def linalg_cross(recorder: Recorder, x1: Any, x2: Any, /, *, axis: Any = -1) -> Any:
    """Record the vector product of vectors of three."""
    return cross(recorder, x1, x2, axis=axis)
