"""Record view steps on nodes, and their inverses to write through a view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuforge.runtime.array.graph import Node
from gpuforge.runtime.array.index import Basic, to_numpy
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.storage import Step
from gpuforge.runtime.array.table import row


def _set(array: Any, value: Any, *rest: Any) -> Any:
    made = np.array(array)  # a copy that stays an array
    made[to_numpy(rest[-1], rest[:-1])] = value
    return made


def write(array: Any, value: Any, *rest: Any) -> Any:
    """Write a value at an index into an array that nothing else uses, and return the array."""
    if type(array) is not np.ndarray:  # a scalar stands for an array without axes
        return _set(array, value, *rest)
    array[to_numpy(rest[-1], rest[:-1])] = value
    return array


def _join(real: Any, imag: Any) -> Any:
    made = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.result_type(real, 1j))
    made.real, made.imag = real, imag
    return made


GETITEM = row("getitem", lambda x, *rest: x[to_numpy(rest[-1], rest[:-1])], "view", structural=True)
"""array, places..., pattern"""
SETITEM = row("setitem", _set, "view", structural=True)
"""array, value, places..., pattern: a new array with the value in it"""
TRANSPOSE = row("transpose", lambda array, axes: array.transpose(axes), "view", structural=True)
RESHAPE = row("reshape", lambda array, shape: array.reshape(shape), "view", structural=True)
BROADCAST = row("broadcast_to", np.broadcast_to, "view", structural=True)
REAL = row("real", np.real, "view", structural=True)
IMAG = row("imag", np.imag, "view", structural=True)
DIAGONAL = row(
    "diagonal", lambda array, *rest: array.diagonal(*rest).copy(), "view", structural=True
)
"""array, offset, two axes; the diagonal comes last"""
JOIN = row("join_complex", _join, "elementwise")
CAST = row("astype", lambda array, dtype: array.astype(dtype), "elementwise")


def take(recorder: Recorder, node: Node, index: Basic) -> Node:
    """Record a basic index and return the node it selects."""
    recorder.begin()
    recorder.check(GETITEM, node.dtype)
    places = (recorder.place(node), *map(recorder.number, index.places))
    return recorder.append(GETITEM, places, (index.pattern,), index.shape, node.dtype)


def put(recorder: Recorder, node: Node, index: Basic, value: Node) -> Node:
    """Record a write of `value` at a basic index and return the new whole."""
    value = cast(recorder, value, node.dtype)
    if value.shape != index.shape and len(value.shape) > len(index.shape):
        value = reshape(recorder, value, value.shape[len(value.shape) - len(index.shape) :])
    if index.takes_all(node.shape):
        return broadcast_to(recorder, value, node.shape)
    recorder.begin()
    recorder.check(SETITEM, node.dtype)
    given = recorder.place(node), recorder.place(value)
    places = (*given, *map(recorder.number, index.places))
    return recorder.append(SETITEM, places, (index.pattern,), node.shape, node.dtype)


def cast(recorder: Recorder, node: Node, dtype: np.dtype[Any]) -> Node:
    """Return a node of another dtype, or the same one."""
    if node.dtype == dtype:
        return node
    if node.dtype.kind == "c" and dtype.kind not in "cb":  # true where either part is not zero
        node = recorder.note(REAL, (node,), (), node.shape, np.empty(0, node.dtype).real.dtype)
        return cast(recorder, node, dtype)
    recorder.check(CAST, dtype)  # a backend may lack the dtype of the result alone
    return recorder.note(CAST, (node,), (dtype,), node.shape, dtype)


def reshape(recorder: Recorder, node: Node, shape: tuple[int, ...]) -> Node:
    """Return a node of another shape with as many elements, or the same one."""
    if node.shape == shape:
        return node
    return recorder.note(RESHAPE, (node,), (shape,), shape, node.dtype)


def transpose(recorder: Recorder, node: Node, axes: tuple[int, ...]) -> Node:
    """Return a node with its axes in another order, or the same one."""
    if axes == tuple(range(len(axes))):
        return node
    shape = tuple(node.shape[axis] for axis in axes)
    recorder.turned = True
    return recorder.note(TRANSPOSE, (node,), (axes,), shape, node.dtype)


def broadcast_to(recorder: Recorder, node: Node, shape: tuple[int, ...]) -> Node:
    """Return a node broadcast to `shape`, or the same one."""
    if node.shape == shape:
        return node
    return recorder.note(BROADCAST, (node,), (shape,), shape, node.dtype)


WINDOWS: list[Callable[..., Node]] = []  # entered by `operations.arrangement`


def follow_step(recorder: Recorder, node: Node, step: Step) -> Node:
    """Return the node of a view from the node of what it is a view of."""
    name, *params = step
    if name == "getitem":
        return take(recorder, node, params[0])
    if name == "transpose":
        return transpose(recorder, node, params[0])
    if name == "reshape":
        return reshape(recorder, node, params[0])
    if name == "diagonal":
        return _diagonal(recorder, node, *params)
    if name == "broadcast":
        return broadcast_to(recorder, node, params[0])
    if name == "windows":
        return WINDOWS[0](recorder, node, *params)
    part = REAL if name == "real" else IMAG
    return recorder.note(part, (node,), (), node.shape, np.empty(0, node.dtype).real.dtype)


def _diagonal(recorder: Recorder, node: Node, offset: int, one: int, two: int) -> Node:
    below, right = max(-offset, 0), max(offset, 0)
    length = max(min(node.shape[one] - below, node.shape[two] - right), 0)
    rest = tuple(n for place, n in enumerate(node.shape) if place not in (one, two))
    return recorder.note(DIAGONAL, (node,), (offset, one, two), (*rest, length), node.dtype)


def write_back(recorder: Recorder, node: Node, chain: tuple[Step, ...], value: Node) -> Node:
    """Return the whole's node after a write of `value` into the view at the end of `chain`."""
    if not chain:
        return value
    (name, *params), rest = chain[0], chain[1:]
    inner = value
    if rest:
        inner = write_back(recorder, follow_step(recorder, node, chain[0]), rest, value)
    if name == "getitem":
        return put(recorder, node, params[0], inner)
    if name == "transpose":
        order = tuple(int(place) for place in np.argsort(params[0]))
        return transpose(recorder, inner, order)
    if name == "reshape":
        return reshape(recorder, inner, node.shape)
    other = follow_step(recorder, node, ("imag",) if name == "real" else ("real",))
    both = (inner, other) if name == "real" else (other, inner)
    return recorder.note(JOIN, both, (), node.shape, node.dtype)
