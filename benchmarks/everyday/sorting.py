"""Bodies that order: ranks, top of a list, medians, merges."""

from __future__ import annotations

import numpy as np

import gpuforge as gf
from everyday.body import (
    body,
    constant,
    empty,
    flat,
    infinity,
    nan,
    positive,
    rows,
    square,
    two,
    whole,
    widest,
    zero,
)


def top_ten(x):
    order = np.argsort(x)[::-1][:10]
    return order, x[order]


def top_ten_xp(x):
    xp = gf.namespace(x)
    order = xp.flip(xp.argsort(x))[:10]
    return order, xp.take(x, order)


def ranks(x):
    order = x.argsort()
    rank = np.empty(len(x), dtype=np.int64)
    rank[order] = np.arange(len(x))
    return rank


def ranks_xp(x):
    xp = gf.namespace(x)
    return xp.argsort(xp.argsort(x))


def sort_by_column(table):
    return table[table[:, 1].argsort(kind="stable")]


def sort_by_column_xp(table):
    xp = gf.namespace(table)
    return xp.take(table, xp.argsort(table[:, 1], stable=True), axis=0)


def median_filter(image):
    height, width = image.shape
    shifted = [image[i : height - 2 + i, j : width - 2 + j] for i in range(3) for j in range(3)]
    return np.median(np.stack(shifted), axis=0)


def median_filter_xp(image):
    xp = gf.namespace(image)
    height, width = image.shape
    shifted = [image[i : height - 2 + i, j : width - 2 + j] for i in range(3) for j in range(3)]
    return xp.sort(xp.stack(shifted), axis=0)[4, ...]


def sort_in_place(x):
    x.sort()
    return x[1:] - x[:-1]


def sort_in_place_xp(x):
    xp = gf.namespace(x)
    return xp.diff(xp.sort(x))


def merge(x, y):
    x, y = np.sort(x), np.sort(y)
    return np.insert(x, np.searchsorted(x, y), y)


def merge_xp(x, y):
    xp = gf.namespace(x)
    return xp.sort(xp.concat([x, y]))


def drop_repeats(x):
    ordered = np.sort(x)
    keep = np.ones(ordered.shape, dtype=bool)
    keep[1:] = ordered[1:] != ordered[:-1]
    return ordered[keep]


def drop_repeats_xp(x):
    xp = gf.namespace(x)
    return xp.sort(xp.unique_values(x))


def gini_coefficient(incomes):
    ordered = np.sort(incomes)
    n = ordered.size
    weights = 2 * np.arange(1, n + 1) - n - 1
    return (weights * ordered).sum() / (n * ordered.sum())


def gini_coefficient_xp(incomes):
    xp = gf.namespace(incomes)
    ordered = xp.sort(incomes)
    n = ordered.shape[0]
    weights = 2 * xp.arange(1, n + 1, dtype=ordered.dtype) - n - 1
    return xp.sum(weights * ordered) / (n * xp.sum(ordered))


def area_under_curve(score, noise):
    positive = noise + score > 0
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(positive[order]) / positive.sum()
    false = np.cumsum(~positive[order]) / (~positive).sum()
    return np.trapezoid(hits, false)


def area_under_curve_xp(score, noise):
    xp = gf.namespace(score)
    positive = xp.astype(noise + score > 0, score.dtype)
    ordered = xp.take(positive, xp.argsort(-score, stable=True))
    hits = xp.cumulative_sum(ordered) / xp.sum(positive)
    false = xp.cumulative_sum(1 - ordered) / xp.sum(1 - positive)
    return xp.sum((hits[1:] + hits[:-1]) * (false[1:] - false[:-1])) / 2


def smallest_each_row(table):
    near = np.partition(table, 3, axis=1)[:, :3]
    return np.sort(near, axis=1).mean(axis=0)


def smallest_each_row_xp(table):
    xp = gf.namespace(table)
    return xp.mean(xp.sort(table, axis=1)[:, :3], axis=0)


def order_by_two(first, second):
    return np.lexsort((second, first))


def order_by_two_xp(first, second):
    xp = gf.namespace(first)
    order = xp.argsort(second, stable=True)
    return xp.take(order, xp.argsort(xp.take(first, order), stable=True))


def two_whole(size, rng):
    return (*whole(9)(size, rng), *whole(1000)(size, rng))


BODIES = (
    body(top_ten, top_ten_xp, flat, infinity, empty),
    body(ranks, ranks_xp, flat, infinity, empty),
    body(sort_by_column, sort_by_column_xp, rows(6), nan, infinity, constant, empty),
    body(median_filter, median_filter_xp, square, nan, infinity, empty),
    body(sort_in_place, sort_in_place_xp, flat, nan, infinity, empty),
    body(merge, merge_xp, two, nan, infinity, constant, empty),
    body(drop_repeats, drop_repeats_xp, whole(500), constant, widest, empty),
    body(gini_coefficient, gini_coefficient_xp, positive, nan, infinity, zero, empty),
    body(area_under_curve, area_under_curve_xp, two, nan, infinity, constant, zero, empty),
    body(smallest_each_row, smallest_each_row_xp, rows(12), nan, infinity, constant, empty),
    body(order_by_two, order_by_two_xp, two_whole, constant, widest, empty),
)
