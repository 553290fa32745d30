"""Medians and quantiles, by sorting and NumPy's own interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of
from gpuforge.runtime.array.dispatch import refuse
from gpuforge.runtime.array.elementwise import note_ufunc
from gpuforge.runtime.array.graph import Shape
from gpuforge.runtime.array.operations.creation import where
from gpuforge.runtime.array.operations.reduction import mean
from gpuforge.runtime.array.operations.sort import sort
from gpuforge.runtime.array.operations.view import joined, taken
from gpuforge.runtime.array.recorder import Host, Recorder
from gpuforge.runtime.array.rules import count, normalise_axes, reduced
from gpuforge.runtime.array.table import notes
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import reshape, transpose

_DIFFERS = np.lib.NumpyVersion(np.__version__) < "2.4.0"


def _sorted(recorder: Recorder, x: Any, axis: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the values sorted, with the reduced axes merged into the last one; and the axes."""
    node = node_of(taken(recorder, x))
    shape = node.shape
    axes = normalise_axes(axis, len(shape))
    if not shape or not axes or 0 in shape:
        raise Unsupported("a quantile of an empty array")
    rest = tuple(place for place in range(len(shape)) if place not in axes)
    lengths = tuple(shape[place] for place in rest)
    node = transpose(recorder, node, (*rest, *axes))
    node = reshape(recorder, node, (*lengths, count(shape) // count(lengths)))
    return sort(recorder, make(recorder, node)), axes


def _finish(
    recorder: Recorder, made: Array, front: Shape, shape: Shape, axes: Any, keepdims: Any
) -> Array:
    node = reshape(recorder, node_of(made), front + reduced(shape, axes, bool(keepdims)))
    return make(recorder, node, scalar=node.shape == ())


def _with_nan(recorder: Recorder, values: Any, made: Any, *, spread: bool = False) -> Any:
    """Return a result with NaN where the sorted values end with one."""
    if values.dtype.kind not in "fc":
        return made
    last = values[..., -1:] if spread else values[..., -1]
    return where(recorder, note_ufunc(recorder, np.isnan, (last,)), last, made)


@notes(np.median)
def median(recorder: Recorder, a: Any, axis: Any = None, out: Any = None,
           overwrite_input: Any = False, keepdims: Any = False) -> Any:  # fmt: skip
    """Record the median."""
    refuse(out=out)
    if overwrite_input:
        raise Unsupported("overwrite_input=True")
    values, axes = _sorted(recorder, a, axis)
    half, odd = divmod(values.shape[-1], 2)
    middle = mean(recorder, values[..., half - 1 + odd : half + 1], -1)
    made = _with_nan(recorder, values, middle)
    return _finish(recorder, made, (), taken(recorder, a).shape, axes, keepdims)


@notes(np.quantile)
def quantile(recorder: Recorder, a: Any, q: Any, axis: Any = None, out: Any = None,
             overwrite_input: Any = False, method: Any = "linear", keepdims: Any = False, *,
             weights: Any = None) -> Any:  # fmt: skip
    """Record quantiles with linear interpolation; `q` is read on the host."""
    refuse(out=out, weights=weights)
    if method != "linear" or overwrite_input:
        raise Unsupported(f"method={method!r} or overwrite_input=True")
    return _quantiles(recorder, a, _shares(recorder, q), type(q) in (int, float), axis, keepdims)


@notes(np.percentile)
def percentile(recorder: Recorder, a: Any, q: Any, axis: Any = None, out: Any = None,
               overwrite_input: Any = False, method: Any = "linear", keepdims: Any = False, *,
               weights: Any = None) -> Any:  # fmt: skip
    """Record percentiles with linear interpolation; `q` is read on the host."""
    refuse(out=out, weights=weights)
    if method != "linear" or overwrite_input:
        raise Unsupported(f"method={method!r} or overwrite_input=True")
    shares = np.asarray(np.true_divide(_shares(recorder, q), 100))
    return _quantiles(recorder, a, shares, type(q) in (int, float), axis, keepdims)


def _shares(recorder: Recorder, q: Any) -> Host:
    """Return the wanted quantiles on the host."""
    if type(q) is Array:
        return recorder.host(node_of(q))
    if isinstance(q, list | tuple) and any(type(one) is Array for one in q):
        raise Unsupported("a list of recorded arrays")
    return np.asarray(q)


def _quantiles(
    recorder: Recorder, x: Any, shares: Host, weak: bool, axis: Any, keepdims: Any
) -> Any:
    if _DIFFERS:
        raise Unsupported("NumPy before 2.4 interpolates in other dtypes")
    if shares.dtype.kind not in "iuf" or shares.ndim > 2 or not shares.size:
        raise Unsupported("invalid quantiles")
    if not bool(((shares >= 0) & (shares <= 1)).all()):
        raise Unsupported("a quantile outside 0 to 1")
    if taken(recorder, x).dtype.kind == "c":
        raise Unsupported("not real numbers")
    values, axes = _sorted(recorder, x, axis)
    length = values.shape[-1]
    virtual = np.asarray((length - 1) * shares)
    if shares.ndim:
        made = _several(recorder, values, virtual.ravel())
        made = _with_nan(recorder, values, made, spread=True)
        order = (made.ndim - 1, *range(made.ndim - 1))
        made = make(recorder, transpose(recorder, node_of(made), order))
    else:
        made = _with_nan(recorder, values, _single(recorder, values, virtual, weak))
    return _finish(recorder, made, shares.shape, taken(recorder, x).shape, axes, keepdims)


def _places(virtual: Host, length: int) -> tuple[Host, Host, Host]:
    """Return the indices before and after, clipped to the last one, and the weights between."""
    before = np.floor(virtual)
    after = before + 1
    beyond = virtual >= length - 1
    before = np.where(beyond, -1, before).astype(np.intp)
    after = np.where(beyond, -1, after).astype(np.intp)
    return before, after, np.asarray(virtual - before, dtype=virtual.dtype)


def _single(recorder: Recorder, values: Any, virtual: Host, weak: bool) -> Any:
    if virtual.dtype.kind in "iu":
        return values[..., int(virtual)]
    before, after, way = _places(virtual, values.shape[-1])
    share = float(way) if weak else make(recorder, recorder.known(way))
    ends = values[..., int(before)], values[..., int(after)]
    return _between(recorder, *ends, share, high=bool(way >= 0.5))


def _several(recorder: Recorder, values: Any, virtual: Host) -> Any:
    """Return the quantiles along the last axis; past halfway, counted from the upper end."""
    if virtual.dtype.kind in "iu":
        return values[..., virtual.astype(np.intp)]
    before, after, way = _places(virtual, values.shape[-1])
    upper = way >= 0.5
    parts = [
        _between(
            recorder,
            values[..., before[chosen]],
            values[..., after[chosen]],
            make(recorder, recorder.known(way[chosen])),
            high=high,
        )
        for high, chosen in ((False, ~upper), (True, upper))
        if chosen.any()
    ]
    if len(parts) == 1:
        return parts[0]
    both: Any = make(recorder, joined(recorder, list(map(node_of, parts)), parts[0].ndim - 1))
    return both[..., np.argsort(np.argsort(upper, stable=True), stable=True)]


def _between(recorder: Recorder, low: Any, high_end: Any, share: Any, *, high: bool) -> Any:
    """Return NumPy's interpolation, computed from the nearer end."""
    apart = note_ufunc(recorder, np.subtract, (high_end, low))
    if high:
        rest = 1 - share
        return note_ufunc(
            recorder, np.subtract, (high_end, note_ufunc(recorder, np.multiply, (apart, rest)))
        )
    return note_ufunc(recorder, np.add, (low, note_ufunc(recorder, np.multiply, (apart, share))))
