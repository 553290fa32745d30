"""Bodies over prices, rates and payments."""

from __future__ import annotations

import numpy as np

import gpuforge as gf
from everyday.body import (
    body,
    constant,
    empty,
    huge,
    infinity,
    nan,
    negative,
    rows,
    some_zeros,
    three,
    zero,
)


def normal_cdf(xp, x):
    """Cumulative normal distribution by a rational approximation of five terms."""
    t = 1 / (1 + 0.2316419 * xp.abs(x))
    poly = t * (
        0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))
    )
    tail = xp.exp(-0.5 * x * x) * poly / (2 * np.pi) ** 0.5
    return xp.where(x > 0, 1 - tail, tail)


def black_scholes(spot, strike, years):
    rate, sigma = 0.02, 0.3
    root = sigma * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + sigma**2 / 2) * years) / root
    discount = np.exp(-rate * years)
    return spot * normal_cdf(np, d1) - strike * discount * normal_cdf(np, d1 - root)


def black_scholes_xp(spot, strike, years):
    xp = gf.namespace(spot)
    rate, sigma = 0.02, 0.3
    root = sigma * xp.sqrt(years)
    d1 = (xp.log(spot / strike) + (rate + sigma**2 / 2) * years) / root
    discount = xp.exp(-rate * years)
    return spot * normal_cdf(xp, d1) - strike * discount * normal_cdf(xp, d1 - root)


def asian_option(normals, spot, strike):
    sigma, step = 0.2, 1 / 52
    growth = -0.5 * sigma**2 * step + sigma * np.sqrt(step) * normals
    paths = spot * np.exp(np.cumsum(growth, axis=1))
    payoff = np.maximum(paths.mean(axis=1) - strike, 0)
    return payoff.mean(), payoff.std(ddof=1) / np.sqrt(len(payoff))


def asian_option_xp(normals, spot, strike):
    xp = gf.namespace(normals)
    sigma, step = 0.2, 1 / 52
    growth = -0.5 * sigma**2 * step + sigma * step**0.5 * normals
    paths = spot * xp.exp(xp.cumulative_sum(growth, axis=1))
    payoff = xp.clip(xp.mean(paths, axis=1) - strike, 0.0, None)
    return xp.mean(payoff), xp.std(payoff, correction=1) / normals.shape[0] ** 0.5


def worst_drawdown(prices):
    peak = np.maximum.accumulate(prices)
    drop = prices / peak - 1
    bottom = drop.argmin()
    return drop[bottom], bottom


def worst_drawdown_xp(prices):
    xp = gf.namespace(prices)
    peak, shift = prices, 1
    while shift < prices.shape[0]:
        peak = xp.concat([peak[:shift], xp.maximum(peak[shift:], peak[:-shift])])
        shift *= 2
    drop = prices / peak - 1
    return xp.min(drop), xp.argmin(drop)


def crossover(prices):
    total = np.concatenate(([0.0], prices.cumsum()))
    fast = (total[10:] - total[:-10]) / 10
    slow = (total[30:] - total[:-30]) / 30
    position = np.where(fast[20:] > slow, 1, -1)
    earned = position[:-1] * np.diff(prices[29:])
    return earned.sum()


def crossover_xp(prices):
    xp = gf.namespace(prices)
    total = xp.cumulative_sum(prices, include_initial=True)
    fast = (total[10:] - total[:-10]) / 10
    slow = (total[30:] - total[:-30]) / 30
    gains = prices[30:] - prices[29:-1]
    return xp.sum(xp.where(fast[20:-1] > slow[:-1], gains, -gains))


def sharpe_ratio(prices):
    returns = np.diff(np.log(prices), axis=0)
    return np.sqrt(252) * returns.mean(axis=0) / returns.std(axis=0, ddof=1)


def sharpe_ratio_xp(prices):
    xp = gf.namespace(prices)
    logs = xp.log(prices)
    returns = logs[1:, :] - logs[:-1, :]
    return 252**0.5 * xp.mean(returns, axis=0) / xp.std(returns, axis=0, correction=1)


def value_at_risk(returns, weights):
    portfolio = returns @ weights
    limit = np.quantile(portfolio, 0.05)
    shortfall = portfolio[portfolio <= limit].mean()
    return -limit, -shortfall


def value_at_risk_xp(returns, weights):
    xp = gf.namespace(returns)
    portfolio = xp.sort(returns @ weights)
    n = portfolio.shape[0] // 20 + 1
    return -portfolio[n - 1], -xp.mean(portfolio[:n])


def minimum_variance(returns):
    sigma = np.cov(returns.T)
    weights = np.linalg.solve(sigma, np.ones(len(sigma)))
    return weights / weights.sum()


def minimum_variance_xp(returns):
    xp = gf.namespace(returns)
    centred = returns - xp.mean(returns, axis=0)
    sigma = centred.T @ centred / (returns.shape[0] - 1)
    weights = xp.linalg.solve(sigma, xp.ones(sigma.shape[0], dtype=sigma.dtype))
    return weights / xp.sum(weights)


def present_value(payments, rate):
    periods = np.arange(payments.shape[1])
    return np.sum(payments / (1 + rate) ** periods, axis=1)


def present_value_xp(payments, rate):
    xp = gf.namespace(payments)
    periods = xp.arange(payments.shape[1], dtype=payments.dtype)
    return xp.sum(payments / (1 + rate) ** periods, axis=1)


def bond_yield(prices):
    coupon, years = 0.04, np.arange(1, 11)
    y = np.full_like(prices, 0.03)
    for _ in range(6):
        factors = (1 + y[:, None]) ** -years
        value = coupon * factors.sum(axis=1) + factors[:, -1]
        slope = -(coupon * (years * factors).sum(axis=1) + 10 * factors[:, -1]) / (1 + y)
        y -= (value - prices) / slope
    return y


def bond_yield_xp(prices):
    xp = gf.namespace(prices)
    coupon, years = 0.04, xp.arange(1, 11, dtype=prices.dtype)
    y = xp.full_like(prices, 0.03)
    for _ in range(6):
        factors = (1 + xp.expand_dims(y, axis=1)) ** -years
        value = coupon * xp.sum(factors, axis=1) + factors[:, -1]
        slope = -(coupon * xp.sum(years * factors, axis=1) + 10 * factors[:, -1]) / (1 + y)
        y = y - (value - prices) / slope
    return y


def bollinger_breaks(prices):
    view = np.lib.stride_tricks.sliding_window_view(prices, 20)
    middle, width = view.mean(axis=1), view.std(axis=1)
    now = prices[19:]
    return np.count_nonzero((now > middle + 2 * width) | (now < middle - 2 * width))


def bollinger_breaks_xp(prices):
    xp = gf.namespace(prices)
    n = prices.shape[0] - 19
    view = xp.stack([prices[i : i + n] for i in range(20)], axis=1)
    away = xp.abs(prices[19:] - xp.mean(view, axis=1))
    return xp.count_nonzero(away > 2 * xp.std(view, axis=1))


def walk(size, rng):
    return (100 * np.exp(np.cumsum(0.01 * rng.standard_normal(max(size, 64)))),)


def walks(size, rng):
    steps = 0.01 * rng.standard_normal((max(size // 10, 12), 10))
    return (100 * np.exp(np.cumsum(steps, axis=0)),)


def weekly(size, rng):
    return rng.standard_normal((max(size // 52, 2), 52)), 100.0, 98


def weighted(size, rng):
    return (*rows(12)(size, rng), rng.dirichlet(np.ones(12)))


def plans(size, rng):
    return 1000 * rng.random((max(size // 24, 2), 24)), 0.03


def bonds(size, rng):
    return (0.8 + 0.4 * rng.random(max(size // 10, 2)),)


BODIES = (
    body(black_scholes, black_scholes_xp, three, nan, infinity, some_zeros, negative, huge, empty),
    body(asian_option, asian_option_xp, weekly, nan, infinity, huge, empty),
    body(worst_drawdown, worst_drawdown_xp, walk, nan, infinity, zero, empty),
    body(crossover, crossover_xp, walk, nan, infinity, empty),
    body(sharpe_ratio, sharpe_ratio_xp, walks, nan, infinity, some_zeros, constant, negative),
    body(value_at_risk, value_at_risk_xp, weighted, nan, infinity, huge, empty),
    body(minimum_variance, minimum_variance_xp, rows(12), nan, infinity, zero),
    body(present_value, present_value_xp, plans, nan, infinity, zero, huge, empty),
    body(bond_yield, bond_yield_xp, bonds, nan, infinity, zero, huge, empty),
    body(bollinger_breaks, bollinger_breaks_xp, walk, nan, infinity, constant, empty),
)
