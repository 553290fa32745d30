"""Arrangements: values moved, repeated, padded, split and joined, none computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of, view
from gpuforge.runtime.array.dispatch import on_host, operand, refuse
from gpuforge.runtime.array.elementwise import note_ufunc
from gpuforge.runtime.array.formula import follow_numpy
from gpuforge.runtime.array.graph import Node, Shape
from gpuforge.runtime.array.operations.creation import full_node, where
from gpuforge.runtime.array.operations.view import concatenate, joined, moveaxis, taken
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.rules import broadcast, count, normalise_axis
from gpuforge.runtime.array.table import notes
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import WINDOWS, broadcast_to, cast, reshape

follow_numpy(
    np.rot90, np.tile, np.array_split, np.split, np.hsplit, np.vsplit, np.dsplit, np.dstack,
    np.append, np.rollaxis, np.resize, np.ix_, np.unstack, np.block, np.trim_zeros,
)  # fmt: skip


def flat(recorder: Recorder, x: Any) -> Array:
    """Return the values of an array as a new one-dimensional array."""
    node = operand(recorder, x)
    return make(recorder, reshape(recorder, node, (count(node.shape),)))


def along(axis: int, part: Any) -> tuple[Any, ...]:
    """Return the index that selects `part` of one axis and all of the others."""
    return (*(slice(None),) * axis, part)


def whole_numbers(value: Any) -> list[int]:
    """Return one integer, or a sequence of integers, as a list.

    Raises
    ------
    Unsupported
        If it contains anything else.
    """
    several = isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim)
    given = list(value) if several else [value]
    try:
        return [one.__index__() for one in given]
    except (AttributeError, TypeError):
        raise Unsupported("not integers") from None


def _rolled(x: Any, shift: int, axis: int) -> Any:
    length = x.shape[axis]
    cut = -shift % length if length else 0
    if not cut:
        return x
    parts = [x[along(axis, slice(cut, None))], x[along(axis, slice(None, cut))]]
    return concatenate(x._recorder, parts, axis)


@notes(np.roll)
def roll(recorder: Recorder, a: Any, shift: Any, axis: Any = None) -> Any:
    """Record values rolled along axes, wrapping around at the end."""
    array = taken(recorder, a)
    if axis is None:
        made = roll(recorder, flat(recorder, array), sum(whole_numbers(shift)), 0)
        return make(recorder, reshape(recorder, node_of(made), array.shape))
    axes = [normalise_axis(one, array.ndim) for one in whole_numbers(axis)]
    shifts = whole_numbers(shift)
    if len(shifts) != len(axes) and 1 not in (len(shifts), len(axes)):
        raise Unsupported("shifts that do not match the axes")
    number = max(len(shifts), len(axes))
    moved = make(recorder, node_of(array))
    for one, at in zip(_times(shifts, number), _times(axes, number), strict=True):
        moved = _rolled(moved, one, at)
    return moved


def _times(values: list[int], number: int) -> list[int]:
    return values * number if len(values) == 1 else values


@notes(np.repeat, method="repeat")
def repeat(recorder: Recorder, a: Any, repeats: Any, axis: Any = None) -> Any:
    """Record repeated values; counts per value are read on the host."""
    array = flat(recorder, a) if axis is None else taken(recorder, a)
    at = normalise_axis(0 if axis is None else axis, array.ndim)
    times = whole_numbers(repeats)
    length = array.shape[at]
    if any(one < 0 for one in times) or len(times) not in (1, length):
        raise Unsupported("repeats of an incompatible shape")
    if len(times) != 1 or length == 1:
        return array[along(at, np.repeat(np.arange(length), times))]  # type: ignore[index]
    front, back = array.shape[:at], array.shape[at + 1 :]
    apart = reshape(recorder, node_of(array), (*front, length, 1, *back))
    wide = broadcast_to(recorder, apart, (*front, length, times[0], *back))
    return make(recorder, reshape(recorder, wide, (*front, length * times[0], *back)))


# -- padding --------------------------------------------------------------------------------------


def _pairs(value: Any, ndim: int) -> list[Any]:
    """Return NumPy's short forms of one pair per axis as such pairs."""
    if isinstance(value, dict):
        raise Unsupported("pad widths given by axis")
    try:
        return [tuple(pair) for pair in np.broadcast_to(np.asarray(value), (ndim, 2)).tolist()]
    except ValueError:
        raise Unsupported("pad widths that do not match the axes") from None


@notes(np.pad)
def pad(recorder: Recorder, array: Any, pad_width: Any, mode: Any = "constant",
        **options: Any) -> Any:  # fmt: skip
    """Record values added at the ends of axes."""
    given = taken(recorder, array)
    if type(pad_width) is Array or not given.size or not given.ndim:
        raise Unsupported("a pad width that is unknown while recording, or nothing to pad")
    widths = [whole_numbers(pair) for pair in _pairs(pad_width, given.ndim)]
    if any(width < 0 for pair in widths for width in pair):
        raise Unsupported("a negative pad width")
    if mode == "constant":
        values = options.pop("constant_values", 0)
        refuse(**options)
        return _pad_constant(recorder, node_of(given), widths, values)
    if mode not in ("edge", "reflect", "symmetric", "wrap") or options:
        raise Unsupported(f"mode {mode!r} with {sorted(options)}")
    made: Any = make(recorder, node_of(given))
    for axis, pair in enumerate(widths):
        if any(pair):
            places = np.pad(np.arange(given.shape[axis]), pair, mode)
            made = made[along(axis, places)]
    return made


def _pad_constant(recorder: Recorder, node: Node, widths: list[Any], values: Any) -> Array:
    if type(values) is Array:
        raise Unsupported("values that are unknown while recording")
    constants = _pairs(values, len(node.shape))
    for axis, (pair, ends) in enumerate(zip(widths, constants, strict=True)):
        parts = [node]
        for place, (width, value) in enumerate(zip(pair, ends, strict=True)):
            if width:
                shape = (*node.shape[:axis], width, *node.shape[axis + 1 :])
                filled = np.asarray(value).astype(node.dtype).item()
                end = full_node(recorder, shape, filled, node.dtype)
                parts.insert(len(parts) * place, end)
        node = joined(recorder, parts, axis) if len(parts) > 1 else node
    return make(recorder, node)


# -- taking out and putting in --------------------------------------------------------------------


@notes(np.delete)
def delete(recorder: Recorder, arr: Any, obj: Any, axis: Any = None) -> Any:
    """Record an array without some of its elements, whose indices are read on the host."""
    array = flat(recorder, arr) if axis is None else taken(recorder, arr)
    at = normalise_axis(-1 if axis is None else axis, array.ndim)
    try:
        places = np.delete(np.arange(array.shape[at]), on_host(obj))
    except (IndexError, ValueError, TypeError) as error:
        raise Unsupported(str(error)) from None
    return array[along(at, places)]  # type: ignore[index]


@notes(np.insert)
def insert(recorder: Recorder, arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """Record values inserted before one place."""
    array = flat(recorder, arr) if axis is None else taken(recorder, arr)
    at = normalise_axis(-1 if axis is None else axis, array.ndim)
    obj = on_host(obj)
    if not isinstance(obj, int | np.integer):
        raise Unsupported("several indices")
    length = array.shape[at]
    if not -length <= obj <= length:
        raise Unsupported("an index out of range")
    place = int(obj) + length if obj < 0 else int(obj)
    new = _inserted(recorder, values, array, at)
    parts = [array[along(at, slice(None, place))], new, array[along(at, slice(place, None))]]  # type: ignore[index]
    return concatenate(recorder, parts, at)


def _inserted(recorder: Recorder, values: Any, array: Array, at: int) -> Array:
    """Return values as the part of `array` that they become, for one place."""
    node = cast(recorder, operand(recorder, np.asarray(values) if isinstance(values, list | tuple)
                                  else values), array.dtype)  # fmt: skip
    if array.ndim == 1 and len(node.shape) < 2:
        return make(recorder, reshape(recorder, node, (count(node.shape),)))
    others = (*array.shape[:at], *array.shape[at + 1 :])
    if broadcast(node.shape, others) != others or len(node.shape) > len(others):
        raise Unsupported("values of a different shape")
    wide = broadcast_to(recorder, node, others)
    return make(recorder, reshape(recorder, wide, (*others[:at], 1, *others[at:])))


# -- triangles, windows, shapes together ----------------------------------------------------------


def _triangle(recorder: Recorder, m: Any, k: Any, *, lower: bool) -> Any:
    array = taken(recorder, m)
    if array.ndim < 2:
        raise Unsupported("a triangle of a one-dimensional array")
    rows, columns = array.shape[-2:]
    (offset,) = whole_numbers(k)
    down = make(recorder, recorder.known(np.arange(rows)[:, None] + offset))
    inside = note_ufunc(recorder, np.greater_equal if lower else np.less,
                        (down, np.arange(columns)))  # fmt: skip
    zero = full_node(recorder, (), 0, array.dtype)
    return where(recorder, inside, array, make(recorder, zero))


@notes(np.tril)
def tril(recorder: Recorder, m: Any, k: Any = 0) -> Any:
    """Record the triangle on and below a diagonal."""
    return _triangle(recorder, m, k, lower=True)


@notes(np.triu)
def triu(recorder: Recorder, m: Any, k: Any = 0) -> Any:
    """Record the triangle on and above a diagonal."""
    (offset,) = whole_numbers(k)
    return _triangle(recorder, m, offset - 1, lower=False)


@notes(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(recorder: Recorder, x: Any, window_shape: Any, axis: Any = None, *,
                        subok: bool = False, writeable: bool = False) -> Any:  # fmt: skip
    """Record every window of an array, in new axes at the end."""
    if writeable:
        raise Unsupported("windows that are written into")
    array, windows = taken(recorder, x), tuple(whole_numbers(window_shape))
    given = range(array.ndim) if axis is None else whole_numbers(axis)
    axes = tuple(normalise_axis(one, array.ndim) for one in given)
    made = _windows(recorder, node_of(array), windows, axes)
    return view(array, ("windows", windows, axes), made)


def _windows(recorder: Recorder, node: Node, windows: Shape, axes: Shape) -> Node:
    made: Any = make(recorder, node)
    if len(windows) != len(axes):
        raise Unsupported("windows that do not match the axes")
    for window, at in zip(windows, axes, strict=True):
        length = made.shape[at] - window + 1
        if window < 0 or length < 1:
            raise Unsupported("a window larger than its axis")
        places = np.arange(length)[:, None] + np.arange(window)
        made = moveaxis(recorder, made[along(at, places)], at + 1, -1)
    return node_of(made)


WINDOWS.append(_windows)


@notes(np.broadcast_arrays)
def broadcast_arrays(recorder: Recorder, *args: Any, subok: bool = False) -> Any:
    """Record views of arrays, broadcast to their common shape."""
    given: Sequence[Array] = [taken(recorder, one) for one in args]
    shape = broadcast(*(one.shape for one in given))
    return tuple(
        one
        if one.shape == shape
        else view(one, ("broadcast", shape), broadcast_to(recorder, node_of(one), shape))
        for one in given
    )


@notes(np.meshgrid)
def meshgrid(recorder: Recorder, *xi: Any, copy: bool = True, sparse: bool = False,
             indexing: str = "xy") -> Any:  # fmt: skip
    """Record coordinates along axes as arrays over a grid."""
    if indexing not in ("xy", "ij") or not copy:
        raise Unsupported("a meshgrid of views")
    order = list(range(len(xi)))
    if indexing == "xy" and len(xi) > 1:
        order[:2] = [1, 0]
    lines = [flat(recorder, one) for one in xi]
    made = []
    for line, at in zip(lines, order, strict=True):
        shape = tuple(line.size if axis == at else 1 for axis in range(len(xi)))
        made.append(make(recorder, reshape(recorder, node_of(line), shape)))
    if sparse:
        return tuple(made)
    shape = broadcast(*(one.shape for one in made))
    return tuple(make(recorder, broadcast_to(recorder, node_of(one), shape)) for one in made)
