"""Sorting, places in sorted arrays, and counts of values."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of, ordered
from gpuforge.runtime.array.dispatch import numbers, operand, refuse
from gpuforge.runtime.array.elementwise import note_ufunc
from gpuforge.runtime.array.graph import Dtype, Node, Operation, Shape
from gpuforge.runtime.array.indexing import assign_all
from gpuforge.runtime.array.operations.view import flip, taken, transpose_
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.rules import count, normalise_axis
from gpuforge.runtime.array.table import notes, row
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import cast, reshape

_INT = np.dtype(np.intp)
_KINDS = (None, "quicksort", "stable", "mergesort", "heapsort", "q", "s", "m", "h")


def _bincount(array: Any, *rest: Any) -> Any:
    weights = rest[0] if len(rest) > 1 else None
    return np.bincount(array, weights, rest[-1])


SORT = row("sort", lambda array, axis: np.sort(array, axis=axis), "sort")
"""array, axis; NaN come last"""
ARGSORT = row("argsort", lambda array, axis: np.argsort(array, axis=axis, stable=True), "sort")
"""array, axis; equal values keep their order"""
UNSTABLE_ARGSORT = row(
    "unstable_argsort", lambda array, axis, kind: np.argsort(array, axis=axis, kind=kind), "sort"
)
"""array, axis, kind; the order of equal values is that of NumPy's sort of this kind"""
SEARCHSORTED = row("searchsorted", lambda *given: np.asarray(np.searchsorted(*given)), "sort")
"""sorted array, values of its dtype, side"""
BINCOUNT = row("bincount", _bincount, "reduction", raises=True)
"""array, weights if any, minimum length; the length of the result depends on values"""
NONZERO = row("nonzero", lambda array: np.array(np.nonzero(array)), "gather", raises=True)
"""indices along each axis as rows of a matrix; their number depends on values"""
UNIQUE = row("unique", np.unique, "sort", raises=True)
"""flat array; the number of unique elements depends on values"""


def of_unknown_length(
    recorder: Recorder, operation: Operation, nodes: tuple[Node, ...], params: tuple[Any, ...],
    shape: Shape, dtype: Dtype,
) -> Array:  # fmt: skip
    """Return the result of an operation whose shape is known only after evaluation."""
    made = recorder.note(operation, nodes, params, shape, dtype)
    made.shape = tuple(int(length) for length in made.value.shape)
    return make(recorder, made)


def _flat_unless(recorder: Recorder, x: Any, axis: Any) -> tuple[Node, int]:
    """Return the node to sort and the axis; the node is flattened if `axis` is None."""
    node = operand(recorder, x)
    if axis is None:
        return reshape(recorder, node, (count(node.shape),)), 0
    return node, normalise_axis(axis, len(node.shape))


def _check(kind: Any, order: Any, stable: Any) -> None:
    refuse(order=order)
    if kind not in _KINDS or (kind is not None and stable is not None):
        raise Unsupported(f"kind={kind!r}")


@notes(np.sort)
def sort(recorder: Recorder, a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *,
         stable: Any = None) -> Any:  # fmt: skip
    """Record a sorted copy."""
    _check(kind, order, stable)
    node, at = _flat_unless(recorder, a, axis)
    made = make(recorder, recorder.note(SORT, (node,), (at,), node.shape, node.dtype))
    return made if axis is None else ordered(made, (a,))


@notes(method="sort")
def sort_in_place(recorder: Recorder, x: Array, axis: Any = -1, kind: Any = None,
                  order: Any = None, *, stable: Any = None) -> None:  # fmt: skip
    """Record ``x.sort()``: the sorted values are written over the array."""
    if x._scalar or axis is None:
        raise Unsupported("sorting a scalar")
    assign_all(x, node_of(sort(recorder, x, axis, kind, order, stable=stable)))


@notes(np.argsort, method="argsort")
def argsort(recorder: Recorder, a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *,
            stable: Any = None) -> Any:  # fmt: skip
    """Record the indices that sort an array.

    Unless a stable sort is asked for, the order of equal values is left to NumPy.
    """
    _check(kind, order, stable)
    node, at = _flat_unless(recorder, a, axis)
    if stable or kind in ("stable", "mergesort", "s", "m"):
        return make(recorder, recorder.note(ARGSORT, (node,), (at,), node.shape, _INT))
    sort_kind = "heapsort" if kind in ("heapsort", "h") else "quicksort"
    made = recorder.note(UNSTABLE_ARGSORT, (node,), (at, sort_kind), node.shape, _INT)
    return make(recorder, made)


@notes(np.lexsort)
def lexsort(recorder: Recorder, keys: Any, axis: Any = -1) -> Any:
    """Record the indices that sort by several keys, the last one first: a stable sort by each."""
    rows = list(keys) if isinstance(keys, list | tuple) else list(taken(recorder, keys))
    nodes = [numbers(recorder, one) for one in rows]
    if not nodes or any(node.shape != nodes[0].shape or len(node.shape) != 1 for node in nodes):
        raise Unsupported("keys that are not vectors of one length")
    normalise_axis(axis, 1)
    order: Any = argsort(recorder, make(recorder, nodes[0]), stable=True)
    for node in nodes[1:]:
        key: Any = make(recorder, node)
        order = order[argsort(recorder, key[order], stable=True)]
    return order


@notes(np.searchsorted, method="searchsorted")
def searchsorted(recorder: Recorder, a: Any, v: Any, side: Any = "left",
                 sorter: Any = None) -> Any:  # fmt: skip
    """Record where values would be inserted into a sorted array."""
    refuse(sorter=sorter)
    ordered, wanted = numbers(recorder, a), numbers(recorder, v)
    if side not in ("left", "right") or len(ordered.shape) != 1:
        raise Unsupported("the sorted array is not a vector, or an unknown side")
    common = np.promote_types(ordered.dtype, wanted.dtype)
    given = (cast(recorder, ordered, common), cast(recorder, wanted, common))
    made = recorder.note(SEARCHSORTED, given, (side,), wanted.shape, _INT)
    return make(recorder, made, scalar=made.shape == ())


@notes(np.digitize)
def digitize(recorder: Recorder, x: Any, bins: Any, right: Any = False) -> Any:
    """Record the bin of each value; the bins are read to find their order."""
    edges, values = numbers(recorder, bins), numbers(recorder, x)
    if len(edges.shape) != 1 or not edges.shape[0] or values.dtype.kind == "c":
        raise Unsupported("invalid bins")
    host = recorder.host(edges)
    side = "left" if right else "right"
    rising, falling = bool((host[:-1] <= host[1:]).all()), bool((host[:-1] >= host[1:]).all())
    if rising:
        return searchsorted(recorder, make(recorder, edges), make(recorder, values), side)
    if not falling:
        raise Unsupported("bins that are not monotonic")
    turned = flip(recorder, make(recorder, edges))
    found = searchsorted(recorder, turned, make(recorder, values), side)
    return note_ufunc(recorder, np.subtract, (edges.shape[0], found))


@notes(np.bincount)
def bincount(recorder: Recorder, x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """Record how often each integer occurs, or the sum of its weights."""
    node = numbers(recorder, x)
    if node.dtype.kind not in "biu" or node.dtype.char in "LQ" or len(node.shape) != 1:
        raise Unsupported("not a vector of integers")
    if type(minlength) is not int or minlength < 0 or not node.shape[0]:
        raise Unsupported("an invalid minlength, or an empty array")
    given = [cast(recorder, node, _INT)]
    made: Dtype = _INT
    if weights is not None:
        heavy = numbers(recorder, weights)
        if heavy.shape != node.shape or heavy.dtype.kind not in "biuf":
            raise Unsupported("unsupported weights")
        made = np.dtype(float)
        given.append(cast(recorder, heavy, made))
    return of_unknown_length(recorder, BINCOUNT, tuple(given), (minlength,), (0,), made)


def _nonzero(recorder: Recorder, a: Any) -> Array:
    node = operand(recorder, a)
    if not node.shape:
        raise Unsupported("nonzero of a scalar")
    return of_unknown_length(recorder, NONZERO, (node,), (), (len(node.shape), 0), _INT)


@notes(np.nonzero, method="nonzero")
def nonzero(recorder: Recorder, a: Any) -> Any:
    """Record the indices of non-zero values, one array per axis."""
    places: Any = _nonzero(recorder, a)
    return tuple(make(recorder, node_of(places[axis])) for axis in range(places.shape[0]))


@notes(np.argwhere)
def argwhere(recorder: Recorder, a: Any) -> Any:
    """Record the indices of non-zero values, one row per value."""
    return transpose_(recorder, _nonzero(recorder, a))


@notes(np.flatnonzero)
def flatnonzero(recorder: Recorder, a: Any) -> Any:
    """Record the indices of non-zero values in the flat array."""
    node = operand(recorder, a)
    flat = make(recorder, reshape(recorder, node, (count(node.shape),)))
    return nonzero(recorder, flat)[0]


@notes(np.unique)
def unique(recorder: Recorder, ar: Any, return_index: Any = False, return_inverse: Any = False,
           return_counts: Any = False, axis: Any = None, *, equal_nan: Any = True,
           sorted: Any = True) -> Any:  # fmt: skip
    """Record the sorted unique values."""
    refuse(axis=axis)
    if return_index or return_inverse or return_counts or not equal_nan or not sorted:
        raise Unsupported("more than the sorted values is requested")
    node = operand(recorder, ar)
    if not node.shape or 0 in node.shape:
        raise Unsupported("nothing to compare")
    flat = reshape(recorder, node, (count(node.shape),))
    return of_unknown_length(recorder, UNIQUE, (flat,), (), (0,), node.dtype)
