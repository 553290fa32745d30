"""Bodies over samples: location, spread, dependence, resampling."""

from __future__ import annotations

from math import isqrt

import numpy as np

import gpuforge as gf
from everyday.body import (
    body,
    constant,
    empty,
    flat,
    huge,
    infinity,
    nan,
    negative,
    out_of_range,
    positive,
    rows,
    some_zeros,
    two,
    zero,
)


def zscore(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def zscore_xp(x):
    xp = gf.namespace(x)
    return (x - xp.mean(x, axis=0)) / xp.std(x, axis=0)


def robust_outliers(x):
    middle = np.median(x)
    mad = np.median(np.abs(x - middle))
    return np.abs(x - middle) > 3 * 1.4826 * mad


def middle_of(xp, x):
    ordered = xp.sort(x)
    n = x.shape[0]
    return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2


def robust_outliers_xp(x):
    xp = gf.namespace(x)
    away = xp.abs(x - middle_of(xp, x))
    return away > 3 * 1.4826 * middle_of(xp, away)


def rolling_mean(x, width):
    total = np.cumsum(np.insert(x, 0, 0.0))
    return (total[width:] - total[:-width]) / width


def rolling_mean_xp(x, width):
    xp = gf.namespace(x)
    total = xp.cumulative_sum(x, include_initial=True)
    return (total[width:] - total[:-width]) / width


def covariance(x):
    return np.cov(x, rowvar=False)


def covariance_xp(x):
    xp = gf.namespace(x)
    centred = x - xp.mean(x, axis=0, keepdims=True)
    return centred.T @ centred / (x.shape[0] - 1)


def bootstrap_interval(x, picks):
    means = x[picks].mean(axis=1)
    return np.percentile(means, [2.5, 97.5])


def bootstrap_interval_xp(x, picks):
    xp = gf.namespace(x)
    drawn = xp.reshape(xp.take(x, xp.reshape(picks, (-1,))), picks.shape)
    means = xp.sort(xp.mean(drawn, axis=1))
    n = means.shape[0]
    return means[n // 40], means[n - 1 - n // 40]


def kernel_density(points, sample):
    width = 1.06 * sample.std() * len(sample) ** -0.2
    u = (points[:, None] - sample[None, :]) / width
    return np.exp(-0.5 * u**2).sum(axis=1) / (len(sample) * width * np.sqrt(2 * np.pi))


def kernel_density_xp(points, sample):
    xp = gf.namespace(points)
    n = sample.shape[0]
    width = 1.06 * xp.std(sample) * n**-0.2
    u = (xp.expand_dims(points, axis=1) - xp.expand_dims(sample, axis=0)) / width
    return xp.sum(xp.exp(-0.5 * u**2), axis=1) / (n * width * (2 * xp.pi) ** 0.5)


def trimmed_mean(x):
    ordered = np.sort(x)
    cut = len(x) // 10
    return ordered[cut : len(x) - cut].mean()


def trimmed_mean_xp(x):
    xp = gf.namespace(x)
    cut = x.shape[0] // 10
    return xp.mean(xp.sort(x)[cut : x.shape[0] - cut])


def correlation(x, y):
    return np.corrcoef(x, y)[0, 1]


def correlation_xp(x, y):
    xp = gf.namespace(x)
    x, y = x - xp.mean(x), y - xp.mean(y)
    return xp.sum(x * y) / xp.sqrt(xp.sum(x * x) * xp.sum(y * y))


def five_numbers(x):
    return {"min": x.min(), "quartiles": np.percentile(x, [25, 50, 75]), "max": x.max()}


def five_numbers_xp(x):
    xp = gf.namespace(x)
    ordered = xp.sort(x)
    last = x.shape[0] - 1
    return {"min": xp.min(x), "median": ordered[last // 2], "max": xp.max(x)}


def kolmogorov_distance(x, y):
    both = np.concatenate([x, y])
    fx = np.searchsorted(np.sort(x), both, side="right") / len(x)
    fy = np.searchsorted(np.sort(y), both, side="right") / len(y)
    return np.abs(fx - fy).max()


def kolmogorov_distance_xp(x, y):
    xp = gf.namespace(x)
    both = xp.concat([x, y])
    fx = xp.searchsorted(xp.sort(x), both, side="right") / x.shape[0]
    fy = xp.searchsorted(xp.sort(y), both, side="right") / y.shape[0]
    return xp.max(xp.abs(fx - fy))


def geometric_mean(x):
    return np.exp(np.log(x).mean())


def geometric_mean_xp(x):
    xp = gf.namespace(x)
    return xp.exp(xp.mean(xp.log(x)))


def skewness(x):
    centred = x - np.mean(x)
    return np.mean(centred**3) / np.mean(centred**2) ** 1.5


def skewness_xp(x):
    xp = gf.namespace(x)
    centred = x - xp.mean(x)
    return xp.mean(centred**3) / xp.mean(centred**2) ** 1.5


def windowed(size, rng):
    return (*flat(size, rng), 25)


def drawn(size, rng):
    n = max(size // 200, 10)
    return rng.standard_normal(n), rng.integers(0, n, (200, n))


def grids(size, rng):
    side = max(isqrt(size), 8)
    return np.linspace(-3, 3, side), rng.standard_normal(side)


BODIES = (
    body(zscore, zscore_xp, rows(8), nan, infinity, constant, huge, empty),
    body(robust_outliers, robust_outliers_xp, flat, nan, infinity, constant, empty),
    body(rolling_mean, rolling_mean_xp, windowed, nan, infinity, empty),
    body(covariance, covariance_xp, rows(16), nan, infinity, constant, huge, empty),
    body(bootstrap_interval, bootstrap_interval_xp, drawn, nan, infinity, out_of_range),
    body(kernel_density, kernel_density_xp, grids, nan, infinity, constant),
    body(trimmed_mean, trimmed_mean_xp, flat, nan, infinity, empty),
    body(correlation, correlation_xp, two, nan, infinity, constant, zero, huge, empty),
    body(five_numbers, five_numbers_xp, flat, nan, infinity, empty),
    body(kolmogorov_distance, kolmogorov_distance_xp, two, nan, infinity, constant),
    body(geometric_mean, geometric_mean_xp, positive, nan, infinity, some_zeros, negative, empty),
    body(skewness, skewness_xp, flat, nan, infinity, zero, huge, empty),
)
