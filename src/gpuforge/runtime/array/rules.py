"""Shapes and dtypes of results, by NumPy's own rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.graph import Dtype, Shape
from gpuforge.runtime.array.unsupported import Unsupported

_LIMITS = {
    np.dtype(char): (int(np.iinfo(char).min), int(np.iinfo(char).max)) for char in "bBhHiIlLqQ"
}


def broadcast(*shapes: Shape) -> Shape:
    """Return the shape to which `shapes` broadcast.

    Raises
    ------
    Unsupported
        If they do not, so that NumPy raises its own error.
    """
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise Unsupported(str(error)) from None


def normalise_axis(axis: Any, ndim: int) -> int:
    """Return an axis as a non-negative integer.

    Raises
    ------
    Unsupported
        If it is not an integer, or out of range.
    """
    if type(axis) is not int:
        try:
            axis = axis.__index__()
        except AttributeError:
            raise Unsupported(f"{axis!r} as axis") from None
    if not -ndim <= axis < ndim:
        raise Unsupported("an axis out of range")
    place: int = axis + ndim if axis < 0 else axis
    return place


def normalise_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes that `axis` (None for all, a number or a tuple) stands for, in order."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int:
        return (normalise_axis(axis, ndim),)
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = tuple(sorted(normalise_axis(one, ndim) for one in given))
    if len(set(axes)) < len(axes):
        raise Unsupported("a repeated axis")
    return axes


def reduced(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """Return the shape after a reduction over `axes`."""
    if keepdims:
        return tuple(1 if place in axes else length for place, length in enumerate(shape))
    return tuple(length for place, length in enumerate(shape) if place not in axes)


def fits(value: int, dtype: Dtype) -> bool:
    """Return whether a Python number is representable in an integer `dtype`."""
    low, high = _LIMITS[dtype]
    return low <= value <= high


def count(shape: Shape) -> int:
    """Return the number of elements of an array of `shape`."""
    total = 1
    for length in shape:
        total *= length
    return total
