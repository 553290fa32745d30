"""Creations: arrays of one value, ranges, and selections between arrays."""

from __future__ import annotations

from math import prod
from operator import index
from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, layout, make, node_of, ordered
from gpuforge.runtime.array.dispatch import into, operand, refuse
from gpuforge.runtime.array.elementwise import note_ufunc
from gpuforge.runtime.array.graph import Node
from gpuforge.runtime.array.indexing import note_where
from gpuforge.runtime.array.namespace import creates
from gpuforge.runtime.array.operations.view import taken, transpose_
from gpuforge.runtime.array.recorder import NUMERIC_KINDS, Recorder
from gpuforge.runtime.array.table import FUNCTIONS, notes, row
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import broadcast_to, cast

FULL = row("full", lambda shape, value, dtype: np.full(shape, value, dtype), "creation")
"""shape, value, dtype"""
EYE = row("eye", lambda n, m, k, dtype: np.eye(n, m, k, dtype), "creation")
"""rows, columns, diagonal, dtype"""
_BOOL = np.dtype(bool)
_LARGE_BYTES = 1 << 30


def _shape(shape: Any, order: Any = "C") -> tuple[int, ...]:
    if isinstance(shape, int | np.integer):
        return (int(shape),)
    return tuple(map(index, shape))[:: -1 if order == "F" else 1]


def _check_size(lengths: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise what NumPy raises for an array that memory cannot hold; JAX would end the process."""
    if prod(lengths) * dtype.itemsize > _LARGE_BYTES:
        np.empty(lengths, dtype)  # its memory is reserved, but not used


def full_node(recorder: Recorder, shape: Any, value: Any, dtype: Any) -> Node:
    """Return the node of an array that holds one number everywhere."""
    made, lengths = np.dtype(dtype), _shape(shape)
    if made.kind not in NUMERIC_KINDS or not made.isnative or any(n < 0 for n in lengths):
        raise Unsupported(f"dtype {made}, shape {lengths}")
    _check_size(lengths, made)
    try:
        with np.errstate(over="raise", invalid="raise"):
            number = np.array(value, made).item()
    except (ArithmeticError, TypeError, ValueError) as error:
        raise Unsupported(str(error)) from None
    parts = (number.real, number.imag) if made.kind == "c" else (number,)
    if any(part == 0 and str(part).startswith("-") for part in parts):
        raise Unsupported("-0.0, which is equal to 0.0 where graphs are compared")
    return recorder.note(FULL, (), (lengths, number, made), lengths, made)


def _filled(recorder: Recorder, shape: Any, value: Any, dtype: Any, order: Any) -> Any:
    made = make(recorder, full_node(recorder, _shape(shape, order), value, dtype))
    return transpose_(recorder, made) if order == "F" else made


def _check_options(order: Any, device: Any, like: Any) -> None:
    if order not in ("C", "F", None) or device not in ("cpu", None) or like is not None:
        raise Unsupported(f"order={order!r}, device={device!r}, like={like!r}")


def _creation(value: int) -> Any:
    def create(recorder: Recorder, shape: Any, dtype: Any = None, order: Any = "C", *,
               device: Any = None, like: Any = None) -> Any:  # fmt: skip
        _check_options(order, device, like)
        return _filled(recorder, shape, value, dtype or float, order)

    return create


for _name, _value in (("zeros", 0), ("ones", 1), ("empty", 0)):
    creates(_name)(_creation(_value))


@creates("full")
def full(recorder: Recorder, shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *,
         device: Any = None, like: Any = None) -> Any:  # fmt: skip
    """Record an array of one value."""
    _check_options(order, device, like)
    if type(fill_value) is Array:
        node = node_of(fill_value)
        node = node if dtype is None else cast(recorder, node, np.dtype(dtype))
        refuse(order=order if order == "F" and node.shape else None)
        made = make(recorder, broadcast_to(recorder, node, _shape(shape, order)))
        return transpose_(recorder, made) if order == "F" else made
    return _filled(recorder, shape, fill_value, dtype or np.asarray(fill_value).dtype, order)


@creates("eye")
def eye(recorder: Recorder, N: Any, M: Any = None, k: Any = 0, dtype: Any = float,
        order: Any = "C", *, device: Any = None, like: Any = None) -> Any:  # fmt: skip
    """Record ones on a diagonal."""
    _check_options(order, device, like)
    if order == "F":
        return transpose_(recorder, eye(recorder, N if M is None else M, N, -k, dtype))
    rows, columns, made = index(N), index(N if M is None else M), np.dtype(dtype or float)
    _check_size((rows, columns), made)
    node = recorder.note(EYE, (), (rows, columns, index(k), made), (rows, columns), made)
    return make(recorder, node)


@creates("identity")
def identity(recorder: Recorder, n: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """Record the identity matrix."""
    return eye(recorder, n, None, 0, dtype or float, like=like)


def _host(name: str) -> None:
    function = getattr(np, name)

    @creates(name)
    def create(recorder: Recorder, *args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        if type(made) is not np.ndarray or made.dtype.kind not in NUMERIC_KINDS:
            raise Unsupported("not a plain array")
        return make(recorder, recorder.known(made))


for _name in ("arange", "linspace", "logspace", "geomspace", "tri", "hanning", "hamming"):
    _host(_name)


def _like(value: int) -> Any:
    def like(recorder: Recorder, a: Any, dtype: Any = None, order: Any = "K", subok: Any = True,
             shape: Any = None, *, device: Any = None) -> Any:  # fmt: skip
        return full_like(recorder, a, value, dtype, order, subok, shape, device=device)

    return like


for _function, _value in ((np.zeros_like, 0), (np.ones_like, 1), (np.empty_like, 0)):
    notes(_function)(_like(_value))


@notes(np.full_like)
def full_like(recorder: Recorder, a: Any, fill_value: Any, dtype: Any = None, order: Any = "K",
              subok: Any = True, shape: Any = None, *, device: Any = None) -> Any:  # fmt: skip
    """Record an array of one value, like another."""
    array = taken(recorder, a)
    wanted = array.shape if shape is None else _shape(shape)
    made, laid = dtype or array.dtype, layout(array)
    if order == "K" and len(wanted) == laid.ndim > 1:
        axes = _axes_in_memory(laid)
        given = full(recorder, [wanted[axis] for axis in axes], fill_value, made, device=device)
        back = [axes.index(axis) for axis in range(laid.ndim)]
        return given if back == sorted(back) else transpose_(recorder, given, back)
    if order in ("K", "A"):
        order = "F" if order == "A" and laid.flags.fnc else "C"
    return full(recorder, wanted, fill_value, made, order, device=device)


def _axes_in_memory(laid: np.ndarray[Any, Any]) -> list[int]:
    """Return the axes of an array from the largest step in memory to the smallest, as for "K"."""
    axes = list(range(laid.ndim))
    if laid.flags.c_contiguous:
        return axes
    return axes[::-1] if laid.flags.fnc else sorted(axes, key=lambda axis: -abs(laid.strides[axis]))


@notes(np.where)
def where(recorder: Recorder, condition: Any, /, *values: Any) -> Any:
    """Record a choice between two arrays, element by element; without them, `np.nonzero`."""
    if not values:
        return FUNCTIONS[np.nonzero](recorder, condition)
    if len(values) != 2:
        raise Unsupported("one array to choose from")
    x, y = values
    mask = cast(recorder, operand(recorder, condition), _BOOL)
    one, two = _both(recorder, x, y)
    return ordered(make(recorder, note_where(recorder, mask, one, two)), (condition, x, y))


def _both(recorder: Recorder, x: Any, y: Any) -> tuple[Node, Node]:
    """Return two operands in their common dtype; Python numbers are weak."""
    weak = [type(v) in (int, float, complex) for v in (x, y)]
    given = [v if w else operand(recorder, v) for v, w in zip((x, y), weak, strict=True)]
    try:
        common = np.result_type(*(v if w else v.dtype for v, w in zip(given, weak, strict=True)))
        one, two = (
            recorder.known(np.array(v, common)) if w else cast(recorder, v, common)
            for v, w in zip(given, weak, strict=True)
        )
    except OverflowError as error:
        raise Unsupported(str(error)) from None
    return one, two


@notes(np.clip, method="clip")
def clip(recorder: Recorder, a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *,
         min: Any = None, max: Any = None, **options: Any) -> Any:  # fmt: skip
    """Record values kept between two limits."""
    refuse(**options)
    low = a_min if min is None or min is np._NoValue else min
    high = a_max if max is None or max is np._NoValue else max
    made: Any = taken(recorder, a)
    if low is not None and low is not np._NoValue:
        made = note_ufunc(recorder, np.maximum, (made, low))
    if high is not None and high is not np._NoValue:
        made = note_ufunc(recorder, np.minimum, (made, high))
    if made is a:
        raise Unsupported("neither a minimum nor a maximum")
    return into(out, made)
