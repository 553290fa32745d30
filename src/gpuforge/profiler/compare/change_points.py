"""Finding where the times of a benchmark changed over its stored runs.

The times are divided into segments so as to minimize the sum of the distances from the segments'
medians plus a penalty for each cut (an L1 Potts functional, solved exactly by dynamic programming).
A single outlier costs less than cutting it out. A cut is kept if the Mann-Whitney test of the
adjacent segments is significant and their medians differ enough.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from itertools import pairwise
from math import exp, inf, log
from statistics import median
from typing import NamedTuple

from gpuforge.profiler.compare.comparison import MINIMAL
from gpuforge.profiler.compare.evidence import mann_whitney

SEGMENT_AT_LEAST = 4
"""Shorter segments cannot be distinguished from chance."""
SIGNIFICANT = 0.01
_PRICE = 5.0
"""Penalty for a cut, in standard deviations. With the test it found a false change in 1 to 5 % of
simulated histories of 100 runs, and steps of two deviations in 80 % of histories of 30 runs."""
_SPREAD_OF_DIFFERENCES = 0.954  # median distance of two normal values, in standard deviations


class ChangePoint(NamedTuple):
    """A change between two runs.

    Attributes
    ----------
    place : index of the first run after the change
    before, after : medians of the runs on either side, up to the next change
    ratio : ``after / before - 1``
    p : p-value of the Mann-Whitney test of the two sides
    """

    place: int
    before: float
    after: float
    ratio: float
    p: float


def change_points(times: Sequence[float], *, minimal: float = MINIMAL) -> list[ChangePoint]:
    """Return the changes by at least `minimal` (a ratio) in positive `times`, in order of runs."""
    logs = [log(time) for time in times]
    cuts = _cuts(logs)
    while cuts:
        edges = [0, *cuts, len(logs)]
        found = [_between(logs, *edges[n : n + 3]) for n in range(len(cuts))]
        weak = [c for c in found if c.p >= SIGNIFICANT or abs(c.ratio) < minimal]
        if not weak:
            return found
        cuts.remove(max(weak, key=lambda change: change.p).place)
    return []


def _between(logs: Sequence[float], start: int, place: int, end: int) -> ChangePoint:
    before, after = logs[start:place], logs[place:end]
    low, high = median(before), median(after)
    p = mann_whitney(before, after).p
    return ChangePoint(place, exp(low), exp(high), exp(high - low) - 1, p)


def _cuts(values: Sequence[float]) -> list[int]:
    """Return the starts of all segments but the first in the cheapest segmentation."""
    count = len(values)
    if count < 2 * SEGMENT_AT_LEAST:
        return []
    steps = sorted(abs(after - before) for before, after in pairwise(values))
    deviation = median(steps) / _SPREAD_OF_DIFFERENCES
    price = _PRICE * deviation
    best, came_from = [0.0] + [inf] * count, [0] * (count + 1)
    for start in range(count):
        if best[start] == inf:
            continue
        for end, cost in _costs(values, start):
            total = best[start] + cost + price
            if end - start >= SEGMENT_AT_LEAST and total < best[end]:
                best[end], came_from[end] = total, start
    cuts, place = [], count
    while place:
        place = came_from[place]
        cuts.append(place)
    return sorted(cuts)[1:]


def _costs(values: Sequence[float], start: int) -> list[tuple[int, float]]:
    """Return, for each end of a segment from `start`, the sum of distances from its median."""
    ordered: list[float] = []
    found, cost = [], 0.0
    for end in range(start, len(values)):
        value, size = values[end], len(ordered)
        if size:  # the distance from the lower or upper median; 0 between them
            low, high = ordered[(size - 1) // 2], ordered[size // 2]
            cost += max(low - value, value - high, 0.0)
        insort(ordered, value)
        found.append((end + 1, cost))
    return found
