"""Queries that need no values: shapes, sizes and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuforge.runtime.array.array import Array, layout, storage_of
from gpuforge.runtime.array.formula import follow_numpy
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.rules import normalise_axes
from gpuforge.runtime.array.table import notes
from gpuforge.runtime.array.unsupported import Unsupported

follow_numpy(np.diag_indices_from, np.tril_indices_from, np.triu_indices_from)


def _known(recorder: Recorder, a: Any) -> Array:
    if type(a) is not Array:
        raise Unsupported(f"an argument is a {type(a).__name__}")
    return a


@notes(np.shape)
def shape(recorder: Recorder, a: Any) -> tuple[int, ...]:
    """Return the shape of an array."""
    return _known(recorder, a).shape


@notes(np.ndim)
def ndim(recorder: Recorder, a: Any) -> int:
    """Return the number of axes."""
    return _known(recorder, a).ndim


@notes(np.size)
def size(recorder: Recorder, a: Any, axis: Any = None) -> int:
    """Return the number of elements, in all or along axes."""
    array = _known(recorder, a)
    total = 1
    for at in normalise_axes(axis, array.ndim):
        total *= array.shape[at]
    return total


def _shared(function: Callable[..., bool]) -> Any:
    """Return a function that tells whether two arrays would share memory in NumPy."""

    def ask(recorder: Recorder, a: Any, b: Any, /, max_work: Any = None) -> bool:
        whole = [storage_of(one) if type(one) is Array else None for one in (a, b)]
        if whole[0] is not whole[1] and any(one and one.source is None for one in whole):
            return False  # it has memory of its own
        return function(*(layout(one) if type(one) is Array else one for one in (a, b)), max_work)

    return ask


for _function in (np.shares_memory, np.may_share_memory):
    notes(_function)(_shared(_function))


@notes(np.iscomplexobj)
def iscomplexobj(recorder: Recorder, x: Any) -> bool:
    """Return whether the dtype is complex."""
    return bool(_known(recorder, x).dtype.kind == "c")


@notes(np.isrealobj)
def isrealobj(recorder: Recorder, x: Any) -> bool:
    """Return whether the dtype is not complex."""
    return bool(_known(recorder, x).dtype.kind != "c")


def _by_dtypes(function: Callable[..., Any]) -> Any:
    """Return a function that calls a NumPy function with dtypes instead of arrays."""

    def ask(recorder: Recorder, *given: Any) -> Any:
        return function(*(one.dtype if type(one) is Array else one for one in given))

    return ask


notes(np.result_type)(_by_dtypes(np.result_type))


@notes(np.can_cast)
def can_cast(recorder: Recorder, from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Return whether values of one dtype may become another."""
    return np.can_cast(_known(recorder, from_).dtype, to, casting)


@notes(np.common_type)
def common_type(recorder: Recorder, *arrays: Any) -> Any:
    """Return the common inexact dtype of arrays."""
    return np.common_type(
        *(np.empty(0, one.dtype) if type(one) is Array else one for one in arrays)
    )


@notes(np.min_scalar_type)
def min_scalar_type(recorder: Recorder, a: Any) -> Any:
    """Return the smallest dtype that holds a scalar, or the dtype of an array."""
    array = _known(recorder, a)
    if not array.shape:
        raise Unsupported("the dtype depends on the value")
    return array.dtype
