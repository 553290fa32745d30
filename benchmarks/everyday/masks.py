"""Bodies that choose by a mask or by indices, and write where they chose."""

from __future__ import annotations

import numpy as np

import gpuforge as gf
from everyday.body import (
    below_range,
    body,
    constant,
    empty,
    flat,
    huge,
    infinity,
    nan,
    out_of_range,
    rows,
    square,
    two,
    zero,
)


def clear_negatives(x):
    x[x < 0] = 0


def clear_negatives_xp(x):
    xp = gf.namespace(x)
    return xp.where(x < 0, xp.zeros_like(x), x)


def fill_missing(x):
    filled = x.copy()
    bad = ~np.isfinite(filled)
    filled[bad] = filled[~bad].mean()
    return filled, bad.sum()


def fill_missing_xp(x):
    xp = gf.namespace(x)
    good = xp.isfinite(x)
    mean = xp.sum(xp.where(good, x, xp.zeros_like(x))) / xp.count_nonzero(good)
    return xp.where(good, x, mean), xp.count_nonzero(~good)


def tax(income):
    brackets = [income < 0, income < 0.5, income < 1.5]
    due = [np.zeros_like(income), 0.1 * income, 0.05 + 0.2 * (income - 0.5)]
    return np.select(brackets, due, default=0.25 + 0.4 * (income - 1.5))


def tax_xp(income):
    xp = gf.namespace(income)
    high = 0.25 + 0.4 * (income - 1.5)
    middle = xp.where(income < 1.5, 0.05 + 0.2 * (income - 0.5), high)
    return xp.where(income < 0.5, xp.clip(0.1 * income, 0.0, None), middle)


def best_per_row(scores, payload):
    best = scores.argmax(axis=1)[:, None]
    return np.take_along_axis(payload, best, axis=1)[:, 0]


def best_per_row_xp(scores, payload):
    xp = gf.namespace(scores)
    best = xp.expand_dims(xp.argmax(scores, axis=1), axis=1)
    return xp.take_along_axis(payload, best, axis=1)[:, 0]


def outlier_rows(x):
    keep = (np.abs(x) < 2).all(axis=1)
    return x[keep], np.flatnonzero(~keep)


def outlier_rows_xp(x):
    xp = gf.namespace(x)
    keep = xp.all(xp.abs(x) < 2, axis=1)
    return x[keep, :], xp.nonzero(~keep)[0]


def dirichlet_border(u):
    u[0] = u[-1] = 0
    u[:, 0] = u[:, -1] = 1
    u[1:-1:2, 1:-1:2] *= -1
    return u.sum()


def dirichlet_border_xp(u):
    xp = gf.namespace(u)
    row = xp.expand_dims(xp.arange(u.shape[0]), axis=1)
    column = xp.arange(u.shape[1])
    side = (column == 0) | (column == u.shape[1] - 1)
    end = (row == 0) | (row == u.shape[0] - 1)
    odd = (row % 2 == 1) & (column % 2 == 1)
    inner = xp.where(odd, -u, u)
    return xp.sum(xp.where(side, 1.0, xp.where(end, 0.0, inner)))


def interleave(x, y):
    out = np.empty(x.size + y.size)
    out[::2] = x
    out[1::2] = y
    return out


def interleave_xp(x, y):
    xp = gf.namespace(x)
    return xp.reshape(xp.stack([x, y], axis=1), (-1,))


def scatter_max(x, places):
    out = np.full(16, -np.inf)
    np.maximum.at(out, places, x)
    return out


def scatter_max_xp(x, places):
    xp = gf.namespace(x)
    member = xp.expand_dims(places, axis=1) == xp.arange(16)
    return xp.max(xp.where(member, xp.expand_dims(x, axis=1), -xp.inf), axis=0)


def safe_ratio(x, y):
    out = np.zeros_like(x)
    np.divide(x, y, out=out, where=y != 0)
    return out


def safe_ratio_xp(x, y):
    xp = gf.namespace(x)
    usable = y != 0
    return xp.where(usable, x / xp.where(usable, y, xp.ones_like(y)), xp.zeros_like(x))


def submatrix(a, chosen):
    return a[np.ix_(chosen, chosen)]


def submatrix_xp(a, chosen):
    xp = gf.namespace(a)
    return xp.take(xp.take(a, chosen, axis=0), chosen, axis=1)


def checkerboard(x):
    i, j = np.indices(x.shape)
    return np.where((i + j) % 2, x, -x).sum(axis=0)


def checkerboard_xp(x):
    xp = gf.namespace(x)
    i, j = xp.meshgrid(xp.arange(x.shape[0]), xp.arange(x.shape[1]), indexing="ij")
    return xp.sum(xp.where((i + j) % 2 == 1, x, -x), axis=0)


def clamp_rows(x, low, high):
    x = np.clip(x, low, high)
    return x, ((x == low) | (x == high)).mean(axis=1)


def clamp_rows_xp(x, low, high):
    xp = gf.namespace(x)
    x = xp.clip(x, low, high)
    return x, xp.mean(xp.astype((x == low) | (x == high), x.dtype), axis=1)


def two_tables(size, rng):
    return (*rows(8)(size, rng), *rows(8)(size, rng))


def placed(size, rng):
    n = max(size // 16, 4)
    return rng.standard_normal(n), rng.integers(0, 16, n)


def chosen(size, rng):
    (a,) = square(size, rng)
    return a, rng.permutation(len(a))[: len(a) // 2 + 1]


def with_zeros(size, rng):
    x, y = two(size, rng)
    y[rng.integers(0, size, size // 5)] = 0
    return x, y


def clamped(size, rng):
    return (*rows(16, np.float32)(size, rng), -1.0, 1.5)


BODIES = (
    body(clear_negatives, clear_negatives_xp, flat, nan, infinity, empty),
    body(fill_missing, fill_missing_xp, flat, nan, infinity, huge, empty),
    body(tax, tax_xp, flat, nan, infinity, huge, empty),
    body(best_per_row, best_per_row_xp, two_tables, nan, infinity, constant, empty),
    body(outlier_rows, outlier_rows_xp, rows(4), nan, infinity, zero, empty),
    body(dirichlet_border, dirichlet_border_xp, square, nan, infinity, empty),
    body(interleave, interleave_xp, two, nan, infinity, empty),
    body(scatter_max, scatter_max_xp, placed, nan, infinity, out_of_range, below_range, empty),
    body(safe_ratio, safe_ratio_xp, with_zeros, nan, infinity, zero, huge, empty),
    body(submatrix, submatrix_xp, chosen, nan, out_of_range, below_range, empty),
    body(checkerboard, checkerboard_xp, square, nan, infinity, empty),
    body(clamp_rows, clamp_rows_xp, clamped, nan, infinity, huge, empty),
)
