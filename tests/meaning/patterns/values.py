"""Extraordinary values: NaN, infinities, ties, emptiness, no dimension, overflow."""

from __future__ import annotations

import numpy as np

from tests.meaning.arrays import cplx, holes, ints, mat, odd, vec
from tests.meaning.pattern import pattern


@pattern(lambda: odd(6))
def reductions_of_nan(x):
    return x.sum(), x.mean(), x.max(), x.min(), x.std(), np.prod(x)


@pattern(lambda: holes(6))
def nan_reductions(x):
    return np.nansum(x), np.nanmean(x), np.nanmax(x), np.nanstd(x), np.nanmedian(x), np.nanargmin(x)


@pattern(lambda: np.where(np.arange(5000) == 4321, np.nan, 1.0))
def nan_in_a_long_array(x):
    return x.max(), x.min(), np.argmax(x), np.isnan(x).sum()


@pattern(lambda: holes(6))
def nan_comparisons(x):
    return x == x, x < 0, x != x, np.isnan(x), np.maximum(x, 0), np.fmin(x, 0)


@pattern(lambda: holes(6))
def nan_sorted_last(x):
    return np.sort(x), np.argsort(x), np.argmax(x), np.argmin(x), np.median(x)


@pattern(lambda: holes(6))
def nan_unique(x):
    return np.unique(np.append(x, np.nan)), np.unique(x, equal_nan=False)


@pattern(lambda: odd(6))
def nan_replaced(x):
    return np.nan_to_num(x, posinf=9.0, neginf=-9.0), np.where(np.isfinite(x), x, 0)


@pattern(lambda: odd(6))
def infinities_cancel(x):
    return x - x, x * 0, x / x, np.inf - x, x + np.inf


@pattern(lambda: vec(4))
def division_by_zero_array(x):
    z = np.zeros(4)
    return x / z, z / z, np.log(z), x % z, x // z


@pattern(lambda: ints(4))
def integer_division_by_zero(x):
    return x // 0, x % 0, x / 0


@pattern(lambda: ints(4))
def integer_division_by_array_with_zero(x):
    return x // (x - x[0]), np.mod(x, x - x[0])


@pattern(lambda: vec(4))
def invalid_functions(x):
    return np.sqrt(x), np.log(x), np.arcsin(x), np.log1p(x * 5), x**0.5


@pattern(lambda: vec(4) * 400)
def overflow_of_floats(x):
    return np.exp(x), np.cosh(x), x**200, np.exp(-abs(x))


@pattern(lambda: vec(4, np.float32) * np.float32(1e30))
def overflow_of_singles(x):
    return x * x, x.sum() * 1e10, np.square(x), np.linalg.norm(x)


@pattern(lambda: np.array([1.0, 3.0, 3.0, 1.0]))
def ties(x):
    return x.argmax(), x.argmin(), np.argsort(x, kind="stable"), np.unique(x, return_index=True)


@pattern(lambda: mat(2, 3) * 0)
def ties_along_axes(x):
    return x.argmax(axis=1), x.argmin(axis=0), np.round(x + 0.5), np.sign(x)


@pattern(lambda: vec(0))
def empty_sums(x):
    return x.sum(), x.prod(), (x > 0).any(), (x > 0).all(), x * 2, np.cumsum(x), x @ x


@pattern(lambda: vec(0))
def empty_mean(x):
    return x.mean(), np.std(x), np.median(x)


@pattern(lambda: vec(0))
def empty_max(x):
    return x.max()


@pattern(lambda: vec(0))
def empty_argmax(x):
    return x.argmax()


@pattern(lambda: np.empty((0, 3)))
def empty_rows(x):
    return x.sum(axis=0), x.sum(axis=1), x.T @ x, x.max(axis=1), len(x), x.reshape(3, 0)


@pattern(lambda: np.empty((3, 0)))
def empty_inner_product(x):
    return x @ x.T, np.concatenate([x, x]), x.mean(axis=0), x.any(axis=1)


@pattern(lambda: vec(5))
def empty_selection(x):
    y = x[x > 1e9]
    return y, y.sum(), y.shape, y.size == 0, x[3:3] + 1


@pattern(lambda: np.array(2.5))
def zero_dimensional(x):
    return x + 1, x * x, np.sqrt(x), x.shape, x[()], float(x), x.sum(), x.reshape(1)


@pattern(lambda: np.array(2.5))
def zero_dimensional_written(x):
    x += 1
    x[...] = x * 2
    x[()] = x - 1
    return x


@pattern(lambda: np.array(2.5), lambda: np.array(3, np.uint32))
def zero_dimensional_written_through_newaxis(x):
    x[None] *= x
    x[None][0] += 1
    return x


@pattern(lambda: np.array(3), lambda: np.array(True), lambda: np.array(2 + 1j))
def zero_dimensional_kinds(x):
    return x + 1, -(x + 0), x == 3, np.exp(x), x.item()


@pattern(lambda: np.array([np.inf + 1j, 1 - 1j * np.inf, 0, 1 + 2j]))
def complex_infinities(z):
    return z * (1 + 1j), z * z, abs(z), z + 1, np.isinf(z)


@pattern(lambda: cplx(4))
def complex_division(z):
    return z / (z - z[0] + 1e-3), 1 / z, z / 2.0, z / np.array([0, 1, 1j, 2])


@pattern(lambda: cplx(4))
def complex_functions(z):
    return np.exp(z), np.log(z), np.sqrt(z), z**2, z**0.5, np.sin(z), np.tanh(z)


@pattern(lambda: cplx(4))
def complex_sort_and_max(z):
    return np.sort(z), z.max(), z.argmax(), np.argsort(z)


@pattern(lambda: cplx(3))
def complex_compared(z):
    return z == z, z != z[0], z > 0


@pattern(lambda: np.array([np.nan + 1j, 1 + np.nan * 1j]))
def complex_nan(z):
    return np.isnan(z), abs(z), z.sum(), z * 2


@pattern(lambda: np.array([[np.nan, 1.0], [1.0, 2.0]]))
def eigenvalues_of_nan(a):
    return np.linalg.eigvals(a)


@pattern(lambda: np.array([[np.nan, 1.0], [1.0, 2.0]]))
def factorisations_of_nan(a):
    return np.linalg.inv(a), np.linalg.det(a), np.linalg.solve(a, a[0])


@pattern(lambda: np.array([[np.inf, 1.0], [1.0, 2.0]]))
def svd_of_infinity(a):
    return np.linalg.svd(a, compute_uv=False)


@pattern(lambda: np.array([0.0, -0.0, 1e-310, 1e308]))
def extreme_magnitudes(x):
    return x * 10, x[3] * 10, np.isfinite(x * 10), x > 0, np.log10(x[2:])


@pattern(lambda: np.array([np.iinfo(np.int64).min, -1, 0]))
def smallest_integer(x):
    return -x, abs(x), x - 1, x * x


@pattern(lambda: np.array([1, 2, 3]))
def shift_beyond_width(x):
    return x << 63, x << 64, x >> 70


@pattern(lambda: ints(3) - 1)
def negative_powers_of_integers(x):
    return x ** np.array([1, 2, 0]), x**-1.0


@pattern(lambda: ints(3) + 1)
def negative_integer_power(x):
    return x**-1


@pattern(lambda: odd(6))
def nan_to_integer(x):
    return np.where(np.isfinite(x), x, -1).astype(int), np.isnan(x).astype(int)


@pattern(lambda: odd(6))
def clip_of_nan(x):
    return np.clip(x, -1, 1), np.sign(x), np.floor(x), np.abs(x)


@pattern(lambda: odd(6))
def cumulative_with_nan(x):
    return np.cumsum(x), np.cumprod(x), np.maximum.accumulate(x), np.diff(x)


@pattern(lambda: odd(6))
def allclose_with_nan(x):
    return np.allclose(x, x), np.allclose(x, x, equal_nan=True), np.isclose(x, x), (x == x).all()


@pattern(lambda: odd(6))
def histogram_of_finite(x):
    return np.histogram(x[np.isfinite(x)], bins=3)


@pattern(lambda: np.array([1e16, 1.0, -1e16]))
def sums_that_cancel(x):
    return (x[0] + x[2]) + x[1], x[0] + (x[2] + x[1])


@pattern(lambda: mat(2, 3))
def matmul_with_infinity(x):
    x[0, 0] = np.inf
    return x @ x.T, np.einsum("ij,ij->i", x, x)


@pattern(lambda: holes(6))
def interpolate_gaps(x):
    bad = np.isnan(x)
    x[bad] = np.interp(bad.nonzero()[0], (~bad).nonzero()[0], x[~bad])
    return x


@pattern(lambda: odd(6))
def softmax_with_infinity(x):
    z = np.where(np.isnan(x), -np.inf, x)
    e = np.exp(z - z.max())
    return e / e.sum()
