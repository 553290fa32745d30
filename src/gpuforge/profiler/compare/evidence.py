"""What measured times are evidence of: medians, their intervals, and whether two sets differ.

Nothing here supposes a distribution: times have long tails, and a mean or a t-test believes them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from math import comb, erfc, exp, floor, inf, sqrt
from statistics import NormalDist, median
from typing import NamedTuple

CONFIDENCE = 0.99
"""That of every interval for which no other is asked."""
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
_EXACT_AT_MOST = 40  # values up to which all ways to sign the ranks are counted


class Interval(NamedTuple):
    """A value, and between which two the true one is with a probability of `CONFIDENCE`."""

    value: float
    low: float
    high: float


class RankTest(NamedTuple):
    """Whether values of one kind are larger than those of another.

    Attributes
    ----------
    p : probability of a difference at least as large where there is none
    delta : Cliff's: how much more often a new value is above a base one than below, -1 to 1
    """

    p: float
    delta: float


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the median of at least one value, its interval by order statistics.

    By default, that of fewer than 8 values is infinite: none of them bounds the median so surely.
    """
    ordered, count = sorted(values), len(values)
    place, outside = -1, 0.0
    for below in range(count // 2):
        outside += comb(count, below) / 2 ** (count - 1)
        if outside > 1 - confidence:
            break
        place = below
    if place < 0:
        return Interval(median(ordered), -inf, inf)
    return Interval(median(ordered), ordered[place], ordered[-1 - place])


def mann_whitney(base: Sequence[float], new: Sequence[float]) -> RankTest:
    """Return the two-sided Mann-Whitney test of values that do not belong together in pairs.

    By the normal approximation, with ties and continuity.
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
    """Return the two-sided Mann-Whitney test of values in pairs, from the logs of their ratios.

    What both values of a pair share, such as the speed of the processor at that moment, is divided
    out of both. Under no difference the two may then be swapped within each pair, which makes the
    distribution of U that of Wilcoxon's signed ranks. Pairs of equal values count for neither.
    """
    differing = sorted((log for log in logs if log), key=abs)
    count = len(differing)
    above = sum(rank for rank, log in enumerate(differing, 1) if log > 0)
    most = count * (count + 1) // 2
    pairs = len(logs) ** 2
    # U counts each Walsh mean twice, but those of a value with itself.
    wins = 2 * above - sum(log > 0 for log in differing)
    losses = 2 * (most - above) - sum(log < 0 for log in differing)
    return RankTest(_signed_rank_p(count, min(above, most - above)), (wins - losses) / pairs)


def _signed_rank_p(count: int, smaller: int) -> float:
    """Return how probable so small a sum of the ranks of one sign, or a smaller one, is."""
    if count > _EXACT_AT_MOST:
        middle, spread = count * (count + 1) / 4, count * (count + 1) * (2 * count + 1) / 24
        return min(1.0, erfc((middle - smaller - 0.5) / sqrt(2 * spread)))
    ways = [1] + [0] * smaller
    for rank in range(1, count + 1):
        for total in range(smaller, rank - 1, -1):
            ways[total] += ways[total - rank]
    return min(1.0, sum(ways) * 0.5 ** (count - 1))


def paired_change(logs: Sequence[float]) -> Interval:
    """Return by which ratio values changed, less 1, from the logs of the ratios: 0.05 is 5 % more.

    The estimate is that of Hodges and Lehmann, the interval that of Wilcoxon's signed ranks.
    """
    means = sorted((x + y) / 2 for place, x in enumerate(logs) for y in logs[place:])
    count = len(logs)
    spread = _Z * sqrt(count * (count + 1) * (2 * count + 1) / 24)
    place = floor(len(means) / 2 - spread)
    middle = exp(median(means)) - 1
    if place < 0:
        return Interval(middle, -inf, inf)
    return Interval(middle, exp(means[place]) - 1, exp(means[-1 - place]) - 1)
