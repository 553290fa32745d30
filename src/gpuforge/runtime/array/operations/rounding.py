"""Rounding: to decimals, to integers, and into integer and fractional parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import make, node_of
from gpuforge.runtime.array.dispatch import into, operand, refuse
from gpuforge.runtime.array.elementwise import note_ufunc
from gpuforge.runtime.array.operations.creation import where
from gpuforge.runtime.array.operations.view import taken
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.table import notes
from gpuforge.runtime.array.unsupported import Unsupported

_NUMBERS = np.arange(2)
_ROUNDS_TO_ITSELF = np.round(_NUMBERS) is _NUMBERS
"""Whether rounded integers are the same array, as in older releases of NumPy (2.1)."""


@notes(np.round, np.around, method="round")
def round_(recorder: Recorder, a: Any, decimals: Any = 0, out: Any = None) -> Any:
    """Record values rounded to decimals, halves to even: scaled, rounded and scaled back."""
    array, digits = taken(recorder, a), int(decimals.__index__())
    if array.dtype.kind not in "fiu" or (array.dtype.kind != "f" and digits < 0):
        raise Unsupported(f"{array.dtype} rounded to {digits} decimals")
    if array.dtype.kind != "f":
        if out is None and _ROUNDS_TO_ITSELF:
            return array
        made = make(recorder, node_of(array), scalar=array.shape == ())
    elif not digits:
        made = note_ufunc(recorder, np.rint, (array,))
    else:
        scale = np.float64(10.0 ** abs(digits)).astype(array.dtype)
        there, back = (np.multiply, np.true_divide)[:: 1 if digits > 0 else -1]
        scaled = note_ufunc(recorder, there, (array, scale))
        made = note_ufunc(recorder, back, (note_ufunc(recorder, np.rint, (scaled,)), scale))
    return into(out, made)


@notes(np.fix)
def fix(recorder: Recorder, x: Any, out: Any = None) -> Any:
    """Record values rounded towards zero."""
    return into(out, note_ufunc(recorder, np.trunc, (taken(recorder, x),)))


@notes(np.divmod)
def divmod_(recorder: Recorder, x1: Any, x2: Any, /, **options: Any) -> Any:
    """Record quotient and remainder."""
    refuse(**options)
    given = (x1, x2)
    return (note_ufunc(recorder, np.floor_divide, given), note_ufunc(recorder, np.remainder, given))


@notes(np.modf)
def modf(recorder: Recorder, x: Any, /, **options: Any) -> Any:
    """Record fractional and whole parts; an infinity is all whole."""
    refuse(**options)
    array = taken(recorder, x)
    if operand(recorder, x).dtype.kind != "f":
        raise Unsupported(f"parts of {array.dtype}")
    whole = note_ufunc(recorder, np.trunc, (array,))
    endless = note_ufunc(recorder, np.isinf, (array,))
    finite = where(recorder, endless, 0.0, array)
    left = note_ufunc(recorder, np.subtract, (finite, note_ufunc(recorder, np.trunc, (finite,))))
    fraction = note_ufunc(recorder, np.copysign, (left, array))
    return fraction, whole
