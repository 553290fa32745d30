"""Statistics of measured times: medians, confidence intervals, and tests of differences.

All methods are distribution-free, because times have long tails that distort means and t-tests.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from math import comb, erfc, exp, floor, inf, sqrt
from statistics import NormalDist, median
from typing import NamedTuple

CONFIDENCE = 0.99
"""Confidence level of intervals."""
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
_EXACT_AT_MOST = 40  # number of values up to which the exact distribution is computed


class Interval(NamedTuple):
    """An estimate and its confidence interval."""

    value: float
    low: float
    high: float


class RankTest(NamedTuple):
    """The result of a rank test of new values against base values.

    Attributes
    ----------
    p : p-value
    delta : Cliff's delta, -1 to 1: how much more often a new value is above a base value than below
    """

    p: float
    delta: float


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median of at least one value, and its interval by order statistics.

    The interval of fewer than 8 values is infinite.
    """
    ordered, count = sorted(values), len(values)
    place, outside = -1, 0.0
    for below in range(count // 2):
        outside += comb(count, below) / 2 ** (count - 1)
        if outside > 1 - CONFIDENCE:
            break
        place = below
    if place < 0:
        return Interval(median(ordered), -inf, inf)
    return Interval(median(ordered), ordered[place], ordered[-1 - place])


def mann_whitney(base: Sequence[float], new: Sequence[float]) -> RankTest:
    """Return the two-sided Mann-Whitney test of unpaired values.

    It uses the normal approximation with corrections for ties and continuity.
    """
    ordered, total = sorted(base), len(base) + len(new)
    wins = sum(bisect_left(ordered, value) + bisect_right(ordered, value) for value in new) / 2
    ties = sum(same**3 - same for same in Counter([*base, *new]).values())
    half = len(base) * len(new) / 2
    variance = half / 6 * (total + 1 - ties / (total * (total - 1)))
    distance = max(0.0, abs(wins - half) - 0.5)
    p = erfc(distance / sqrt(2 * variance)) if variance > 0 else 1.0
    return RankTest(p, wins / half - 1)


def paired_test(logs: Sequence[float]) -> RankTest:
    """Return the two-sided rank test of paired values, from the logarithms of their ratios.

    The ratio cancels what both values of a pair share, such as the current speed of the processor.
    Under the null hypothesis the values of a pair may be swapped, so that U has the distribution of
    Wilcoxon's signed-rank statistic. Pairs of equal values count for neither side.
    """
    differing = sorted((log for log in logs if log), key=abs)
    count = len(differing)
    above = sum(rank for rank, log in enumerate(differing, 1) if log > 0)
    most = count * (count + 1) // 2
    pairs = len(logs) ** 2
    # U counts each Walsh average twice, except those of a value with itself.
    wins = 2 * above - sum(log > 0 for log in differing)
    losses = 2 * (most - above) - sum(log < 0 for log in differing)
    return RankTest(_signed_rank_p(count, min(above, most - above)), (wins - losses) / pairs)


def _signed_rank_p(count: int, smaller: int) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank statistic."""
    if count > _EXACT_AT_MOST:
        middle, spread = count * (count + 1) / 4, count * (count + 1) * (2 * count + 1) / 24
        return min(1.0, erfc((middle - smaller - 0.5) / sqrt(2 * spread)))
    ways = [1] + [0] * smaller
    for rank in range(1, count + 1):
        for total in range(smaller, rank - 1, -1):
            ways[total] += ways[total - rank]
    return min(1.0, sum(ways) * 0.5 ** (count - 1))


def paired_change(logs: Sequence[float]) -> Interval:
    """Return the relative change (0.05 is 5 % more) from the logarithms of the ratios.

    This is the Hodges-Lehmann estimate, with the interval of Wilcoxon's signed-rank test.
    """
    means = sorted((x + y) / 2 for place, x in enumerate(logs) for y in logs[place:])
    count = len(logs)
    spread = _Z * sqrt(count * (count + 1) * (2 * count + 1) / 24)
    place = floor(len(means) / 2 - spread)
    middle = exp(median(means)) - 1
    if place < 0:
        return Interval(middle, -inf, inf)
    return Interval(middle, exp(means[place]) - 1, exp(means[-1 - place]) - 1)
