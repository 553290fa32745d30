"""Whether a series of readings grows: a robust slope, its interval, and a verdict.

The slope is that of Theil and Sen: the median of the slopes between all pairs of readings, which a
few outliers do not move. Readings that follow each other are alike, so its interval comes from a
bootstrap of blocks of the residuals (Künsch, "The Jackknife and the Bootstrap for General
Stationary Observations", Annals of Statistics 17, 1989), not from formulas for independent ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEAST_READINGS = 12
CONFIDENCE = 0.99
"""Some thirty series are judged at once: at 95 % one of them would grow by chance."""
RESAMPLES = 1000
GROWS, STEADY, UNDECIDED, TOO_SHORT = "grows", "steady", "undecided", "too few readings"


@dataclass(frozen=True)
class Trend:
    """What a series does from its first reading to its last.

    Attributes
    ----------
    verdict : GROWS where growth is proven, and the estimate is one that matters; STEADY where
        growth that matters is excluded; UNDECIDED where neither is
    growth : by the slope, over the whole time, in the unit of the readings
    low, high : the interval of that growth
    matters : how much growth matters
    middle : the median of the readings
    """

    verdict: str
    readings: int
    growth: float = 0.0
    low: float = 0.0
    high: float = 0.0
    matters: float = 0.0
    middle: float = 0.0


def judge(times: list[float], values: list[float], share: float, least: float) -> Trend:
    """Return the trend of a series; growth matters from `share` of its median, or `least`, on."""
    if len(values) < LEAST_READINGS:
        return Trend(TOO_SHORT, len(values))
    x, y = np.array(times), np.array(values)
    middle, span = float(np.median(y)), float(x[-1] - x[0])
    matters = max(share * middle, least)
    slope = _slopes(x, y[None])[0]
    low, high = np.quantile(
        _slopes(x, _resampled(x, y, slope)), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    )
    growth, low, high = float(slope * span), float(low * span), float(high * span)
    verdict = UNDECIDED
    if low > 0 and growth >= matters:
        verdict = GROWS
    elif high < matters:
        verdict = STEADY
    return Trend(verdict, len(values), growth, low, high, matters, middle)


def _slopes(x: NDArray[np.float64], series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median slope between all pairs of readings, for each row of `series`."""
    first, second = np.triu_indices(len(x), 1)
    apart = x[second] - x[first]
    return np.array([np.median((y[second] - y[first]) / apart) for y in series])


def _resampled(x: NDArray[np.float64], y: NDArray[np.float64], slope: float) -> NDArray[np.float64]:
    """Return series with this slope, whose residuals are drawn in blocks of those of `y`."""
    count = len(y)
    block = round(count**0.5)
    residuals = y - slope * x
    draws = np.random.default_rng(0).integers(0, count, (RESAMPLES, -(-count // block), 1))
    places = (draws + np.arange(block)).reshape(RESAMPLES, -1)[:, :count] % count
    return np.asarray(slope * x + residuals[places])
