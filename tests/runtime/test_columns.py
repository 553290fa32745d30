"""Arrays with a short last axis, column by column: NumPy's bits, and NumPy where that differs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuforge as gf
from gpuforge.runtime.backends import blocks
from gpuforge.runtime.evaluation import blocked, columns
from gpuforge.runtime.evaluation.columns import LEAST_ROWS, MOST_COLUMNS, ByColumns

from .test_blocks import bits

pytestmark = pytest.mark.skipif(blocks.allowed_cores() < 2, reason="it needs two cores")
ROWS = 300
OPERATORS = (np.add, np.subtract, np.multiply, np.divide, np.less, np.greater_equal, np.not_equal)
DTYPES = ("f4", "f8", "i4", "u1", "f2", "c16")


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of the operations that were found to be faster by columns."""
    found: list[str] = []
    real = blocked.by_columns

    def noted(entry: Any, *rest: Any) -> Any:
        made = real(entry, *rest)
        if isinstance(made, ByColumns):
            found.append(entry[0].name)
        return made

    monkeypatch.setattr(blocked, "by_columns", noted)
    return found


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Return numbers of many sizes, some of them zeros of both signs, infinite or NaN."""
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        x = np.asarray(rng.normal(size=shape) * 10.0 ** rng.integers(-3, 9, shape))
        x.reshape(-1)[rng.integers(0, x.size, x.size // 8)] = 0.0
        x.reshape(-1)[rng.integers(0, x.size, x.size // 8)] = -0.0
        if dtype[0] in "fc" and seed % 3 == 0:
            x.reshape(-1)[rng.integers(0, x.size, 3)] = [np.nan, np.inf, -np.inf]
        return np.nan_to_num(x).astype(dtype) if dtype[0] in "iu" else x.astype(dtype)


def check(function: Callable[..., Any], *given: Any) -> None:
    with gf.session(history=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        placed = gf.offload(backend="blocks")(function)
        expected = bits(function(*given))
        for _ in range(3):
            assert bits(placed(*given)) == expected


@given(
    width=st.integers(2, MOST_COLUMNS + 2), seed=st.integers(0, 99), dtype=st.sampled_from(DTYPES),
    other=st.sampled_from(DTYPES), deep=st.booleans(), operator=st.sampled_from(OPERATORS),
    form=st.sampled_from(["row", "column", "outer", "turned", "cut"]),
)  # fmt: skip
def test_operators_have_numpys_bits(
    width: int, seed: int, dtype: str, other: str, deep: bool, operator: Any, form: str
) -> None:
    shape = (2, ROWS, width) if deep else (ROWS, width)
    x = numbers(shape, dtype, seed)
    y = numbers((width,) if form == "row" else (*shape[:-1], 1), other, seed + 1)
    if form == "outer":
        x = x[..., :1, :]
    if form == "turned":
        x = np.asfortranarray(x)
    if form == "cut":
        x = numbers((*shape[:-1], width + 1), dtype, seed)[..., 1:]
    check(lambda x, y: operator(operator(x, y), x[..., :1]), x, y)
    check(lambda x, y: operator(y, x), x, y)


@given(
    width=st.integers(2, MOST_COLUMNS + 2), seed=st.integers(0, 99), dtype=st.sampled_from(DTYPES),
    deep=st.booleans(), keepdims=st.booleans(), turned=st.booleans(),
    name=st.sampled_from(["sum", "prod", "any", "all", "mean", "std"]),
)  # fmt: skip
def test_reductions_have_numpys_bits(
    width: int, seed: int, dtype: str, deep: bool, keepdims: bool, turned: bool, name: str
) -> None:
    x = numbers((2, ROWS, width) if deep else (ROWS, width), dtype, seed)
    x = np.asfortranarray(x) if turned else x
    reduction = getattr(np, name)
    if (name, dtype) == ("std", "f2"):  # its last digits differ on whole arrays, too
        return
    check(lambda x: reduction(x + x, axis=-1, keepdims=keepdims), x)
    check(lambda x: reduction(x, axis=x.ndim - 1) * 2, x)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "?"])
def test_extremes_are_numpys_but_for_the_sign_of_zeros(dtype: str) -> None:
    x = numbers((ROWS, 3), dtype, 3)
    with gf.session(history=False):
        for function in (lambda x: np.max(x, axis=1), lambda x: x.min(axis=1, keepdims=True)):
            np.testing.assert_array_equal(gf.offload(backend="blocks")(function)(x), function(x))


@given(
    dtype=st.sampled_from(DTYPES), keepdims=st.booleans(), turned=st.booleans(),
    seed=st.integers(0, 99), name=st.sampled_from(["sum", "prod", "any", "all"]),
)  # fmt: skip
def test_reductions_of_the_first_axis_have_numpys_bits(
    dtype: str, keepdims: bool, turned: bool, seed: int, name: str
) -> None:
    x = numbers((ROWS, 3), dtype, seed)
    x = np.asfortranarray(x) if turned else x
    check(lambda x: getattr(np, name)(x + x, axis=0, keepdims=keepdims), x)


def test_the_corners_of_a_cloud_are_found_by_columns(taken: list[str], quiet_session: Any) -> None:
    x = numbers((ROWS, 3), "f8", 3)
    corners = gf.offload(backend="blocks")(lambda x: (x.min(axis=0), np.max(x, axis=0)))
    for one, other in zip(corners(x), (x.min(axis=0), x.max(axis=0)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert taken == ["min", "max"]


def test_small_vectors_are_computed_by_columns(taken: list[str], quiet_session: Any) -> None:
    def pull(position: Any, body: Any) -> Any:
        away = position - body
        return away / np.sqrt(np.sum(away * away, axis=1, keepdims=True))

    placed = gf.offload(backend="blocks")(pull)
    x, body = numbers((ROWS, 3), "f8", 1), np.array([1.0, 2.0, 3.0])
    with np.errstate(all="ignore"):
        assert bits(placed(x, body)) == bits(pull(x, body))
    assert taken == ["subtract", "sum", "true_divide"]


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x - x[0], (LEAST_ROWS - 1, 3)),
        (lambda x: x.sum(axis=1), (ROWS, MOST_COLUMNS + 1)),
        (lambda x: x.sum(axis=0) + x.sum(), (ROWS, 3)),
        (lambda x: x * x + 2.0, (ROWS, 3)),
        (lambda x: x[:, :1] * x[:, 1:2], (ROWS, 3)),
        (lambda x: np.power(np.abs(x), np.abs(x[:, :1])), (ROWS, 3)),
    ],
)
def test_what_gains_nothing_or_may_differ_is_numpys(
    function: Any, shape: Any, taken: list[str], quiet_session: Any
) -> None:
    x = np.random.default_rng(0).random(shape)
    assert bits(gf.offload(backend="blocks")(function)(x)) == bits(function(x))
    assert taken == []


def test_a_numpy_that_sums_otherwise_is_followed(
    taken: list[str], monkeypatch: pytest.MonkeyPatch, quiet_session: Any
) -> None:
    assert columns.sums_in_order()
    monkeypatch.setattr(columns, "sums_in_order", lambda: False)
    x = numbers((ROWS, 3), "f8", 1)
    assert bits(gf.offload(backend="blocks")(lambda x: x.sum(axis=1))(x)) == bits(x.sum(axis=1))
    assert taken == []


def test_numpy_warns_about_columns(quiet_session: Any) -> None:
    x = np.ones((ROWS, 3))
    x[5] = 0.0
    placed = gf.offload(backend="blocks")(lambda x: x / x.sum(axis=1, keepdims=True))
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="invalid value"):
            placed(x)
