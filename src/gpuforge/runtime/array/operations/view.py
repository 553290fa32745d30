"""Views and rearrangements: shapes, axes, copies, conversions, joining."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, layout, make, node_of, ordered, storage_of, view
from gpuforge.runtime.array.dispatch import numbers, operand, refuse
from gpuforge.runtime.array.elementwise import note_ufunc
from gpuforge.runtime.array.graph import Node, Shape
from gpuforge.runtime.array.indexing import assign_all, number_node
from gpuforge.runtime.array.namespace import converts
from gpuforge.runtime.array.recorder import NUMERIC_KINDS, Recorder
from gpuforge.runtime.array.rules import broadcast, count, normalise_axes, normalise_axis
from gpuforge.runtime.array.table import notes, row
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import broadcast_to, cast, reshape, transpose

CONCATENATE = row("concatenate", lambda *given: np.concatenate(given[:-1], axis=given[-1]), "view")
"""arrays..., axis"""


def taken(recorder: Recorder, x: Any) -> Array:
    """Return an argument as a recorded array."""
    return x if type(x) is Array else make(recorder, operand(recorder, x))


def _wanted_shape(shape: Any, size: int) -> Shape:
    given = tuple(shape) if isinstance(shape, tuple | list | np.ndarray) else (shape,)
    lengths = [int(length.__index__()) for length in given]
    if lengths.count(-1) == 1:
        rest = count(tuple(n for n in lengths if n != -1))
        if not rest or size % rest:
            raise Unsupported("an incompatible shape")
        lengths[lengths.index(-1)] = size // rest
    if any(length < 0 for length in lengths) or count(tuple(lengths)) != size:
        raise Unsupported("an incompatible shape")
    return tuple(lengths)


def _reshaped(x: Array, shape: Shape) -> Array:
    """Return a view of another shape if NumPy can make one, else a copy."""
    node = node_of(x)
    made = reshape(x._recorder, node, shape)
    if x._scalar or (x._storage is not None and not _is_view(x, shape)):
        return make(x._recorder, made)
    return view(x, ("reshape", shape), made)


def _is_view(x: Array, shape: Shape) -> bool:
    try:
        layout(x).reshape(shape, copy=False)
    except ValueError:
        return False
    return True


def _reversed(recorder: Recorder, array: Array) -> Array:
    """Return an array with all axes reversed, to be read in C order instead of Fortran order.

    Whether that is a view or a copy depends on the order of its elements. NumPy chooses that of an
    array that is made from arrays in other orders than C.

    Raises
    ------
    NotRecordable
        If the array may be such a one.
    """
    if recorder.turned and (array._storage is None or array._storage.source is None):
        raise recorder.refuse("a view in Fortran order of an array that is perhaps in that order")
    reverse: Array = transpose_(recorder, array)
    return reverse


@notes(np.reshape)
def reshape_(recorder: Recorder, x: Any, /, shape: Any = None, order: Any = "C", *,
             newshape: Any = None, copy: Any = None) -> Any:  # fmt: skip
    """Record a reshape. One in Fortran order is one in C order with all axes reversed."""
    refuse(newshape=newshape)
    if order not in ("C", "F", None) or shape is None or (copy is False and order == "F"):
        raise Unsupported("an order other than C or F")
    array = taken(recorder, x)
    wanted = _wanted_shape(shape, array.size)
    if copy is False:
        layout(array).reshape(wanted, copy=False)  # NumPy's exception where it needs a copy
    if order == "F" and array.ndim > 1:
        array = _reversed(recorder, array)
    made = _reshaped(array, wanted[::-1] if order == "F" else wanted)
    if order == "F" and len(wanted) > 1:
        made = transpose_(recorder, made)
    return copy_(recorder, made) if copy else made


@notes(method="reshape")
def reshape_method(recorder: Recorder, x: Array, *shape: Any, order: Any = "C",
                   copy: Any = None) -> Any:  # fmt: skip
    """Record ``x.reshape(...)``, whose lengths may be several arguments."""
    return reshape_(recorder, x, shape[0] if len(shape) == 1 else shape, order, copy=copy)


@notes(np.ravel, method="ravel")
def ravel(recorder: Recorder, x: Any, order: Any = "C") -> Any:
    """Record a flat view, or a copy."""
    array = taken(recorder, x)
    if order == "F" and array.ndim > 1:
        array, order = _reversed(recorder, array), "C"
    if array._storage is not None and not layout(array).flags.c_contiguous:
        array = copy_(recorder, array)
    return reshape_(recorder, array, (array.size,), order)


@notes(np.real)
def real(recorder: Recorder, val: Any) -> Any:
    """Record the real part, a view."""
    return getattr(taken(recorder, val), "real")  # noqa: B009 - installed by dispatch


@notes(np.imag)
def imag(recorder: Recorder, val: Any) -> Any:
    """Record the imaginary part, a view."""
    return getattr(taken(recorder, val), "imag")  # noqa: B009 - installed by dispatch


@notes(method="flatten")
def flatten(recorder: Recorder, x: Array, order: Any = "C") -> Any:
    """Record a flat copy."""
    if order not in ("C", "F"):
        raise Unsupported("an order other than C or F")
    array = transpose_(recorder, x) if order == "F" else x
    return make(recorder, reshape(recorder, node_of(array), (x.size,)))


@notes(np.transpose, method="")
def transpose_(recorder: Recorder, x: Any, axes: Any = None) -> Any:
    """Record a view with its axes in another order."""
    array = taken(recorder, x)
    node = node_of(array)
    ndim = len(node.shape)
    order = tuple(reversed(range(ndim))) if axes is None else tuple(
        normalise_axis(axis, ndim) for axis in axes
    )  # fmt: skip
    if sorted(order) != list(range(ndim)):
        raise Unsupported("invalid axes")
    if ndim < 2:
        return array if array._scalar else view(array, ("reshape", node.shape), node)
    return view(array, ("transpose", order), transpose(recorder, node, order))


@notes(method="transpose")
def transpose_method(recorder: Recorder, x: Array, *axes: Any) -> Any:
    """Record ``x.transpose(...)``, whose axes may be several arguments."""
    given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
    return transpose_(recorder, x, given)


@notes(np.swapaxes, method="swapaxes")
def swapaxes(recorder: Recorder, x: Any, axis1: Any, axis2: Any) -> Any:
    """Record two axes swapped."""
    array = taken(recorder, x)
    order = list(range(array.ndim))
    one, two = normalise_axis(axis1, array.ndim), normalise_axis(axis2, array.ndim)
    order[one], order[two] = two, one
    return transpose_(recorder, array, order)


@notes(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(recorder: Recorder, x: Any, /) -> Any:
    """Record the last two axes swapped."""
    return swapaxes(recorder, x, -1, -2)


@notes(np.moveaxis)
def moveaxis(recorder: Recorder, a: Any, source: Any, destination: Any) -> Any:
    """Record axes moved to other places."""
    array = taken(recorder, a)
    sources = _axes_in_order(source, array.ndim)
    targets = _axes_in_order(destination, array.ndim)
    if len(sources) != len(targets):
        raise Unsupported("invalid axes")
    order = [axis for axis in range(array.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return transpose_(recorder, array, order)


def _axes_in_order(axis: Any, ndim: int) -> list[int]:
    given = axis if isinstance(axis, tuple | list) else (axis,)
    return [normalise_axis(one, ndim) for one in given]


@notes(np.squeeze, method="squeeze")
def squeeze(recorder: Recorder, x: Any, axis: Any = None) -> Any:
    """Record axes of length one removed."""
    array = taken(recorder, x)
    shape = array.shape
    if axis is None:
        left = tuple(length for length in shape if length != 1)
    else:
        axes = normalise_axes(axis, len(shape))
        if any(shape[place] != 1 for place in axes):
            raise Unsupported("an axis that is longer than one")
        left = tuple(length for place, length in enumerate(shape) if place not in axes)
    return array if left == shape else _reshaped(array, left)


@notes(np.expand_dims)
def expand_dims(recorder: Recorder, a: Any, axis: Any) -> Any:
    """Record new axes of length one."""
    array = taken(recorder, a)
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = normalise_axes(tuple(given), array.ndim + len(given))
    lengths = iter(array.shape)
    shape = tuple(1 if p in axes else next(lengths) for p in range(array.ndim + len(given)))
    return _reshaped(array, shape)


def _at_least(ndim: int) -> Any:
    def at_least(recorder: Recorder, *arrays: Any) -> Any:
        made = []
        for one in arrays:
            array = taken(recorder, one)
            if array.ndim >= ndim:
                made.append(array)
            elif ndim == 3 and array.ndim:
                shape = (*array.shape, 1) if array.ndim == 2 else (1, *array.shape, 1)
                made.append(_reshaped(array, shape))
            else:
                made.append(_reshaped(array, (1,) * (ndim - array.ndim) + array.shape))
        return made[0] if len(made) == 1 else tuple(made)

    return at_least


for _ndim, _function in enumerate((np.atleast_1d, np.atleast_2d, np.atleast_3d), 1):
    notes(_function)(_at_least(_ndim))


@notes(np.broadcast_to)
def broadcast_to_(recorder: Recorder, array: Any, shape: Any, subok: bool = False) -> Any:
    """Record an array repeated along new or single axes."""
    node = operand(recorder, array)
    wanted = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    if broadcast(node.shape, wanted) != wanted:
        raise Unsupported("an incompatible shape")
    made = broadcast_to(recorder, node, wanted)
    return view(taken(recorder, array), ("broadcast", wanted), made)


@notes(np.flip)
def flip(recorder: Recorder, m: Any, axis: Any = None) -> Any:
    """Record axes reversed."""
    array = taken(recorder, m)
    axes = normalise_axes(axis, array.ndim)
    return array[tuple(slice(None, None, -1 if p in axes else 1) for p in range(array.ndim))]  # type: ignore[index]


@notes(np.flipud)
def flipud(recorder: Recorder, m: Any) -> Any:
    """Record the first axis reversed."""
    return flip(recorder, m, 0)


@notes(np.fliplr)
def fliplr(recorder: Recorder, m: Any) -> Any:
    """Record the second axis reversed."""
    return flip(recorder, m, 1)


@notes(method="copy")
def copy_method(recorder: Recorder, x: Array, order: Any = "C") -> Any:
    """Return a copy, in C order by default."""
    made = copy_(recorder, x, order)
    if order == "C" and recorder.turned and not made._scalar:
        storage_of(made)  # memory that others may share is in C order
    return made


@notes(np.copy)
def copy_(recorder: Recorder, a: Any, order: Any = "K", subok: Any = False) -> Any:
    """Return a copy: values are immutable, so it only gets its own memory."""
    array = taken(recorder, a)
    made = make(recorder, node_of(array), scalar=array._scalar and a is array)
    return ordered(made, (array,)) if order == "K" else made


@notes(method="conj")
@notes(method="conjugate")
def conj(recorder: Recorder, x: Array) -> Any:
    """Record the complex conjugate; a real array is returned as it is."""
    return note_ufunc(recorder, np.conjugate, (x,)) if x.dtype.kind == "c" else x


@notes(np.astype, method="astype")
def astype(recorder: Recorder, x: Any, dtype: Any, order: Any = "K", casting: Any = "unsafe",
           subok: Any = True, copy: Any = True, device: Any = None) -> Any:  # fmt: skip
    """Record a conversion."""
    array, wanted = taken(recorder, x), np.dtype(dtype)
    if wanted.kind not in NUMERIC_KINDS or not wanted.isnative:
        raise Unsupported(f"dtype {wanted}")
    if casting != "unsafe" and not np.can_cast(array.dtype, wanted, casting):
        raise Unsupported("a conversion that is not allowed")
    if array.dtype.kind == "c" and wanted.kind not in "cb":
        raise Unsupported("complex numbers lose their imaginary part, for which NumPy warns")
    if order == "F" and array.ndim > 1:
        raise Unsupported("Fortran order")
    if not copy and array.dtype == wanted:
        return x
    made = make(recorder, cast(recorder, node_of(array), wanted), scalar=array._scalar)
    return ordered(made, (array,)) if order == "K" else made


@notes(method="fill")
def fill(recorder: Recorder, x: Array, value: Any) -> None:
    """Record one value written to every element."""
    if isinstance(value, bool | int | float | complex):
        assign_all(x, number_node(recorder, value, x.dtype))
    else:
        raise Unsupported(f"filled with a {type(value).__name__}")


def joined(recorder: Recorder, nodes: list[Node], axis: int) -> Node:
    """Return the nodes, of one dtype, side by side."""
    first = nodes[0].shape
    for node in nodes:
        if len(node.shape) != len(first) or any(
            a != b for place, (a, b) in enumerate(zip(node.shape, first, strict=True))
            if place != axis
        ):  # fmt: skip
            raise Unsupported("incompatible shapes")
    length = sum(node.shape[axis] for node in nodes)
    shape = (*first[:axis], length, *first[axis + 1 :])
    return recorder.note(CONCATENATE, tuple(nodes), (axis,), shape, nodes[0].dtype)


def _of_one_dtype(recorder: Recorder, arrays: Any, dtype: Any = None) -> list[Node]:
    nodes = [numbers(recorder, one) for one in arrays]
    if not nodes:
        raise Unsupported("no arrays to join")
    common = np.result_type(*(node.dtype for node in nodes)) if dtype is None else np.dtype(dtype)
    return [cast(recorder, node, common) for node in nodes]


@notes(np.concatenate)
def concatenate(recorder: Recorder, arrays: Any, /, axis: Any = 0, out: Any = None, *,
                dtype: Any = None, casting: Any = "same_kind") -> Any:  # fmt: skip
    """Record arrays joined along an axis they have."""
    refuse(out=out, dtype=dtype)
    nodes = _of_one_dtype(recorder, arrays)
    if axis is None:
        nodes = [reshape(recorder, node, (count(node.shape),)) for node in nodes]
        axis = 0
    made = make(recorder, joined(recorder, nodes, normalise_axis(axis, len(nodes[0].shape))))
    return ordered(made, arrays)


def _stacked(recorder: Recorder, arrays: Any, axis: Any) -> Array:
    nodes = _of_one_dtype(recorder, arrays)
    at = normalise_axis(axis, len(nodes[0].shape) + 1)
    if any(node.shape != nodes[0].shape for node in nodes):
        raise Unsupported("incompatible shapes")
    shape = (*nodes[0].shape[:at], 1, *nodes[0].shape[at:])
    nodes = [reshape(recorder, node, shape) for node in nodes]
    return make(recorder, joined(recorder, nodes, at))


@notes(np.stack)
def stack(recorder: Recorder, arrays: Any, axis: Any = 0, out: Any = None, *,
          dtype: Any = None, casting: Any = "same_kind") -> Any:  # fmt: skip
    """Record arrays joined along a new axis."""
    refuse(out=out, dtype=dtype)
    return _stacked(recorder, list(arrays), axis)


@notes(np.vstack)
def vstack(recorder: Recorder, tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Record arrays joined as rows."""
    refuse(dtype=dtype)
    rows = [_at_least(2)(recorder, one) for one in tup]
    return concatenate(recorder, rows, 0)


@notes(np.hstack)
def hstack(recorder: Recorder, tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Record arrays joined as columns."""
    refuse(dtype=dtype)
    given = [_at_least(1)(recorder, one) for one in tup]
    return concatenate(recorder, given, 0 if given[0].ndim == 1 else 1)


@notes(np.column_stack)
def column_stack(recorder: Recorder, tup: Any) -> Any:
    """Record vectors joined as columns."""
    columns = [taken(recorder, one) for one in tup]
    return concatenate(
        recorder, [_reshaped(c, (c.size, 1)) if c.ndim < 2 else c for c in columns], 1
    )


def _as_array(recorder: Recorder, a: Any, dtype: Any, copy: Any = None, order: Any = "K") -> Any:
    """Return what ``np.asarray`` or ``np.array`` of a recorded array, or of a list of them, is."""
    if copy is False and not (
        type(a) is Array
        and not a._scalar
        and order in (None, "K", "A")
        and dtype in (None, a.dtype)
    ):
        raise Unsupported("a copy that is not to be made")
    if type(a) is Array:
        array = make(recorder, node_of(a)) if a._scalar else a
        if dtype is not None and np.dtype(dtype) != array.dtype:
            return astype(recorder, array, dtype)
        return copy_(recorder, array) if copy else array
    if isinstance(a, list | tuple) and a and any(type(one) is Array for one in a):
        if any(type(one) is not Array and not isinstance(one, np.generic | float) for one in a):
            raise Unsupported("a list of recorded arrays and other values")
        made = _stacked(recorder, a, 0)
        return made if dtype is None else astype(recorder, made, dtype)
    raise Unsupported("no recorded arrays")


@converts("ascontiguousarray")
def ascontiguousarray(recorder: Recorder, a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """Record a copy in C order, or return the array if it is in C order already."""
    refuse(like=like)
    made = _as_array(recorder, a, dtype)
    if made is not a or (a.ndim and layout(a).flags.c_contiguous):
        return made
    return copy_method(recorder, a)


@notes(method="view")
def view_(recorder: Recorder, x: Array) -> Any:
    """Record a view of the whole array."""
    return view(x, ("reshape", x.shape), node_of(x))


@converts("asarray")
@converts("asanyarray")
def asarray(recorder: Recorder, a: Any, dtype: Any = None, order: Any = None, *,
            device: Any = None, copy: Any = None, like: Any = None) -> Any:  # fmt: skip
    """Record ``np.asarray`` of recorded arrays."""
    refuse(like=like)
    return _as_array(recorder, a, dtype, copy, order)


@converts("array")
def array(recorder: Recorder, object: Any, dtype: Any = None, *, copy: Any = True,
          order: Any = "K", subok: Any = False, ndmin: Any = 0,
          like: Any = None) -> Any:  # fmt: skip
    """Record ``np.array`` of recorded arrays."""
    refuse(like=like)
    made = _as_array(recorder, object, dtype, copy, order)
    return _reshaped(made, (1,) * (ndmin - made.ndim) + made.shape) if made.ndim < ndmin else made
