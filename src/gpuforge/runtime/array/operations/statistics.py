"""Statistics: weighted means, functions that ignore NaN, covariances, histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of, value_of
from gpuforge.runtime.array.bins import is_even, weighted_counts
from gpuforge.runtime.array.dispatch import operand, refuse
from gpuforge.runtime.array.elementwise import note_ufunc
from gpuforge.runtime.array.formula import follow_numpy, formula
from gpuforge.runtime.array.operations.creation import where
from gpuforge.runtime.array.operations.reduction import mean, sum_, var
from gpuforge.runtime.array.operations.view import taken
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.rules import normalise_axes, normalise_axis, reduced
from gpuforge.runtime.array.table import notes, row
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import broadcast_to, cast, reshape

HISTOGRAM = row("histogram", lambda array, edges: np.histogram(array, edges)[0], "reduction")
"""flat array, sorted edges of one dtype: counts per bin, the last one closed"""
WEIGHTED = row("weighted_histogram", weighted_counts, "reduction")
"""flat array, weights of its elements, edges at even distances: sums of weights per bin"""
_INT = np.dtype(np.intp)
_NONE = np._NoValue

follow_numpy(
    np.cov, np.corrcoef, np.nansum, np.nanprod, np.nanmax, np.nanmin, np.nan_to_num,
    np.nanargmax, np.nanargmin, np.isposinf, np.isneginf, np.trapezoid, np.polyfit,
)  # fmt: skip


# -- weighted means ------------------------------------------------------------------------------


@notes(np.average)
def average(recorder: Recorder, a: Any, axis: Any = None, weights: Any = None,
            returned: Any = False, *, keepdims: Any = _NONE) -> Any:  # fmt: skip
    """Record a weighted mean."""
    array = taken(recorder, a)
    kept = keepdims is not _NONE and bool(keepdims)
    if weights is None:
        made = mean(recorder, array, axis, keepdims=kept)
        number = np.array(array.size / max(made.size, 1), made.dtype)
        total = make(recorder, recorder.known(number), scalar=True)
    else:
        made, total = _weighted(recorder, array, axis, weights, kept)
    if not returned:
        return made
    if total.shape == made.shape:
        return made, total
    return made, make(recorder, broadcast_to(recorder, node_of(total), made.shape))


def _weighted(recorder: Recorder, array: Array, axis: Any, weights: Any, kept: bool) -> Any:
    """Return a weighted mean, and the sum of the weights."""
    known = np.asarray(weights) if isinstance(weights, list | tuple) else weights
    given = taken(recorder, known)
    if given.shape != array.shape:
        at = normalise_axis(axis, array.ndim)
        if given.shape != (array.shape[at],):
            raise Unsupported("weights of a different shape")
        shape = tuple(given.size if place == at else 1 for place in range(array.ndim))
        given = make(recorder, reshape(recorder, node_of(given), shape))
    whole = ["f8"] if array.dtype.kind in "biu" else []
    common = np.result_type(array.dtype, given.dtype, *whole)
    total = sum_(recorder, given, axis, dtype=common, keepdims=kept)
    if bool((total == 0.0).any()):
        raise Unsupported("weights that sum to zero")
    both = (make(recorder, cast(recorder, node_of(one), common)) for one in (array, given))
    scaled = note_ufunc(recorder, np.multiply, tuple(both))
    summed = sum_(recorder, scaled, axis, keepdims=kept)
    return note_ufunc(recorder, np.true_divide, (summed, total)), total


# -- functions that ignore NaN -------------------------------------------------------------------


def _numbers(recorder: Recorder, a: Any, axis: Any, ddof: Any) -> tuple[Array, Array, Array]:
    """Return an array with NaN replaced by 0, the NaN mask, and the counts left along `axis`.

    Raises
    ------
    Unsupported
        If too few are left somewhere, since NumPy warns about that.
    """
    array = taken(recorder, a)
    nan = note_ufunc(recorder, np.isnan, (array,))
    left = note_ufunc(recorder, np.logical_not, (nan,))
    number = sum_(recorder, left, axis, dtype=_INT, keepdims=True)
    if not array.size or bool((number <= ddof).any()):
        raise Unsupported("too few values, for which NumPy warns")
    return where(recorder, nan, 0, array), nan, number


def _shared(recorder: Recorder, total: Array, number: Array) -> Array:
    """Return sums divided by numbers, in the dtype of the sums."""
    made = note_ufunc(recorder, np.true_divide, (total, number))
    return make(recorder, cast(recorder, node_of(made), total.dtype), scalar=made._scalar)


def _kept(recorder: Recorder, made: Array, axis: Any, keepdims: Any) -> Array:
    """Return the result of a reduction with its axes kept or dropped."""
    if keepdims is not _NONE and keepdims:
        return made
    shape = reduced(made.shape, normalise_axes(axis, made.ndim), False)
    return make(recorder, reshape(recorder, node_of(made), shape), scalar=shape == ())


@notes(np.nanmean)
def nanmean(recorder: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
            keepdims: Any = _NONE, *, where: Any = _NONE) -> Any:  # fmt: skip
    """Record the mean, ignoring NaN."""
    refuse(out=out, where=where, dtype=dtype)
    if operand(recorder, a).dtype.kind not in "fc":
        return mean(recorder, a, axis, keepdims=keepdims)
    array, _, number = _numbers(recorder, a, axis, 0)
    made = _shared(recorder, sum_(recorder, array, axis, keepdims=True), number)
    return _kept(recorder, made, axis, keepdims)


@notes(np.nanvar)
def nanvar(recorder: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
           ddof: Any = 0, keepdims: Any = _NONE, *, where: Any = _NONE, mean: Any = _NONE,
           correction: Any = _NONE) -> Any:  # fmt: skip
    """Record the variance, ignoring NaN."""
    refuse(out=out, where=where, mean=mean, correction=correction, dtype=dtype)
    if operand(recorder, a).dtype.kind not in "fc":
        return var(recorder, a, axis, ddof=ddof, keepdims=keepdims)
    return _kept(recorder, _spread(recorder, a, axis, ddof), axis, keepdims)


@notes(np.nanstd)
def nanstd(recorder: Recorder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
           ddof: Any = 0, keepdims: Any = _NONE, *, where: Any = _NONE, mean: Any = _NONE,
           correction: Any = _NONE) -> Any:  # fmt: skip
    """Record the standard deviation, ignoring NaN."""
    squared = nanvar(recorder, a, axis, dtype, out, ddof, keepdims, where=where, mean=mean,
                     correction=correction)  # fmt: skip
    return note_ufunc(recorder, np.sqrt, (squared,))


def _spread(recorder: Recorder, a: Any, axis: Any, ddof: Any) -> Array:
    """Return the variance, ignoring NaN, with its axes kept."""
    array, nan, number = _numbers(recorder, a, axis, ddof)
    centre = _shared(recorder, sum_(recorder, array, axis, keepdims=True), number)
    apart = where(recorder, nan, 0, note_ufunc(recorder, np.subtract, (array, centre)))
    if array.dtype.kind == "c":
        apart_too = note_ufunc(recorder, np.conjugate, (apart,))
        squares = note_ufunc(recorder, np.multiply, (apart, apart_too)).real  # type: ignore[attr-defined]
    else:
        squares = note_ufunc(recorder, np.multiply, (apart, apart))
    left = note_ufunc(recorder, np.subtract, (number, ddof))
    return _shared(recorder, sum_(recorder, squares, axis, keepdims=True), left)


def _of_all(function: Any) -> Any:
    """Return a function that runs NumPy's code if all axes are reduced; NumPy loops otherwise."""
    follow = formula(function)

    def recording(recorder: Recorder, a: Any, *args: Any, axis: Any = None, **options: Any) -> Any:
        if axis is not None and taken(recorder, a).ndim != 1:
            raise Unsupported("ignoring NaN along an axis")
        return follow(recorder, a, *args, axis=axis, **options)

    return recording


for _function in (np.nanmedian, np.nanquantile, np.nanpercentile):
    notes(_function)(_of_all(_function))


# -- histograms -----------------------------------------------------------------------------------


@notes(np.histogram)
def histogram(recorder: Recorder, a: Any, bins: Any = 10, range: Any = None,
              density: Any = None, weights: Any = None) -> Any:  # fmt: skip
    """Record the counts between edges, which are computed on the host."""
    array = taken(recorder, a)
    if array.dtype.kind not in "fiu" or not array.size or type(bins) is Array:
        raise Unsupported(f"a histogram of {array.dtype}")
    edges = _edges(array, bins, range)
    common = np.result_type(array.dtype, edges.dtype)
    flat = cast(recorder, reshape(recorder, node_of(array), (array.size,)), common)
    limits = recorder.known(edges.astype(common))
    shape = (len(edges) - 1,)
    if weights is None:
        made: Any = make(recorder, recorder.note(HISTOGRAM, (flat, limits), (), shape, _INT))
    else:
        if not isinstance(bins, int | np.integer):
            raise Unsupported("a histogram with weights between edges that are given")
        heavy = _weights(recorder, weights, array, edges.astype(common))
        made = make(
            recorder, recorder.note(WEIGHTED, (flat, heavy, limits), (), shape, heavy.dtype)
        )
    if density:
        made = made / np.diff(edges).astype(float) / made.sum()
    return made, edges


def _weights(recorder: Recorder, weights: Any, array: Array, edges: Any) -> Any:
    """Return the node of a histogram's weights, flat."""
    found = taken(recorder, weights)
    if found.shape != array.shape or found.dtype.char not in "fd" or not is_even(edges):
        raise Unsupported(f"a histogram with weights of {found.dtype}")
    return reshape(recorder, node_of(found), (array.size,))


def _edges(array: Array, bins: Any, range_: Any) -> Any:
    ends = np.zeros(2, array.dtype)
    if isinstance(bins, int | np.integer) and range_ is None:
        ends = np.array([value_of(array.min()), value_of(array.max())], array.dtype)  # type: ignore[attr-defined]
    elif isinstance(bins, str):
        raise Unsupported("bins given by name")
    try:
        with np.errstate(all="ignore"):  # NumPy warns where it then refuses, and is asked again
            return np.histogram_bin_edges(ends, bins, range_)
    except (ValueError, TypeError) as error:
        raise Unsupported(str(error)) from None
