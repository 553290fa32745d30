"""Sorting, quantiles and choices on recorded arrays: NumPy's results, types and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from tests.runtime.conftest import OTHERS
from tests.runtime.recording import check, form, recorded

INF, NAN = np.inf, np.nan
Case = Callable[..., Any]
RANDOM = np.random.default_rng(3)
REAL = RANDOM.normal(size=(4, 5))
ARRAYS = [
    REAL, REAL.astype("f4"), REAL.astype("f2"), (9 * REAL).astype(int), (90 * REAL).astype("i1"),
    abs(9 * REAL).astype("u1"), RANDOM.normal(size=(3, 2, 4)),
    np.array([[1, NAN, INF], [INF, 0, 2]]),
    np.array([[NAN, NAN], [NAN, 1.0]]), np.array([[-INF, INF, 3.0, 3.0]]), REAL + 1j * REAL[::-1],
    REAL > 0,
]  # fmt: skip

SORTS: list[Case] = [
    lambda x: np.sort(x),
    lambda x: np.sort(x, axis=0, kind="stable"),
    lambda x: np.sort(x, axis=None),
    lambda x: x.sort(),
    lambda x: x.T.sort(axis=0),
    lambda x: x[1:].sort(stable=True),
    lambda x: np.argsort(x, kind="stable"),
    lambda x: x.argsort(axis=0, stable=True),
    lambda x: np.argsort(x, None, "stable"),
    lambda x: np.take_along_axis(x, np.argsort(x, axis=0, stable=True), axis=0),
    lambda x: np.lexsort((x.ravel(), x.ravel() > 0)),
    lambda x: np.lexsort([np.arange(x.size), x.ravel() > 0, x.ravel()[::-1]], axis=0),
    lambda x: np.lexsort(x.reshape(2, -1)),
    lambda x: np.lexsort((x.ravel(),), axis=1),
    lambda x: np.searchsorted(np.sort(x, None), x),
    lambda x: np.sort(x[0]).searchsorted(1, "right"),
    lambda x: np.searchsorted([1, 2, 3], x, side="right"),
    lambda x: np.searchsorted(np.sort(x[0]), [[0.5, 1]]),
    lambda x: np.digitize(x, [-1, 0, 1]),
    lambda x: np.digitize(x, np.array([1, 0.5, -1]), right=True),
    lambda x: np.digitize(x, [1, 5, 2]),
    lambda x: np.sort(x, axis=4),
    lambda x: np.sort(x, kind="odd"),
    lambda x: np.searchsorted(x, 1),
    lambda x: np.unique(x),
    lambda x: np.nonzero(x > 0),
    lambda x: (x > 1).nonzero()[0],
    lambda x: np.argwhere(x),
    lambda x: np.flatnonzero(x > 0),
    lambda x: np.bincount(x[0]),
    lambda x: np.bincount((x[0] > 0).astype("i4"), minlength=4),
    lambda x: np.bincount([1, 0, 3], x[:3, 0].real) if len(x) > 2 else np.sort(x),
]
QUANTILES: list[Case] = [
    lambda x: np.median(x),
    lambda x: np.median(x, axis=0),
    lambda x: np.median(x, axis=-1, keepdims=True),
    lambda x: np.median(x, axis=(0, 1)),
    lambda x: np.percentile(x, 50),
    lambda x: np.percentile(x, 30.5, axis=0),
    lambda x: np.percentile(x, [25, 50, 75], axis=-1),
    lambda x: np.percentile(x, (0, 100)),
    lambda x: np.quantile(x, 0.9, axis=1, keepdims=True),
    lambda x: np.quantile(x, 1),
    lambda x: np.quantile(x, [0, 1], axis=0),
    lambda x: np.quantile(x, np.array([[0.1, 0.9], [0.5, 0.2]]), keepdims=True),
    lambda x: np.quantile(x, np.float32(0.3)),
    lambda x: np.quantile(x, np.float64(0.3), axis=0),
    lambda x: np.quantile(x, 1.5),
    lambda x: np.percentile(x, [-1, 5]),
    lambda x: np.percentile(x, 99, axis=9),
    lambda x: np.quantile(x, 0.5, axis=(0, 1)),
]
OF_MEDIANS = 4
"""The first cases."""
CHOICES: list[Case] = [
    lambda x: np.take(x, 3),
    lambda x: x.take([0, -1, 2]),
    lambda x: np.take(x, [[0, 1], [1, 0]], axis=1),
    lambda x: np.take(x, 1, axis=0),
    lambda x: np.take(x[0], -1),
    lambda x: np.take(x, x[0].argsort(stable=True), axis=-1),
    lambda x: np.take(x, 99),
    lambda x: np.take(x, [0, 99], axis=1),
    lambda x: np.take_along_axis(x, np.zeros((*x.shape[:-1], 2), int), -1),
    lambda x: np.take_along_axis(x, np.expand_dims(x.argmax(0), 0), 0),
    lambda x: np.take_along_axis(x, np.array([0, 2, -1]), None),
    lambda x: np.take_along_axis(x, np.full(x.shape, 77), 0),
    lambda x: np.compress(x[:, 0].ravel()[: len(x)] > 0, x, axis=0),
    lambda x: x.compress(x.ravel() > 0),
    lambda x: np.extract(x > 0, x),
    lambda x: np.compress(x[0].ravel()[: x.shape[-1]], x, axis=-1),
]


@pytest.mark.parametrize("case", range(len(SORTS)))
@pytest.mark.parametrize("x", ARRAYS, ids=form)
def test_sorts(case: int, x: Any) -> None:
    check(SORTS[case], x)


@pytest.mark.parametrize("case", range(len(QUANTILES)))
@pytest.mark.parametrize("x", ARRAYS, ids=form)
def test_quantiles(case: int, x: Any) -> None:
    if case >= OF_MEDIANS and np.lib.NumpyVersion(np.__version__) < "2.4.0":
        pytest.skip("NumPy before 2.4 interpolates in other dtypes: such quantiles are left to it")
    check(QUANTILES[case], x)


@pytest.mark.parametrize("case", range(len(CHOICES)))
@pytest.mark.parametrize("x", ARRAYS, ids=form)
def test_choices(case: int, x: Any) -> None:
    check(CHOICES[case], x)


@pytest.mark.parametrize("kind", [None, "quicksort", "heapsort", "stable"])
def test_equal_values_are_in_the_order_of_numpys_sort(kind: Any) -> None:
    ties = np.tile(np.arange(3.0), 100)
    places, recorder = recorded(lambda x: np.argsort(x, kind=kind), ties)
    assert not recorder.fallbacks
    np.testing.assert_array_equal(places, np.argsort(ties, kind=kind))


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("values", [[0.0, 1.0, 0.0], [np.nan, 2.0, np.nan], [3.0, 2.0, 1.0], []])
def test_which_of_equal_values_comes_first_is_left_to_numpy(name: str, values: list[float]) -> None:
    pytest.importorskip(name)
    x = np.array(values * 100 if len(set(values)) < 3 else values)
    placed = gf.offload(lambda x: np.argsort(x), backend=name)
    np.testing.assert_array_equal(placed(x), np.argsort(x))
    ties = bool(values) and len(x) > 3
    assert (f"{name}:cpu" in placed.stats().counts) == (not ties)
