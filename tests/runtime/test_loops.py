"""Faster loops give the bits of NumPy's functions, for every dtype, mask and kind of operand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.runtime.array import loops

RNG = np.random.default_rng(5)
N = loops.LEAST_ELEMENTS * 2
MASKS = {
    "often": RNG.random(N) > 0.5,
    "never": np.zeros(N, bool),
    "once": np.arange(N) > N // 3,
    "every second": RNG.random(2 * N)[::2] > 0.5,
    "one": np.True_,
    "numbers": RNG.integers(0, 2, N),
}


def same_bits(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    assert (found.dtype, found.shape, found.strides) == (
        expected.dtype,
        expected.shape,
        expected.strides,
    )
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("mask", MASKS)
def test_bits_are_those_of_where(mask: str, dtype: str) -> None:
    x, y = RNG.normal(size=(2, N)) * 100
    with np.errstate(invalid="ignore"):
        x, y = x.astype(dtype), y.astype(dtype)
    if dtype[0] in "fc":
        x[::7], y[::5], x[1::9], y[2::3] = np.nan, -0.0, np.inf, -np.nan
    for left, right in ((x, y), (x, y[0]), (x[:1], y), (x, y[::-1]), (x[3], y[4]), (0, y), (x, 1)):
        same_bits(loops.where(MASKS[mask], left, right), np.where(MASKS[mask], left, right))


@pytest.mark.parametrize("shapes", [((N, 1), (N, 1), (N, 1)), ((64, N // 64), (N // 64,), (64, 1)),
                                    ((N,), (3, N), (N,)), ((3, N), (N,), ())])  # fmt: skip
def test_shapes_broadcast(shapes: Any) -> None:
    mask, x, y = (RNG.normal(size=shape) for shape in shapes)
    same_bits(loops.where(mask > 0, x, y), np.where(mask > 0, x, y))


def test_other_dtypes_and_orders() -> None:
    mask = (RNG.random(N) > 0.5).reshape(64, -1)
    x, y = RNG.normal(size=(2, 64, N // 64))
    for left, right in ((x, y.astype("f4")), (x, np.asfortranarray(y)), (x.T.copy().T, y),
                        (x.astype("i4"), y), (x.astype(">f8"), y.astype(">f8"))):  # fmt: skip
        same_bits(loops.where(mask, left, right), np.where(mask, left, right))


@given(st.integers(-300, 300), st.sampled_from(["u1", "i1", "f4"]))
def test_numbers_that_do_not_fit(number: int, dtype: str) -> None:
    y = RNG.integers(0, 100, N).astype(dtype)
    try:
        expected = np.where(MASKS["often"], number, y)
    except OverflowError:
        with pytest.raises(OverflowError):
            loops.where(MASKS["often"], number, y)
    else:
        same_bits(loops.where(MASKS["often"], number, y), expected)


def test_where_writes_into_an_array() -> None:
    x, y = RNG.normal(size=(2, N))
    for mask in (MASKS["often"], MASKS["once"]):
        out = np.empty(N)
        assert loops.where(mask, x, y, out=out) is out
        same_bits(out, np.where(mask, x, y))


SPECIAL = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -2.5, 5e-324, 3, 0, -7, 2**40]


@pytest.mark.parametrize("number", SPECIAL, ids=repr)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i2", "u4", "i8", "c16", ">f8"])
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_limits_are_numpys(name: str, dtype: str, number: Any) -> None:
    ours, numpys = getattr(loops, name), getattr(np, name)
    with np.errstate(all="ignore"):
        x = (RNG.normal(size=N) * 3).astype(dtype)
        x[:10] = np.asarray(SPECIAL[:10]).astype(dtype)
    for y in (number, np.float64(number), np.asarray(number), x[::-1]):
        for left, right in ((x, y), (y, x), (x[::2], y if np.ndim(y) == 0 else y[::2])):
            with np.errstate(all="ignore"):
                try:
                    expected = numpys(left, right)
                except OverflowError:
                    with pytest.raises(OverflowError):
                        ours(left, right)
                else:
                    same_bits(ours(left, right), expected)


def test_masks_that_change_often_are_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = RNG.normal(size=(2, N))

    def where(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(np, "where", where)
    loops.where(MASKS["often"], x, y)
    with pytest.raises(AssertionError):
        loops.where(MASKS["once"], x, y)
