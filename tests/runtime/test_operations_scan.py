"""Transforms and running sums on recorded arrays: NumPy's results, types and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.runtime.recording import check, form

F = np.fft
INF, NAN = np.inf, np.nan
Case = Callable[..., Any]
RANDOM = np.random.default_rng(3)
REAL = RANDOM.normal(size=(4, 6))
ARRAYS = [
    REAL,
    REAL.astype("f4"),
    REAL + 1j * REAL[::-1],
    REAL.astype("F"),
    (9 * REAL).astype(int),
    (9 * REAL).astype("i1"),
    abs(9 * REAL).astype("u1"),
    REAL > 0,
    RANDOM.normal(size=(3, 2, 5)),
    np.array([[1, NAN, INF], [-INF, -0.0, 2]]),
    REAL[:1],
]

TRANSFORMS: list[Case] = [
    lambda x: F.fft(x),
    lambda x: F.ifft(x, axis=0),
    lambda x: F.fft(x, 3),
    lambda x: F.fft(x, n=9),
    lambda x: F.rfft(x),
    lambda x: F.rfft(x, 7, axis=0, norm="ortho"),
    lambda x: F.irfft(x, axis=-1),
    lambda x: F.irfft(x, n=7, norm="forward"),
    lambda x: F.fft2(x),
    lambda x: F.ifft2(x, (3, 5)),
    lambda x: F.rfft2(x, norm="forward"),
    lambda x: F.irfft2(x),
    lambda x: F.fftn(x),
    lambda x: F.ifftn(x, axes=(0,)),
    lambda x: F.rfftn(x, axes=(1, 0)),
    lambda x: F.irfftn(x, (4, 4), (0, 1)),
    lambda x: F.fftshift(x),
    lambda x: F.ifftshift(x, axes=-1),
    lambda x: F.fftshift(x, (0, 1)),
    lambda x: F.hfft(x),
    lambda x: F.ihfft(x, norm="ortho"),
    lambda x: F.irfft(F.rfft(x), x.shape[-1]),
    lambda x: F.fft(x, 0),
    lambda x: F.fft(x, axis=7),
    lambda x: F.fft(x, norm="odd"),
    lambda x: F.fftn(x, (2,), (0, 1)),
    lambda x: F.fftn(x, (-1, 2), (0, 1)),
]
SCANS: list[Case] = [
    lambda x: np.cumsum(x),
    lambda x: x.cumsum(axis=0),
    lambda x: x.cumsum(-1, dtype=x.dtype),
    lambda x: np.cumprod(x),
    lambda x: x.cumprod(axis=1),
    lambda x: np.cumsum(x, 0, complex),
    lambda x: np.add.accumulate(x),
    lambda x: np.multiply.accumulate(x, axis=1),
    lambda x: np.maximum.accumulate(x),
    lambda x: np.minimum.accumulate(x, -1),
    lambda x: np.cumulative_sum(x, axis=1),
    lambda x: np.cumulative_prod(x[0], include_initial=True),
    lambda x: np.cumulative_sum(x, axis=0, include_initial=True),
    lambda x: np.cumulative_sum(x),
    lambda x: np.nancumsum(x, axis=0),
    lambda x: np.nancumprod(x),
    lambda x: np.diff(x),
    lambda x: np.diff(x, 2, axis=0),
    lambda x: np.diff(x, prepend=0),
    lambda x: np.diff(x, n=9),
    lambda x: np.diff(x, append=x[..., :1], prepend=1.5),
    lambda x: np.diff(x, -1),
    lambda x: np.ediff1d(x),
    lambda x: np.ediff1d(x, to_end=x[0, 0], to_begin=x.ravel()[:2]),
    lambda x: np.ediff1d(x, to_end=1j),
    lambda x: np.cumsum(x, axis=5),
    lambda x: np.cumsum(x, axis=0, dtype="i2") if x.dtype.kind in "bi" else x.cumsum(2),
]


@pytest.mark.parametrize("case", range(len(TRANSFORMS)))
@pytest.mark.parametrize("x", ARRAYS, ids=form)
def test_transforms(case: int, x: Any) -> None:
    check(TRANSFORMS[case], x)


@pytest.mark.parametrize("case", range(len(SCANS)))
@pytest.mark.parametrize("x", ARRAYS, ids=form)
def test_scans(case: int, x: Any) -> None:
    check(SCANS[case], x)


def test_sums_can_be_written_into_an_array() -> None:
    def function(x: Any) -> Any:
        np.cumsum(x, axis=0, out=x)
        return np.add.accumulate(x, axis=1, out=x)

    check(function, REAL)
