"""Bodies that count: histograms, tables, groups, runs."""

from __future__ import annotations

import numpy as np

import gpuforge as gf
from everyday.body import (
    below_range,
    body,
    constant,
    empty,
    flat,
    infinity,
    nan,
    out_of_range,
    some_zeros,
    whole,
    widest,
)


def relative_frequencies(labels):
    counts = np.bincount(labels, minlength=20)
    return counts / counts.sum()


def relative_frequencies_xp(labels):
    xp = gf.namespace(labels)
    hits = xp.expand_dims(labels, axis=1) == xp.arange(20, dtype=labels.dtype)
    counts = xp.sum(xp.astype(hits, xp.int64), axis=0)
    return counts / xp.sum(counts)


def digitised_means(x, edges):
    which = np.digitize(x, edges)
    totals = np.bincount(which, weights=x, minlength=len(edges) + 1)
    counts = np.bincount(which, minlength=len(edges) + 1)
    return totals / np.maximum(counts, 1)


def digitised_means_xp(x, edges):
    xp = gf.namespace(x)
    which = xp.searchsorted(edges, x, side="right")
    bins = xp.arange(edges.shape[0] + 1, dtype=which.dtype)
    hits = xp.astype(xp.expand_dims(which, axis=1) == bins, x.dtype)
    return (x @ hits) / xp.clip(xp.sum(hits, axis=0), 1.0, None)


def most_common(labels):
    values, counts = np.unique(labels, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:5]
    return values[order], counts[order]


def most_common_xp(labels):
    xp = gf.namespace(labels)
    values, counts = xp.unique_counts(labels)
    order = xp.argsort(-counts, stable=True)[:5]
    return xp.take(values, order), xp.take(counts, order)


def confusion_matrix(truth, guess):
    table = np.zeros((10, 10), dtype=np.int64)
    np.add.at(table, (truth, guess), 1)
    return table, np.trace(table) / table.sum()


def confusion_matrix_xp(truth, guess):
    xp = gf.namespace(truth)
    classes = xp.arange(10, dtype=truth.dtype)
    rows = xp.astype(xp.expand_dims(truth, axis=1) == classes, xp.float64)
    columns = xp.astype(xp.expand_dims(guess, axis=1) == classes, xp.float64)
    table = rows.T @ columns
    return table, xp.linalg.trace(table) / xp.sum(table)


def run_lengths(flags):
    changes = np.flatnonzero(flags[1:] != flags[:-1]) + 1
    starts = np.concatenate(([0], changes))
    lengths = np.diff(np.append(starts, len(flags)))
    return flags[starts], lengths


def run_lengths_xp(flags):
    xp = gf.namespace(flags)
    changes = xp.astype(flags[1:] != flags[:-1], xp.int64)
    run = xp.cumulative_sum(changes, include_initial=True)
    return xp.unique_counts(run)[1]


def group_means(values, groups):
    totals = np.bincount(groups, weights=values)
    return (totals / np.bincount(groups))[groups]


def group_means_xp(values, groups):
    xp = gf.namespace(values)
    order = xp.argsort(groups, stable=True)
    sums = xp.cumulative_sum(xp.take(values, order), include_initial=True)
    ordered = xp.take(groups, order)
    first = xp.searchsorted(ordered, groups, side="left")
    last = xp.searchsorted(ordered, groups, side="right")
    return (xp.take(sums, last) - xp.take(sums, first)) / (last - first)


def chi_squared(table):
    rows, columns = table.sum(axis=1, keepdims=True), table.sum(axis=0, keepdims=True)
    expected = rows * columns / table.sum()
    return ((table - expected) ** 2 / expected).sum()


def chi_squared_xp(table):
    xp = gf.namespace(table)
    observed = xp.astype(table, xp.float64)
    rows = xp.sum(observed, axis=1, keepdims=True)
    expected = rows * xp.sum(observed, axis=0) / xp.sum(observed)
    return xp.sum((observed - expected) ** 2 / expected)


def letter_entropy(text):
    counts = np.bincount(text, minlength=26)
    p = counts[counts > 0] / text.size
    return -(p * np.log2(p)).sum()


def letter_entropy_xp(text):
    xp = gf.namespace(text)
    hits = xp.expand_dims(text, axis=1) == xp.arange(26, dtype=text.dtype)
    p = xp.mean(xp.astype(hits, xp.float64), axis=0)
    return -xp.sum(xp.where(p > 0, p * xp.log2(xp.where(p > 0, p, 1.0)), 0.0))


def parity(words):
    words = words ^ (words >> 16)
    words ^= words >> 8
    words ^= words >> 4
    words ^= words >> 2
    words ^= words >> 1
    return int((words & 1).sum())


def parity_xp(words):
    xp = gf.namespace(words)
    for shift in (16, 8, 4, 2, 1):
        words = words ^ (words >> shift)
    return int(xp.sum(words & 1))


def leap_years(years):
    leap = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
    return np.where(leap, 366, 365), leap.sum()


def leap_years_xp(years):
    xp = gf.namespace(years)
    leap = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
    days = xp.astype(leap, xp.int64) + 365
    return days, xp.count_nonzero(leap)


def share_of_row(table, total):
    return 100 * table // total[:, None]


def share_of_row_xp(table, total):
    xp = gf.namespace(table)
    return 100 * table // xp.expand_dims(total, axis=1)


def labelled(size, rng):
    return whole(20)(max(size // 20, 4), rng)


def edged(size, rng):
    return (*flat(max(size // 12, 4), rng), np.linspace(-2, 2, 11))


def guesses(size, rng):
    n = max(size // 10, 4)
    return rng.integers(0, 10, n), rng.integers(0, 10, n)


def grouped(size, rng):
    return rng.standard_normal(size), np.append(np.arange(8), rng.integers(0, 8, size - 8))


def contingency(size, rng):
    return (rng.integers(1, 90, (max(size // 8, 2), 8)),)


def tabled(size, rng):
    return rng.integers(1, 90, (max(size // 8, 2), 8)), rng.integers(90, 800, max(size // 8, 2))


BODIES = (
    body(relative_frequencies, relative_frequencies_xp, labelled, below_range, constant, empty),
    body(digitised_means, digitised_means_xp, edged, nan, infinity, constant),
    body(most_common, most_common_xp, whole(50), constant, widest, empty),
    body(confusion_matrix, confusion_matrix_xp, guesses, out_of_range, below_range, empty),
    body(run_lengths, run_lengths_xp, whole(2), constant, empty),
    body(group_means, group_means_xp, grouped, nan, infinity, below_range, empty),
    body(chi_squared, chi_squared_xp, contingency, some_zeros, constant, empty),
    body(letter_entropy, letter_entropy_xp, labelled, below_range, constant, empty),
    body(parity, parity_xp, whole(2**31 - 1, np.int32), constant, widest, empty),
    body(leap_years, leap_years_xp, whole(3000), constant, widest, empty),
    body(share_of_row, share_of_row_xp, tabled, some_zeros, widest, empty),
)
