"""Recording a function's arrays and evaluating what was noted with NumPy, for tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpuforge.runtime.array.operations  # noqa: F401 (fills the table)
from gpuforge.runtime.array.array import Array, argument, value_of
from gpuforge.runtime.array.graph import INPUT, NUMBER, Dtype, Operation, Tape
from gpuforge.runtime.array.recorder import Able, Recorder

DYNAMIC = {"select", "lstsq", "bincount", "nonzero", "unique"}
"""Rows whose shape is known once they are evaluated."""


class Reference:
    """NumPy as an engine; it checks that each value is of the shape and dtype that was noted."""

    def __init__(self) -> None:
        self.able = Able()
        self.dtypes = frozenset("?bBhHiIlLqQefdgFDG")
        self.tape_limit, self.repeats = 128, False

    def supports(self, operation: Operation, dtype: Dtype) -> str:
        return ""

    def get(self, value: Any) -> Any:
        return np.asarray(value)

    def run(self, tape: Tape, wanted: list[int], modes: dict[str, str]) -> list[Any]:
        values: list[Any] = []
        given = iter(tape.inputs)
        for place, (operation, places, params) in enumerate(tape.entries):
            if operation in (INPUT, NUMBER):
                values.append(next(given))
                continue
            with np.errstate(**modes):  # type: ignore[call-overload]
                made = operation.compute(*[values[p] for p in places], *params)
            values.append(made if type(made) is tuple else np.asarray(made))
            node = tape.nodes[place]
            names = {operation.name, *(tape.entries[p][0].name for p in places)}
            if type(made) is not tuple and not names & DYNAMIC:
                assert node is not None
                assert (values[-1].shape, values[-1].dtype) == (node.shape, node.dtype), operation
        return [values[place] for place in wanted]


def recorded(function: Callable[..., Any], *arrays: Any, engine: Any = None) -> tuple[Any, Any]:
    """Return what a function makes of recorded arrays, on the host, and the recorder."""
    recorder = Recorder(engine or Reference())
    return _played(recorder, function, arrays), recorder


def _played(recorder: Recorder, function: Callable[..., Any], arrays: tuple[Any, ...]) -> Any:
    given = [argument(recorder, x) if isinstance(x, np.ndarray) else x for x in arrays]
    result = _on_host(function(*given))
    for wrapped, array in zip(given, arrays, strict=True):
        if type(wrapped) is Array and wrapped._storage.version:  # type: ignore[union-attr]
            array[...] = recorder.host(wrapped._storage.node)  # type: ignore[union-attr]
    return result


def _on_host(value: Any) -> Any:
    if type(value) is Array:
        return value_of(value)
    if type(value) is list or type(value) is tuple:
        return type(value)(map(_on_host, value))
    if isinstance(value, tuple):
        return type(value)(*map(_on_host, value))
    return value


def same(one: Any, other: Any, tolerance: float = 1e-13) -> None:
    """Assert that two results are of one type, dtype, shape and value."""
    assert type(one) is type(other)
    if isinstance(one, tuple | list):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            same(left, right, tolerance)
        return
    if not isinstance(one, np.ndarray | np.generic):
        assert one == other
        return
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    narrow = one.dtype.kind in "fc" and np.finfo(one.dtype).bits < 64
    limit = 0 if one.dtype.kind in "biu" else 5e-6 if narrow else tolerance
    np.testing.assert_allclose(other, one, rtol=limit, atol=limit, equal_nan=True)


def check(function: Callable[..., Any], *arrays: Any, engine: Any = None) -> None:
    """Assert that a function makes of recorded arrays what it makes of NumPy's, all of it noted."""
    mine = [x.copy() if isinstance(x, np.ndarray) else x for x in arrays]
    theirs = [x.copy() if isinstance(x, np.ndarray) else x for x in arrays]
    error: Exception | None = None
    with np.errstate(all="ignore"):
        try:
            wanted = function(*theirs)
        except Exception as raised:
            error = raised
        if error is not None:
            with pytest.raises(type(error)) as found:
                recorded(function, *mine, engine=engine)
            assert str(found.value) == str(error)
            return
        got, recorder = recorded(function, *mine, engine=engine)
    assert not recorder.fallbacks
    assert recorder.evaluated
    same(wanted, got)
    for left, right in zip(theirs, mine, strict=True):
        same(left, right)


def form(x: Any) -> str:
    """Return the dtype and shape of an array, by which pytest names a case."""
    return f"{x.dtype}{x.shape}".replace(" ", "") if isinstance(x, np.ndarray) else ""


def outcome(call: Callable[[], Any]) -> Any:
    """Return a result, or the exception instead of it; NumPy's warnings are left out."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except Exception as error:
        return error


def compare(
    function: Callable[..., Any], *arrays: Any, noted: bool | None = True, engine: Any = None
) -> None:
    """Assert that a function does the same with recorded arrays, what it raises included.

    `noted` says whether nothing, or something, is to be left to NumPy; None does not ask.
    """
    mine = [x.copy() if isinstance(x, np.ndarray) else x for x in arrays]
    theirs = [x.copy() if isinstance(x, np.ndarray) else x for x in arrays]
    wanted = outcome(lambda: function(*theirs))
    with np.errstate(all="ignore"):
        recorder = Recorder(engine or Reference())
        try:
            found = _played(recorder, function, tuple(mine))
        except Exception as error:
            found = error
    if isinstance(wanted, Exception):
        assert (type(found), str(found)) == (type(wanted), str(wanted))
    else:
        assert not isinstance(found, Exception), found
        same(wanted, found)
    same(theirs, mine)
    if noted is not None:
        assert bool(recorder.fallbacks) is not noted, recorder.fallbacks
