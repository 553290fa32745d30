"""Curves: differences, interpolation, convolutions and polynomials."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of
from gpuforge.runtime.array.dispatch import numbers, refuse
from gpuforge.runtime.array.elementwise import note_ufunc
from gpuforge.runtime.array.formula import follow_numpy
from gpuforge.runtime.array.operations.creation import full_node
from gpuforge.runtime.array.operations.view import astype, stack, taken
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.table import notes, row
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import cast

CONVOLVE = row("convolve", np.convolve, "contraction")
"""Two vectors of one dtype, the first not the shorter; mode: full, same or valid"""
INTERPOLATE = row(
    "interpolate",
    lambda x, xp, fp, left, right: np.asarray(np.interp(x, xp, fp, left, right)),
    "gather",
)
"""x, vectors xp and fp; numbers left and right, None for the ends of fp"""
_FLOAT = np.dtype(np.float64)

follow_numpy(
    np.gradient, np.unwrap, np.sinc, np.angle, np.kron, np.polyval, np.polyder,
    np.polyadd, np.polysub, np.polymul, np.polydiv,
)  # fmt: skip


# -- convolutions ---------------------------------------------------------------------------------


def _vectors(recorder: Recorder, a: Any, v: Any) -> tuple[Array, Array]:
    """Return two vectors of one dtype."""
    nodes = [numbers(recorder, one) for one in (a, v)]
    common = np.result_type(*(node.dtype for node in nodes))
    if any(len(node.shape) != 1 or not node.shape[0] for node in nodes) or common.kind == "b":
        raise Unsupported("not vectors of numbers")
    one, two = (make(recorder, cast(recorder, node, common)) for node in nodes)
    return one, two


def _convolved(recorder: Recorder, a: Array, v: Array, mode: Any) -> Array:
    long, short = (a, v) if a.size >= v.size else (v, a)
    lengths = {"full": a.size + v.size - 1, "same": long.size, "valid": long.size - short.size + 1}
    if mode not in lengths:
        raise Unsupported(f"mode {mode!r}")
    nodes = (node_of(long), node_of(short))
    return make(recorder, recorder.note(CONVOLVE, nodes, (mode,), (lengths[mode],), a.dtype))


@notes(np.convolve)
def convolve(recorder: Recorder, a: Any, v: Any, mode: Any = "full") -> Any:
    """Record a convolution of two vectors."""
    return _convolved(recorder, *_vectors(recorder, a, v), mode)


@notes(np.correlate)
def correlate(recorder: Recorder, a: Any, v: Any, mode: Any = "valid") -> Any:
    """Record a correlation: a convolution with the second vector read backwards."""
    one, two = _vectors(recorder, a, v)
    if two.size > one.size and mode != "full":
        raise Unsupported("the second vector is longer")
    if two.dtype.kind == "c":
        two = note_ufunc(recorder, np.conjugate, (two,))
    return _convolved(recorder, one, two[::-1], mode)  # type: ignore[index]


# -- interpolation and polynomials ----------------------------------------------------------------


@notes(np.interp)
def interp(recorder: Recorder, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None,
           period: Any = None) -> Any:  # fmt: skip
    """Record values of a piecewise linear curve."""
    refuse(period=period)
    nodes = [numbers(recorder, one) for one in (x, xp, fp)]
    if any(node.dtype.kind == "c" for node in nodes):
        raise Unsupported("a curve of complex numbers")
    one, *curve = (cast(recorder, node, _FLOAT) for node in nodes)
    if any(len(node.shape) != 1 for node in curve) or curve[0].shape != curve[1].shape:
        raise Unsupported("points of an incompatible shape")
    if not curve[0].shape[0]:
        raise Unsupported("an empty array of points")
    ends = (None if left is None else float(left), None if right is None else float(right))
    made = recorder.note(INTERPOLATE, (one, *curve), ends, one.shape, _FLOAT)
    return make(recorder, made, scalar=one.shape == ())


@notes(np.vander)
def vander(recorder: Recorder, x: Any, N: Any = None, increasing: Any = False) -> Any:
    """Record the powers of a vector as columns."""
    array = taken(recorder, x)
    number = array.size if N is None else int(N)
    if array.ndim != 1 or number < 1:
        raise Unsupported("not a vector, or no columns")
    dtype = np.promote_types(array.dtype, int)
    line = astype(recorder, array, dtype)
    columns = [make(recorder, full_node(recorder, array.shape, 1, dtype))]
    for _ in range(number - 1):
        columns.append(note_ufunc(recorder, np.multiply, (columns[-1], line)))
    return stack(recorder, columns if increasing else columns[::-1], 1)
