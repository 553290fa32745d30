"""Series of readings of a device, the host or a process, and how they move.

A series is a sequence of ``(seconds, value)``, the oldest first; a moment whose reading was absent
or failed is left out of it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import fmean, median, stdev
from typing import Literal

Series = Sequence[tuple[float, float]]
Kind = Literal["gpu", "host", "process"]

BLOCKS = 10
# Student's t for 90 % of the mean of so many steps from one block to the next, less one degree.
_T = 1.86
# The same for 95 %, for forecasts that are to hold nine times in ten: how steps scatter is a guess,
# and ten that depend on each other say less than ten that do not.
_T_AHEAD = 2.306
FINE, LAGS = 3, 5
PAUSES = 3.0
INDEPENDENT, BEYOND_DOUBT = 1.4, 4.0
REPEATS = 0.7
MOST_LATELY = 4


@dataclass(frozen=True)
class Subject:
    """What was watched.

    Attributes
    ----------
    name : as shown: ``GPU 0``, ``host``, ``process 4711``
    model : of a GPU, its name; devices of one model are compared with each other
    series : name of the reading, in base units (``memory_used_bytes``), to its series. A word that
        holds or does not is a series of 1 and 0: ``throttle_reasons:thermal``.
    """

    name: str
    kind: Kind
    model: str = ""
    series: Mapping[str, Series] = field(default_factory=dict)

    def last(self, name: str) -> float | None:
        """Return the newest value of a series, None where there is none."""
        found = self.series.get(name)
        return found[-1][1] if found else None

    def recent(self, name: str, seconds: float) -> list[float]:
        """Return the values of the last `seconds` of a series; none if it is not that long."""
        found = self.series.get(name, ())
        if not found or found[-1][0] - found[0][0] < 0.9 * seconds:
            return []
        first = bisect_left(found, (found[-1][0] - seconds,))
        return [value for _, value in found[first:]]

    def starting(self, start: str) -> Iterator[tuple[str, Series]]:
        """Yield what follows `start` in the names of series, each with its series."""
        for name, found in self.series.items():
            if name.startswith(start):
                yield name.removeprefix(start), found


@dataclass(frozen=True)
class Drift:
    """How a series moved from block to block, ten of equal length.

    Waves that repeat themselves are taken out first. Then a rise is beyond chance in one of two
    ways: each step up is, on average, more than steps scatter, as it must be for a level that
    wanders; or the readings scatter independently of each other around a straight line, which
    needs less, since a level that wanders does not do so.

    Attributes
    ----------
    seconds : of all of it
    change : of the first block to the last
    per_second : mean rate
    surely : whether a rise is beyond what chance explains, at 95 %
    continuing : whether it rose lately at least 0.4 times as fast as in all, was never higher than
        lately, and its floor has not stood still for three times as long as ever. *Lately* is
        the last fifth, or as long as it has ever stood still.
    peak : largest value of the last block
    """

    seconds: float
    change: float
    per_second: float
    surely: bool
    continuing: bool
    peak: float
    _step_seconds: float
    _step: float
    _spread: float

    def until(self, limit: float) -> Forecast:
        """Return when the series reaches `limit`, if it goes on like this."""
        remaining = max(0.0, limit - self.peak)
        steps = remaining / self._step if self._step > 0 else math.inf
        if not math.isfinite(steps) or steps == 0:
            seconds = 0.0 if remaining == 0 else math.inf
            return Forecast(seconds, seconds, seconds)
        # Both are uncertain: the rate that was seen, and how later steps scatter around it.
        margin = _T_AHEAD * self._spread * math.sqrt(1 / (BLOCKS - 1) + 1 / max(1.0, steps))
        slowest, fastest = self._step - margin, self._step + margin
        earliest = remaining / fastest * self._step_seconds
        latest = remaining / slowest * self._step_seconds if slowest > 0 else math.inf
        return Forecast(steps * self._step_seconds, earliest, latest)


@dataclass(frozen=True)
class Forecast:
    """When something will happen: expected, and an interval meant to hold nine times in ten.

    Attributes
    ----------
    seconds, earliest_seconds, latest_seconds : from now; infinite where it may never happen
    """

    seconds: float
    earliest_seconds: float
    latest_seconds: float

    def __str__(self) -> str:
        earliest, latest = map(_minutes, (self.earliest_seconds, self.latest_seconds))
        low, high = earliest.removesuffix(" minutes"), latest.removesuffix(" minutes")
        until = high if math.isfinite(self.latest_seconds) else "much later or never"
        return f"in about {_minutes(self.seconds)} (between {low} and {until})"


def _minutes(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "never"
    if seconds < 90:
        return f"{round(seconds)} seconds"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"


def drift(
    series: Series,
    *,
    at_least_seconds: float,
    of_block: Callable[[Sequence[float]], float] = median,
) -> Drift | None:
    """Return how a series moves, None where it is too short or has holes.

    Parameters
    ----------
    at_least_seconds
        Shorter series say nothing.
    of_block
        What stands for a block: its median, or its minimum, which allocations that come and go
        do not lift.
    """
    if not series or series[-1][0] - series[0][0] < at_least_seconds:
        return None
    flat = _without_waves(series)
    as_seen, levels = _blocks(series, BLOCKS, of_block), _blocks(flat, BLOCKS, of_block)
    if levels is None or as_seen is None:
        return None
    steps = [after - before for before, after in pairwise(levels)]
    step = fmean(steps)
    step_seconds = (flat[-1][0] - flat[0][0]) / BLOCKS
    seconds = series[-1][0] - series[0][0]
    last_still, still = _pauses(flat)
    lately = min(max(3, math.ceil(still / step_seconds) + 1), MOST_LATELY)
    wandering = step - _T * stdev(steps) / math.sqrt(len(steps)) > 0
    straight = _straight(_blocks(flat, 3 * BLOCKS, of_block))
    return Drift(
        seconds=seconds,
        change=levels[-1] - levels[0],
        per_second=step / step_seconds,
        surely=wandering or straight,
        continuing=(straight or _goes_on(levels, steps, lately))
        and last_still <= max(PAUSES * still, step_seconds / 4),
        peak=max(value for moment, value in series if moment >= series[-1][0] - seconds / BLOCKS),
        _step_seconds=seconds / BLOCKS,
        _step=step / step_seconds * seconds / BLOCKS,
        _spread=max(_spread(as_seen), _fine_spread(_blocks(series, FINE * BLOCKS, of_block))),
    )


def _blocks(
    series: Series, count: int, of_block: Callable[[Sequence[float]], float]
) -> list[float] | None:
    """Return what stands for each of so many blocks; None where one has less than two readings."""
    start, span = series[0][0], series[-1][0] - series[0][0]
    blocks: list[list[float]] = [[] for _ in range(count)]
    for moment, value in series:
        blocks[min(int((moment - start) / span * count), count - 1)].append(value)
    return None if min(map(len, blocks)) < 2 else [of_block(block) for block in blocks]


def _spread(levels: Sequence[float]) -> float:
    """Return how steps scatter; more where one that is large comes after another.

    Of few steps, what one tells of the next looks smaller than it is (Kendall, 1954).
    """
    steps = [after - before for before, after in pairwise(levels)]
    spread = stdev(steps)
    ratio = _along(steps, 1) / spread**2 * len(steps) / (len(steps) - 1) if spread else 0.0
    ratio += (1 + 4 * ratio) / len(steps)
    return spread * math.sqrt(1 + 2 * min(max(0.0, ratio), 0.8))


def _fine_spread(levels: Sequence[float] | None) -> float:
    """Return how steps of whole blocks scatter by steps of parts of them: 0 where there are none.

    They show what ten blocks hide, like pieces of memory that are taken every half block. Weights
    fall with the lag (Bartlett); what the mean takes out of the sum is given back.
    """
    if levels is None:
        return 0.0
    steps = [after - before for before, after in pairwise(levels)]
    weights = [1.0, *(2 * (1 - lag / (LAGS + 1)) for lag in range(1, LAGS + 1))]
    found = sum(weight * _along(steps, lag) for lag, weight in enumerate(weights))
    lost = 1 - (2 * LAGS + 1) * 2 / 3 / len(steps)
    return math.sqrt(max(0.0, found) / lost * FINE)


def _along(values: Sequence[float], lag: int) -> float:
    """Return the covariance of values with those `lag` places later."""
    middle = fmean(values)
    later = zip(values, values[lag:], strict=False)
    return sum((a - middle) * (b - middle) for a, b in later) / len(values)


def _goes_on(levels: Sequence[float], steps: Sequence[float], lately: int) -> bool:
    step = fmean(steps)
    return (
        step > 0
        and fmean(steps[-lately:]) >= 0.4 * step
        and fmean(steps[1 - lately :]) >= 0.25 * step
        and max(levels[1 - lately :]) == max(levels)
    )


def _pauses(series: Series) -> tuple[float, float]:
    """Return for how long the floor has stood still now, and the longest that it did so before.

    The floor at a moment is the least from then on: what goes up for a while does not lift it.
    """
    moment, least = series[-1]
    pauses = []
    for before, value in reversed(series):
        if value < least:
            pauses.append(moment - before)
            moment, least = before, value
    return pauses[0] if pauses else 0.0, max(pauses[1:], default=0.0)


def _line(values: Sequence[float]) -> tuple[float, list[float]]:
    """Return the slope of the line of least squares, and what is left beside it."""
    middle, mean = (len(values) - 1) / 2, fmean(values)
    squares = sum((n - middle) ** 2 for n in range(len(values)))
    slope = sum((n - middle) * value for n, value in enumerate(values)) / squares
    return slope, [value - mean - slope * (n - middle) for n, value in enumerate(values)]


def _straight(levels: Sequence[float] | None) -> bool:
    """Tell whether levels scatter independently around a line that rises, both beyond doubt.

    Durbin's and Watson's ratio is 2 for what is independent; of 30 levels that wander it is
    below 1.4 in all but one of a thousand.
    """
    if levels is None:
        return False
    slope, rest = _line(levels)
    squares = sum(value**2 for value in rest)
    if slope <= 0 or not squares:
        return slope > 0
    independent = sum((b - a) ** 2 for a, b in pairwise(rest)) / squares >= INDEPENDENT
    count = len(levels)
    error = math.sqrt(squares / (count - 2) / (count * (count**2 - 1) / 12))
    return independent and slope > BEYOND_DOUBT * error


def _without_waves(series: Series) -> Series:
    """Return a series without the waves that repeat themselves in it, if there are any.

    Each reading becomes the mean of one period up to it.
    """
    values = [value for _, value in series]
    period = _period(values)
    if not period:
        return series
    sums = [0.0, *accumulate(values)]
    return [
        (series[n - 1][0], (sums[n] - sums[n - period]) / period) for n in range(period, len(sums))
    ]


def _period(values: Sequence[float]) -> int:
    """Return after how many readings a series repeats itself, at least three times; 0 if never.

    That is where it is most like itself, once it has been unlike itself.
    """
    width = max(1, len(values) // 120)
    bins = [fmean(values[n : n + width]) for n in range(0, len(values) - width + 1, width)]
    _, rest = _line(bins)
    squares = fmean(value**2 for value in rest)
    if not squares:
        return 0
    likeness = [
        fmean(a * b for a, b in zip(rest, rest[lag:], strict=False)) / squares
        for lag in range(len(bins) // 3 + 1)
    ]
    unlike = next((lag for lag, value in enumerate(likeness) if value < 0), len(likeness))
    best = max(range(unlike, len(likeness)), key=likeness.__getitem__, default=0)
    return best * width if likeness[best] >= REPEATS and unlike < len(likeness) else 0
