"""Rounding and the methods of universal functions, on recorded arrays, are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.runtime.recording import compare

Body = Callable[[Any], Any]
VALUES = np.array([[0.125, 2.5, -3.5, 1234.5678], [-0.0, 17.0, np.nan, np.inf], [1, -np.inf, 0, 9]])


def added(index: Any, value: Any, ufunc: Any = np.add) -> Body:
    def body(x: Any) -> Any:
        ufunc.at(x, index, value)
        return x

    return body


ROUNDED: list[Body] = [
    lambda x: np.round(x),
    lambda x: np.round(x, 2),
    lambda x: x.round(decimals=-2),
    lambda x: np.around(x, 1, x.copy()),
    lambda x: x.sum().round(3),
    lambda x: np.fix(x),
    lambda x: np.divmod(x, 0.75),
    lambda x: divmod(x, 2.0),
    lambda x: np.modf(x),
]
METHODS: list[Body] = [
    lambda x: np.multiply.outer(x[0], x),
    lambda x: np.subtract.outer(x[:, 0], [1, 2]),
    lambda x: np.less.outer(x[0], 2.0),
    lambda x: np.logical_and.reduce(x > 0),
    lambda x: np.logical_or.reduce(x > 0, axis=1),
    added([0, 2, 0], 1),
    added([0, 2, 0], np.array([[1.0], [2.0], [3.0]]).astype("f4")),
    added(([0, 0, 1], [1, 1, -1]), 5),
    added((slice(None), [1, 1]), 5),
    added(1, 5),
    added([0, 2, 0], 1, np.subtract),
]


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("body", ROUNDED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rounded(body: Body, dtype: str) -> None:
    compare(body, VALUES.astype(dtype))


@pytest.mark.parametrize("decimals", [0, 2])
def test_whole_numbers_stay(decimals: int) -> None:
    compare(lambda x: np.round(x, decimals), np.arange(12).reshape(3, 4))


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("body", METHODS)
def test_methods_of_universal_functions(body: Body, dtype: str) -> None:
    compare(body, np.arange(12).reshape(3, 4).astype(dtype))


def test_places_of_another_recorded_array() -> None:
    def body(x: Any, places: Any) -> Any:
        np.add.at(x, places * 2, x[:3].copy())
        return x

    compare(body, np.arange(5.0), np.array([0, 1, 0]))
    compare(body, np.arange(5.0), np.array([0, 9, 0]))


@pytest.mark.parametrize("body", [added([0], 1.5), added([9], 1), added(0, "a")])
def test_what_numpy_refuses(body: Body) -> None:
    compare(body, np.arange(5), noted=False)
