"""Values placed and counted, and curves, on each library: NumPy's, or NumPy settles them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs
from tests.runtime.recording import compare

Body = Callable[..., Any]


@pytest.fixture
def engine(other: str) -> BackendEngine:
    """Return what evaluates on the first device of a library, each in turn."""
    device = import_module(f"gpuforge.runtime.backends.{other}").open_devices()[0]
    return BackendEngine(device, NumpyBackend(), Programs())


def added(index: Any, value: Any, ufunc: Any = np.add) -> Body:
    def body(x: Any) -> Any:
        ufunc.at(x, index, value)
        return x + 1

    return body


def added_at_places(x: Any, places: Any) -> Any:
    np.add.at(x, places * 1, x[: len(places)] * 2)
    return x


def written_at_places(x: Any, places: Any) -> Any:
    x[places * 1] = x[: len(places)] * 2
    return x


def written_where(x: Any, values: Any) -> Any:
    x[x > 3] = values * 2
    return x * 2


X = np.array([[4.0, 1.5, 0.5, 3.5], [9.0, 2.5, 7.0, 6.0], [5.0, 8.0, 3.0, 2.0]])
LINE = X.ravel()
RUN: list[tuple[Body, tuple[Any, ...]]] = [
    (added([0, 2, 0], 1.5), (X,)),
    (added([0, 2, -1], X), (X,)),
    (added(([0, 0, 1], [1, 1, -1]), 5), (X,)),
    (added((slice(None), [1, 1]), 5.0), (X,)),
    (added((1, [1, 1]), 5.0), (X,)),
    (added([0, 2, 0], 1, np.subtract), (X,)),
    (added_at_places, (X, np.array([0, 1, 0]))),
    (added_at_places, (X, np.array([-1, 1]))),
    (written_at_places, (X, np.array([2, 0]))),
    (written_at_places, (X, np.array([2, 0, -2]))),
    (written_where, (X, np.arange(7.0))),
    (lambda x, y: x.__setitem__(x[:, 0] > 4, y * 1) or x, (X, X[:2])),
    (lambda x: x.__setitem__(x > 99, np.zeros(0)) or x, (X,)),
    (lambda x: np.histogram(x), (X,)),
    (lambda x: np.histogram(x, 5, (1, 8))[0], (X,)),
    (lambda x: np.histogram(x, [0.5, 1.5, 1.5, 3, 9])[0], (np.append(X, [np.nan, 99, -1]),)),
    (lambda x: np.histogram(x, 7, density=True), (X,)),
    (lambda x: np.interp(x, [1.0, 2.0, 2.0, 6.0], [5.0, 1.0, 3.0, 9.0]), (X,)),
    (lambda x, y: np.interp(x, y, y * y, left=-1, right=-2), (X, np.array([1.0, 2, np.inf]))),
    (lambda x: np.interp(x, [3.0], [7.0], right=2), (np.append(X, np.nan),)),
    (lambda x, y: np.interp(x, y, y), (np.array([np.nan, np.inf, -np.inf, 0]), np.arange(4.0))),
    *[
        (lambda a, v, mode=mode: np.convolve(a, v, mode), (LINE, LINE[:length]))
        for mode in ("full", "same", "valid")
        for length in (1, 2, 5, 12)
    ],
    (lambda a, v: np.correlate(a, v, "same"), (LINE, LINE[:4] + 1j)),
]
SETTLED: list[tuple[Body, tuple[Any, ...]]] = [
    (added_at_places, (X, np.array([0, 9]))),
    (written_at_places, (X, np.array([2, 2]))),
    (written_at_places, (X, np.array([2, 9]))),
    (written_where, (X, np.arange(3.0))),
    (np.convolve, (np.array([1.0, np.nan, 2.0]), np.array([1.0, 2.0]))),
    (lambda x, y: np.interp(x, y, y) * 2, (X, np.array([3.0, 1.0, 2.0]))),
]


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize(("body", "given"), RUN)
def test_run_on_the_library(body: Body, given: Any, dtype: str, engine: BackendEngine) -> None:
    exact = [x if x.dtype.kind != "f" else x.astype(dtype) for x in given]
    compare(body, *exact, engine=engine)
    assert engine.outcome.programs
    assert not engine.outcome.settled and not engine.outcome.refused


@pytest.mark.parametrize(("body", "given"), SETTLED)
def test_settled_by_numpy(body: Body, given: Any, engine: BackendEngine) -> None:
    compare(body, *given, engine=engine, noted=None)
    assert engine.outcome.settled and not engine.outcome.refused
