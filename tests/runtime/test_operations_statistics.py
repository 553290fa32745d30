"""Statistics, curves, comparisons and writing functions on recorded arrays are NumPy's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpuforge.runtime.array.table import FUNCTIONS
from tests.runtime.recording import compare

Body = Callable[[Any], Any]
HOLED = np.array([[0.5, np.nan, 2.0, -3.0], [4.0, 5.5, np.nan, 7.0], [8.0, 9.0, 10.5, -11.0]])


def full(dtype: str) -> Any:
    return (np.arange(12) ** 2 % 7).reshape(3, 4).astype(dtype)


def wrote(body: Body) -> Body:
    def call(x: Any) -> Any:
        assert body(x) is None
        return x

    return call


STATISTICS: list[Body] = [
    lambda x: np.cov(x),
    lambda x: np.cov(x, rowvar=False, ddof=0),
    lambda x: np.cov(x[0], x[1]),
    lambda x: np.cov(x[0]),
    lambda x: np.cov(x, aweights=[1, 2, 1, 1]),
    lambda x: np.average(x),
    lambda x: np.average(x, axis=1, weights=[1, 2, 3, 4]),
    lambda x: np.average(x, axis=0, weights=x[:, 1] + 1),
    lambda x: np.average(x, weights=x + 1, returned=True),
    lambda x: np.average(x, axis=1, weights=x + 1, keepdims=True),
    lambda x: np.polyder(x[0]),
    lambda x: np.polyadd(x[0], x[1, :2]),
    lambda x: np.polymul(x[0], x[1]),
    lambda x: np.trim_zeros(x[0]),
    lambda x: np.trapezoid(x),
    lambda x: np.trapezoid(x, dx=0.5, axis=0),
    lambda x: np.polyval([1.0, 2.0, 3.0], x),
    lambda x: np.vander(x[0], 3),
    lambda x: np.vander(x[0], increasing=True),
    lambda x: np.kron(x, x[:2, :2]),
    lambda x: np.kron(x[0], np.eye(2)),
    lambda x: np.convolve(x[0], x[1]),
    lambda x: np.convolve(x[0], x[1, :2], "same"),
    lambda x: np.convolve(x[0, :2], x[1], "valid"),
    lambda x: np.convolve(x[0], [1, 2, 1], mode="same"),
    lambda x: np.correlate(x[0], x[1, :2]),
    lambda x: np.correlate(x[0], x[1, :3], "full"),
    lambda x: np.correlate(x[0, :2], x[1], "full"),
    lambda x: np.select([x > 5, x > 2], [x, x * 2], -1),
    lambda x: np.select([x > 5, x > 2], [1.5, x * 2]),
    lambda x: np.isclose(x, x + 1e-9),
    lambda x: np.isclose(x[0, 0], x[0, 1]),
    lambda x: np.allclose(x, x[0]),
    lambda x: np.array_equal(x, x.copy()),
    lambda x: np.array_equal(x, x[0]),
    lambda x: np.array_equiv(x[0], x[0].copy()),
    lambda x: np.array_equal(x, x[::-1], equal_nan=True),
    lambda x: np.isin(x * 1.0, [1, 4]),
    lambda x: (np.isreal(x), np.iscomplex(x), np.real_if_close(x)),
    lambda x: np.choose(x.real.astype(int) % 3, [x, -x, np.zeros(4)]),
    lambda x: x[np.triu_indices_from(x[:3, :3])],
    lambda x: x[np.diag_indices_from(x[:3, :3])],
    lambda x: np.isposinf(x.real),
    lambda x: np.angle(x),
    lambda x: np.angle(x, deg=True),
    lambda x: np.sinc(x),
    lambda x: np.clip(x.real, 1, 3, out=x.real),
    lambda x: (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1), np.iscomplexobj(x)),
    lambda x: (np.isrealobj(x), np.result_type(x, 1.0), np.can_cast(x, "f4"), np.common_type(x)),
]
REAL: list[Body] = [
    lambda x: np.intersect1d(x[0], x[1]),
    lambda x: np.union1d(x[0], x[1]),
    lambda x: np.setdiff1d(x[0] * 1.0, x[1] * 1.0),
    lambda x: np.setxor1d(x[0], x[1]),
    lambda x: np.gradient(x),
    lambda x: np.gradient(x, 0.5, axis=1),
    lambda x: np.gradient(x, 2.0, 3.0, edge_order=2),
    lambda x: np.interp(x, [0.0, 2.0, 5.0], [1.0, -1.0, 4.0]),
    lambda x: np.interp(x[0, 1], np.arange(3.0), x[1, :3]),
    lambda x: np.interp(x, np.arange(4), x[0], left=-7, right=9),
    lambda x: np.histogram(x),
    lambda x: np.histogram(x, 4, (0, 3)),
    lambda x: np.histogram(x, [0, 1, 2.5, 4], density=True),
    lambda x: np.histogram(x, bins=7, density=True),
    lambda x: np.histogram(x, bins=7, weights=x * 0.1),
    lambda x: np.histogram(x, 5, (-1, 2), weights=np.sqrt(np.abs(x)), density=True),
]
NAN: list[Body] = [
    lambda x: np.nansum(x),
    lambda x: np.nansum(x, axis=0),
    lambda x: np.nanprod(x, axis=1),
    lambda x: np.nanmax(x, axis=1),
    lambda x: np.nanmin(x),
    lambda x: np.nanmean(x),
    lambda x: np.nanmean(x, axis=0),
    lambda x: np.nanmean(x, axis=1, keepdims=True),
    lambda x: np.nanvar(x, axis=0, ddof=0),
    lambda x: np.nanvar(x, ddof=1),
    lambda x: np.nanstd(x),
    lambda x: np.nanstd(x, axis=(0, 1), keepdims=True),
    lambda x: np.nanmean(np.arange(4) * np.ones_like(x, dtype=int), axis=0),
    lambda x: np.nan_to_num(x),
    lambda x: np.nan_to_num(x / 0, nan=1.0, posinf=2.0, neginf=-2.0),
    lambda x: np.nanmedian(x.real),
    lambda x: np.nanquantile(x.real, 0.3),
    lambda x: np.nanpercentile(x[0].real, [20, 70], axis=0),
    lambda x: np.array_equal(x, x),
    lambda x: np.array_equal(x, x, equal_nan=True),
    lambda x: np.nanargmax(x, axis=1),
    lambda x: np.nanargmin(x),
    lambda x: np.histogram(x, [0, 2, 9.0]),
    lambda x: np.interp(x, np.arange(4.0), np.arange(4.0) ** 2),
]
NEEDING: list[tuple[Any, Body]] = [
    (np.diag, lambda x: np.corrcoef(x)),
    (np.diff, lambda x: np.trapezoid(x, x[0].cumsum())),
    (None, lambda x: np.gradient(x[0], x[1] + np.arange(4) ** 2)),
    (np.diff, lambda x: np.unwrap(x[0] * 3.0)),
    (None, lambda x: np.polyfit(np.arange(4) * 1.0, x[0], 2)),
]
LEFT: list[Body] = [
    lambda x: np.nanmean(x[:, :0]),
    lambda x: np.nanmax(x * np.nan, axis=0),
    lambda x: np.nanvar(x[:1], axis=0, ddof=1),
    lambda x: np.average(x, weights=[0, 0, 0, 0], axis=1),
    lambda x: np.cov(x[:, :1]),
    lambda x: np.convolve(x, x),
    lambda x: np.choose(x.astype(int), [x, x]),
    lambda x: np.histogram(x, "auto"),
    lambda x: np.gradient(x[:1], axis=0),
    lambda x: np.copyto(x, np.ones(7)),
    lambda x: np.copyto(x, 1j),
    lambda x: np.put(x, [99], 1.0),
    lambda x: np.putmask(x, x > 2, x + 1j),
    lambda x: np.putmask(x, x > 2, [1.0, 2.0]),
    lambda x: np.putmask(x.T, x.T > 2, x),
]
WROTE: list[Body] = [
    lambda x: np.put_along_axis(x, np.argmax(x, axis=1)[:, None], 9, axis=1),
    lambda x: np.copyto(x, 7),
    lambda x: np.copyto(x[0], x[1] + 1, where=x[1] > 2),
    lambda x: np.copyto(x, 5, where=x > 2),
    lambda x: np.putmask(x, x > 2, 9.7),
    lambda x: np.putmask(x, x > 2, x[::-1]),
    lambda x: np.putmask(x[0], x[0] > 2, np.arange(4, dtype="i1")),
    lambda x: np.place(x, x > 2, 9),
    lambda x: np.put(x, [0, 5, -1], 44),
    lambda x: x.put(3, 44),
    lambda x: np.fill_diagonal(x, 3),
    lambda x: np.fill_diagonal(x, x[0, :3].copy()),
]


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "c16"])
@pytest.mark.parametrize("body", STATISTICS)
def test_of_any_numbers(body: Body, dtype: str) -> None:
    compare(body, full(dtype))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
@pytest.mark.parametrize("body", REAL)
def test_of_real_numbers(body: Body, dtype: str) -> None:
    compare(body, full(dtype))


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
@pytest.mark.parametrize("body", NAN[:-2])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_with_nan(body: Body, dtype: str) -> None:
    compare(body, HOLED.astype(dtype), noted=None if dtype == "c16" else True)


@pytest.mark.parametrize("body", NAN[-2:])
def test_real_with_nan(body: Body) -> None:
    compare(body, HOLED)


@pytest.mark.parametrize(("needed", "body"), NEEDING)
def test_composed_of_others(needed: Any, body: Body) -> None:
    compare(body, full("f8") + np.eye(3, 4), noted=needed in FUNCTIONS or None)


@pytest.mark.parametrize("body", LEFT)
def test_left_to_numpy(body: Body) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        compare(body, full("f8"), noted=False)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
@pytest.mark.parametrize("body", WROTE)
def test_writing(body: Body, dtype: str) -> None:
    compare(wrote(body), full(dtype))
