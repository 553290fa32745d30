"""Norms, from the same sums, extremes and singular values as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of
from gpuforge.runtime.array.elementwise import note_ufunc
from gpuforge.runtime.array.operations.contraction import matmul
from gpuforge.runtime.array.operations.factorisation import svdvals
from gpuforge.runtime.array.operations.reduction import sum_
from gpuforge.runtime.array.operations.view import moveaxis, reshape_, taken, transpose_
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.rules import count, normalise_axes, normalise_axis, reduced
from gpuforge.runtime.array.table import notes
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import cast, reshape

_ABS = np.absolute


def _inexact(recorder: Recorder, x: Any) -> Array:
    array = taken(recorder, x)
    if array.dtype.kind in "biu":
        return make(recorder, cast(recorder, node_of(array), np.dtype(float)))
    if 0 in array.shape:
        raise Unsupported("the norm of an empty array")
    return array


@notes(np.linalg.norm)
def norm(recorder: Recorder, x: Any, ord: Any = None, axis: Any = None,
         keepdims: Any = False) -> Any:  # fmt: skip
    """Record norms of vectors or matrices."""
    array = _inexact(recorder, x)
    ndim = array.ndim
    if type(ord) not in (type(None), int, float, str):
        raise Unsupported(f"ord={ord!r}")
    if axis is None and (
        ord is None or (ord in ("f", "fro") and ndim == 2) or (ord == 2 and ndim == 1)
    ):
        root = _length(recorder, array)
        return reshape_(recorder, root, (1,) * ndim) if keepdims else root
    if axis is None:
        axes = tuple(range(ndim))
    else:
        given = axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(normalise_axis(one, ndim) for one in given)
    if len(axes) == 1:
        return _of_vectors(recorder, array, ord, axes[0], bool(keepdims))
    if len(axes) != 2 or axes[0] == axes[1]:
        raise Unsupported("axes for neither vectors nor matrices")
    made = _of_matrices(recorder, array, ord, axes)
    return reshape_(recorder, made, reduced(array.shape, axes, True)) if keepdims else made


def _length(recorder: Recorder, array: Array) -> Any:
    """Return the root of the sum of all squares, as a product of the flat array with itself."""
    flat = make(recorder, reshape(recorder, node_of(array), (array.size,)))
    if array.dtype.kind != "c":
        return np.sqrt(matmul(recorder, flat, flat))
    real, imag = flat.real, flat.imag  # type: ignore[attr-defined]
    return np.sqrt(matmul(recorder, real, real) + matmul(recorder, imag, imag))


def _squares(recorder: Recorder, array: Any) -> Any:
    if array.dtype.kind != "c":
        return note_ufunc(recorder, np.multiply, (array, array))
    return (np.conjugate(array) * array).real


def _of_vectors(recorder: Recorder, array: Any, order: Any, axis: int, keep: bool) -> Any:
    if isinstance(order, str):
        raise Unsupported("a matrix norm of this order")
    if order is None or order == 2:
        return np.sqrt(sum_(recorder, _squares(recorder, array), axis, keepdims=keep))
    if order == 0:
        made = (array != 0).astype(np.empty(0, array.dtype).real.dtype)
        return sum_(recorder, made, axis, keepdims=keep)
    sizes = note_ufunc(recorder, _ABS, (array,))
    if order == np.inf:
        return np.max(sizes, axis=axis, keepdims=keep)  # type: ignore[call-overload]
    if order == -np.inf:
        return np.min(sizes, axis=axis, keepdims=keep)  # type: ignore[call-overload]
    if order == 1:
        return sum_(recorder, sizes, axis, keepdims=keep)
    total = sum_(recorder, note_ufunc(recorder, np.power, (sizes, order)), axis, keepdims=keep)
    return note_ufunc(recorder, np.power, (total, np.reciprocal(order, dtype=total.dtype)))


def _of_matrices(recorder: Recorder, array: Any, order: Any, axes: tuple[int, ...]) -> Any:
    rows, columns = axes
    if order in (None, "fro", "f"):
        return np.sqrt(sum_(recorder, _squares(recorder, array), axes))
    if order in (2, -2, "nuc"):
        values: Any = svdvals(recorder, moveaxis(recorder, array, axes, (-2, -1)))
        if order == "nuc":
            return sum_(recorder, values, -1)
        return np.max(values, axis=-1) if order == 2 else np.min(values, axis=-1)
    if order not in (1, -1, np.inf, -np.inf):
        raise Unsupported(f"ord={order!r}")
    summed, other = (rows, columns) if order in (1, -1) else (columns, rows)
    totals = sum_(recorder, note_ufunc(recorder, _ABS, (array,)), summed)
    left = other - 1 if other > summed else other
    return np.max(totals, axis=left) if order > 0 else np.min(totals, axis=left)


@notes(np.linalg.vector_norm)
def vector_norm(recorder: Recorder, x: Any, /, *, axis: Any = None, keepdims: Any = False,
                ord: Any = 2) -> Any:  # fmt: skip
    """Record norms over one axis or several, taken together."""
    array = taken(recorder, x)
    shape = array.shape
    axes = normalise_axes(axis, len(shape))
    if isinstance(axis, tuple):
        rest = [place for place in range(len(shape)) if place not in axes]
        lengths = tuple(shape[place] for place in rest)
        turned = transpose_(recorder, array, (*axes, *rest))
        array = reshape_(recorder, turned, (count(shape) // max(count(lengths), 1), *lengths))
    elif axis is None:
        array = reshape_(recorder, array, (array.size,))
    made = norm(recorder, array, ord, 0 if axis is None or isinstance(axis, tuple) else axes[0])
    return reshape_(recorder, made, reduced(shape, axes, True)) if keepdims else made


@notes(np.linalg.matrix_norm)
def matrix_norm(recorder: Recorder, x: Any, /, *, keepdims: Any = False,
                ord: Any = "fro") -> Any:  # fmt: skip
    """Record norms of the matrices in the last two axes."""
    return norm(recorder, x, ord, (-2, -1), keepdims)
