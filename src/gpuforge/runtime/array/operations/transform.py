"""Discrete Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of, ordered
from gpuforge.runtime.array.dispatch import refuse
from gpuforge.runtime.array.elementwise import note_ufunc
from gpuforge.runtime.array.graph import Dtype, Node, Operation
from gpuforge.runtime.array.index import parse_basic
from gpuforge.runtime.array.operations.view import joined, taken
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.rules import normalise_axis
from gpuforge.runtime.array.table import notes, row
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import cast, take

FFTN = row("fftn", np.fft.fftn, "transform")
"""array, lengths, axes, norm; likewise the others, the halved axis last"""
IFFTN = row("ifftn", np.fft.ifftn, "transform")
RFFTN = row("rfftn", np.fft.rfftn, "transform")
IRFFTN = row("irfftn", np.fft.irfftn, "transform")

_SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _inexact(recorder: Recorder, x: Any) -> Node:
    """Return an operand in the dtype of NumPy's transform."""
    node = node_of(taken(recorder, x))
    if node.dtype.kind in "biu":
        return cast(recorder, node, np.dtype(float))
    if node.dtype.char not in "fdFD":
        raise Unsupported(f"a transform of {node.dtype}")
    return node


def _complex(dtype: Dtype) -> Dtype:
    return np.result_type(dtype, np.complex64)


def _lengths(node: Node, s: Any, axes: Any, operation: Operation) -> tuple[Any, Any]:
    """Return the lengths and axes of the transform, with defaults filled in."""
    ndim = len(node.shape)
    if axes is None:
        if s is not None:
            raise Unsupported("lengths without axes")
        axes = range(ndim)
    places = tuple(normalise_axis(axis, ndim) for axis in axes)
    if len(set(places)) < len(places) or not places or 0 in node.shape:
        raise Unsupported("repeated, missing or empty axes")
    if s is None:
        found = [node.shape[place] for place in places]
        if operation is IRFFTN:
            found[-1] = (found[-1] - 1) * 2
    else:
        found = [
            node.shape[place] if type(length) is int and length == -1 else length
            for length, place in zip(s, places, strict=False)
        ]
        if len(tuple(s)) != len(places):
            raise Unsupported("lengths that do not match the axes")
    if any(not isinstance(length, int | np.integer) or length < 1 for length in found):
        raise Unsupported("a length below one")
    return tuple(map(int, found)), places


def _transformed(
    recorder: Recorder, operation: Operation, x: Any, s: Any, axes: Any, norm: Any, out: Any
) -> Array:
    refuse(out=out)
    if norm not in _SWAPPED:
        raise Unsupported(f"norm={norm!r}")
    node = _inexact(recorder, x)
    if operation is RFFTN and node.dtype.kind == "c":
        raise Unsupported("complex numbers lose their imaginary part, for which NumPy warns")
    if operation is IRFFTN:
        node = cast(recorder, node, _complex(node.dtype))
    lengths, places = _lengths(node, s, axes, operation)
    shape = list(node.shape)
    for length, place in zip(lengths, places, strict=True):
        shape[place] = length
    made = _complex(node.dtype)
    if operation is RFFTN:
        shape[places[-1]] = lengths[-1] // 2 + 1
    elif operation is IRFFTN:
        made = np.empty(0, made).real.dtype
    params = (lengths, places, norm or "backward")
    found = recorder.note(operation, (node,), params, tuple(shape), made)
    return ordered(make(recorder, found), (x,))


def _over_one(operation: Operation) -> Any:
    def transform(recorder: Recorder, a: Any, n: Any = None, axis: Any = -1, norm: Any = None,
                  out: Any = None) -> Array:  # fmt: skip
        lengths = None if n is None else (n,)
        if n is not None and (not isinstance(n, int) or n < 1):
            raise Unsupported("a length below one")
        return _transformed(recorder, operation, a, lengths, (axis,), norm, out)

    return transform


def _over_several(operation: Operation, default: Any) -> Any:
    def transform(recorder: Recorder, a: Any, s: Any = None, axes: Any = default,
                  norm: Any = None, out: Any = None) -> Array:  # fmt: skip
        return _transformed(recorder, operation, a, s, axes, norm, out)

    return transform


for _operation in (FFTN, IFFTN, RFFTN, IRFFTN):
    _name = _operation.name[:-1]
    notes(getattr(np.fft, _name))(_over_one(_operation))
    notes(getattr(np.fft, _name + "2"))(_over_several(_operation, (-2, -1)))
    notes(getattr(np.fft, _name + "n"))(_over_several(_operation, None))


@notes(np.fft.hfft)
def hfft(recorder: Recorder, a: Any, n: Any = None, axis: Any = -1, norm: Any = None,
         out: Any = None) -> Any:  # fmt: skip
    """Record the transform of a signal with Hermitian symmetry."""
    if norm not in _SWAPPED:
        raise Unsupported(f"norm={norm!r}")
    turned = note_ufunc(recorder, np.conjugate, (taken(recorder, a),))
    return _over_one(IRFFTN)(recorder, turned, n, axis, _SWAPPED[norm], out)


@notes(np.fft.ihfft)
def ihfft(recorder: Recorder, a: Any, n: Any = None, axis: Any = -1, norm: Any = None,
          out: Any = None) -> Any:  # fmt: skip
    """Record the inverse of `hfft`."""
    if norm not in _SWAPPED:
        raise Unsupported(f"norm={norm!r}")
    made = _over_one(RFFTN)(recorder, a, n, axis, _SWAPPED[norm], out)
    return note_ufunc(recorder, np.conjugate, (made,))


def _shift(sign: int) -> Any:
    def shift(recorder: Recorder, x: Any, axes: Any = None) -> Array:
        node = node_of(taken(recorder, x))
        ndim = len(node.shape)
        given = range(ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
        for axis in [normalise_axis(one, ndim) for one in given]:
            node = _rolled(recorder, node, sign * (node.shape[axis] // 2), axis)
        return make(recorder, node)

    return shift


def _rolled(recorder: Recorder, node: Node, places: int, axis: int) -> Node:
    """Return a node with the values along an axis rolled by `places`."""
    length = node.shape[axis]
    if not length or places % length == 0:
        return node
    cut = length - places % length
    before = [slice(None)] * axis
    after = [slice(None)] * (len(node.shape) - axis - 1)
    parts = [
        take(recorder, node, parse_basic([*before, part, *after], node.shape))
        for part in (slice(cut, None), slice(cut))
    ]
    return joined(recorder, parts, axis)


notes(np.fft.fftshift)(_shift(1))
notes(np.fft.ifftshift)(_shift(-1))
