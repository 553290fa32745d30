"""Taking values at places, and where a condition holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import make, node_of
from gpuforge.runtime.array.dispatch import numbers, refuse
from gpuforge.runtime.array.graph import Node
from gpuforge.runtime.array.operations.sort import ARGSORT
from gpuforge.runtime.array.operations.view import moveaxis, ravel, taken
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.rules import broadcast, normalise_axis
from gpuforge.runtime.array.table import notes, row
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import broadcast_to, cast

TAKE_ALONG = row("take_along", np.take_along_axis, "gather")
"""array, places of as many axes, axis; the places are known to be in range"""
CHECKED_TAKE_ALONG = row("checked_take_along", np.take_along_axis, "gather", raises=True)


@notes(np.take, method="take")
def take_(recorder: Recorder, a: Any, indices: Any, axis: Any = None, out: Any = None,
          mode: Any = "raise") -> Any:  # fmt: skip
    """Record the values at places along an axis, or of the flat array."""
    refuse(out=out)
    if mode != "raise":
        raise Unsupported(f"mode={mode!r}")
    array: Any = taken(recorder, a)
    if axis is None:
        array, at = ravel(recorder, array), 0
    else:
        at = normalise_axis(axis, array.ndim)
    if array.shape[at] == 0:
        raise Unsupported("an empty axis")
    if not isinstance(indices, int) or isinstance(indices, bool):
        places = numbers(recorder, indices)
        if places.dtype.kind not in "iu":
            raise Unsupported(f"places of dtype {places.dtype}")
        indices = make(recorder, places)
    found = array[(*(slice(None),) * at, indices)]
    node = node_of(found)
    return make(recorder, node, scalar=node.shape == ())


@notes(np.take_along_axis)
def take_along_axis(recorder: Recorder, arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Record the values at places of their own for each row along an axis."""
    array, places = taken(recorder, arr), numbers(recorder, indices)
    if axis is None:
        if len(places.shape) != 1:
            raise Unsupported("indices of an incompatible shape")
        array, axis = ravel(recorder, array), 0
    at = normalise_axis(axis, array.ndim)
    if places.dtype.kind not in "iu" or len(places.shape) != array.ndim:
        raise Unsupported("indices of an incompatible shape")
    node = node_of(array)
    others = [
        tuple(length for place, length in enumerate(one.shape) if place != at)
        for one in (node, places)
    ]
    if broadcast(*others) != others[0]:
        raise Unsupported("indices of an incompatible shape")
    shape = (*node.shape[:at], places.shape[at], *node.shape[at + 1 :])
    operation = TAKE_ALONG if _sorts(recorder, places, node.shape, at) else CHECKED_TAKE_ALONG
    given = broadcast_to(recorder, cast(recorder, places, np.dtype(np.intp)), shape)
    return make(recorder, recorder.note(operation, (node, given), (at,), shape, node.dtype))


def _sorts(recorder: Recorder, places: Node, shape: tuple[int, ...], axis: int) -> bool:
    """Return whether places come from a stable sort along this axis: then all are in range."""
    if places.tape is not recorder.tape or places.shape[axis] != shape[axis]:
        return False
    operation, _, params = recorder.tape.entries[places.index]
    return operation is ARGSORT and params == (axis,)


@notes(np.compress)
def compress(recorder: Recorder, condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """Record the values along an axis where a condition holds."""
    refuse(out=out)
    array, mask = taken(recorder, a), numbers(recorder, condition)
    if axis is None:
        array, axis = ravel(recorder, array), 0
    at = normalise_axis(axis, array.ndim)
    if mask.shape != (array.shape[at],):
        raise Unsupported("a condition of a different length")
    chosen: Any = moveaxis(recorder, array, at, 0)
    chosen = chosen[make(recorder, cast(recorder, mask, np.dtype(bool)))]
    return make(recorder, node_of(moveaxis(recorder, chosen, 0, at)))


@notes(method="compress")
def compress_method(recorder: Recorder, x: Any, condition: Any, axis: Any = None,
                    out: Any = None) -> Any:  # fmt: skip
    """Record ``x.compress(condition)``."""
    return compress(recorder, condition, x, axis, out)


@notes(np.extract)
def extract(recorder: Recorder, condition: Any, arr: Any) -> Any:
    """Record the values of the flat array where a condition holds."""
    array, mask = taken(recorder, arr), taken(recorder, condition)
    if mask.size != array.size:
        raise Unsupported("a condition of a different length")
    return compress(recorder, ravel(recorder, mask), array)
