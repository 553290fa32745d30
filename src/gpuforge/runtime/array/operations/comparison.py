"""Comparisons of whole arrays and of sets of values, and choices by several conditions."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, make, node_of
from gpuforge.runtime.array.dispatch import operand
from gpuforge.runtime.array.elementwise import note_ufunc
from gpuforge.runtime.array.formula import follow_numpy
from gpuforge.runtime.array.operations.creation import where
from gpuforge.runtime.array.operations.view import taken
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.rules import broadcast
from gpuforge.runtime.array.table import notes
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import broadcast_to, cast

follow_numpy(
    np.isclose, np.allclose, np.select, np.isin, np.intersect1d, np.union1d, np.setdiff1d,
    np.setxor1d, np.real, np.imag, np.iscomplex, np.isreal, np.real_if_close,
)  # fmt: skip


def _alike(recorder: Recorder, a1: Any, a2: Any) -> bool:
    made: Any = note_ufunc(recorder, np.equal, (a1, a2))
    return bool(made.all())


@notes(np.array_equal)
def array_equal(recorder: Recorder, a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Return whether two arrays have one shape and the same values."""
    if _shape(recorder, a1) != _shape(recorder, a2):
        return False
    if not equal_nan:
        return _alike(recorder, a1, a2)
    both = (note_ufunc(recorder, np.not_equal, (one, one)) for one in (a1, a2))
    nowhere = note_ufunc(recorder, np.logical_and, tuple(both))
    same = note_ufunc(recorder, np.equal, (a1, a2))
    return bool(note_ufunc(recorder, np.logical_or, (same, nowhere)).all())  # type: ignore[attr-defined]


@notes(np.array_equiv)
def array_equiv(recorder: Recorder, a1: Any, a2: Any) -> bool:
    """Return whether two arrays, one broadcast to the other, have the same values."""
    broadcast(_shape(recorder, a1), _shape(recorder, a2))
    return _alike(recorder, a1, a2)


def _shape(recorder: Recorder, a: Any) -> tuple[int, ...]:
    if type(a) is Array:
        return a.shape
    return np.shape(a) if isinstance(a, list | tuple) else operand(recorder, a).shape


@notes(np.choose, method="choose")
def choose(recorder: Recorder, a: Any, choices: Any, out: Any = None, mode: Any = "raise") -> Any:
    """Record a choice among several arrays by index."""
    number: Any = taken(recorder, a)
    if mode != "raise" or out is not None or not isinstance(choices, list | tuple) or not choices:
        raise Unsupported("unsupported options")
    if number.dtype.kind not in "iu" or bool(((number < 0) | (number >= len(choices))).any()):
        raise Unsupported("a value out of range")
    arrays = [operand(recorder, one) for one in choices]
    common = np.result_type(*(one.dtype for one in arrays))
    shape = broadcast(number.shape, *(one.shape for one in arrays))
    made, *others = (make(recorder, cast(recorder, one, common)) for one in arrays)
    for place, other in enumerate(others, 1):
        made = where(recorder, number == place, other, made)
    return make(recorder, broadcast_to(recorder, node_of(made), shape))
