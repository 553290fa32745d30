"""Views and writes through them: NumPy's aliasing over immutable values.

Arrays that share memory in NumPy share a `Storage` here, which holds the node of the whole. A view
is a chain of steps from the whole. A write into a view makes a new node of the whole, by applying
the steps backwards; other views notice the new version and recompute their nodes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from weakref import ref

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gpuforge.runtime.array.graph import Dtype, Node, Shape
from gpuforge.runtime.array.unsupported import NotRecordable

Host = np.ndarray[Any, Any]
Step = tuple[Any, ...]
"""("getitem", Basic) | ("transpose", axes) | ("reshape", shape) | ("real",) | ("imag",) | ..."""


class Storage:
    """Memory that arrays share.

    Attributes
    ----------
    node : current value of the whole
    version : number of writes so far
    source : the caller's array, if it is an argument
    original : the initial node of an argument; None for others, so that its value is not kept
    whole : the array that the memory was made for, of which the others are views
    reshaped : views of another shape that may be copies in NumPy: its results follow the memory
        order of their operands
    """

    __slots__ = ("_layout", "node", "original", "reshaped", "source", "version", "whole")

    def __init__(self, whole: Any, source: Host | None = None) -> None:
        self.node: Node = whole._node
        self.original: Any = None if source is None else self.node
        self.whole = ref(whole)
        self.source = source
        self.version = 0
        self.reshaped: list[ref[Any]] = []
        self._layout: Host | None = source

    def turn(self, axes: tuple[int, ...]) -> None:
        """Order the memory of the whole by these axes, the one with the longest stride first."""
        self._layout = _without_memory(self.node.shape, self.node.dtype, axes)

    @property
    def layout(self) -> Host:
        """An array with the strides of the whole; it has the values only if it is an argument."""
        if self._layout is None:
            self._layout = _without_memory(self.node.shape, self.node.dtype)
        return self._layout


def in_order(host: Host, order: Any) -> Host:
    """Return an array, copied if it is not in an order: "C", strides, or "K" for any."""
    if order == "C":
        return host if host.flags.c_contiguous else host.copy(order="C")
    axes = zip(host.shape, host.strides, order, strict=False)
    if order == "K" or all(length < 2 or one == other for length, one, other in axes):
        return host
    made = np.empty_like(as_strided(np.empty(1, host.dtype), host.shape, order))
    made[...] = host
    return made


@lru_cache(maxsize=1024)
def _without_memory(shape: Shape, dtype: Dtype, axes: tuple[int, ...] = ()) -> Host:
    """Return an array in C order, or in that of its axes, without memory or meaningful values."""
    strides, step = [0] * len(shape), dtype.itemsize
    for axis in reversed(axes or range(len(shape))):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return as_strided(np.empty(1, dtype), shape, strides)


def follow(array: Host, chain: tuple[Step, ...]) -> Host:
    """Apply a chain of view steps to a NumPy array, without reading any value."""
    for name, *params in chain:
        array = _STEPS[name](array, *params)
    return array


def _reshaped(array: Host, shape: Shape) -> Host:
    try:
        return array.reshape(shape, copy=False)
    except ValueError as error:
        raise NotRecordable(f"a view of other strides: {error}") from None


_STEPS: dict[str, Any] = {
    "getitem": lambda array, index: array[(*index.index, ...)],  # a view, also of one element
    "transpose": lambda array, axes: array.transpose(axes),
    "reshape": _reshaped,
    "real": lambda array: array.real,
    "imag": lambda array: array.imag,
    "diagonal": np.diagonal,
    "broadcast": np.broadcast_to,
    "windows": np.lib.stride_tricks.sliding_window_view,
}
READ_ONLY = frozenset(["broadcast", "diagonal", "windows"])
"""Steps whose views are read-only in NumPy."""


def is_read_only(chain: tuple[Step, ...]) -> bool:
    """Return whether a chain leads to a read-only view."""
    return any(step[0] in READ_ONLY for step in chain)
