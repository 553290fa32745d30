"""Time series of readings of a device, the host or a process, and their trends.

A series is a sequence of ``(seconds, value)``, oldest first; readings that were absent or failed
are left out.
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
# Student's t, two-sided 90 %, with 8 degrees of freedom: for the mean of nine steps between blocks.
_T = 1.86
# The same for 95 %, for forecasts that should hold nine times in ten: the scatter of steps is only
# estimated, and correlated steps carry less information than independent ones.
_T_AHEAD = 2.306
FINE, LAGS = 3, 5
PAUSES = 3.0
INDEPENDENT, BEYOND_DOUBT = 1.4, 4.0
REPEATS = 0.7
MOST_LATELY = 4
STILL_SHARE, RISES = 0.005, 4


@dataclass(frozen=True)
class Subject:
    """A device, the host or a process that is monitored.

    Attributes
    ----------
    name : its name for the user: ``GPU 0``, ``host``, ``process 4711``
    model : the name of a GPU; devices of the same model are compared with each other
    series : series in base units by name of the reading (``memory_used_bytes``). A condition, such
        as ``throttle_reasons:thermal``, is a series of 1 and 0.
    """

    name: str
    kind: Kind
    model: str = ""
    series: Mapping[str, Series] = field(default_factory=dict)

    def last(self, name: str) -> float | None:
        """Return the newest value of a series, or None if there is none."""
        found = self.series.get(name)
        return found[-1][1] if found else None

    def recent(self, name: str, seconds: float) -> list[float]:
        """Return the values of the last `seconds` of a series; empty if it is shorter than that."""
        found = self.series.get(name, ())
        if not found or found[-1][0] - found[0][0] < 0.9 * seconds:
            return []
        first = bisect_left(found, (found[-1][0] - seconds,))
        return [value for _, value in found[first:]]

    def starting(self, start: str) -> Iterator[tuple[str, Series]]:
        """Yield the series whose names begin with `start`, under the rest of their names."""
        for name, found in self.series.items():
            if name.startswith(start):
                yield name.removeprefix(start), found


@dataclass(frozen=True)
class Drift:
    """The trend of a series, from the levels of ten blocks of equal length.

    Periodic components are removed first. Then a rise is significant in one of two cases. Either
    at least four steps between blocks rise, and the mean step is large compared with the scatter of
    the steps, which is required of a series that may be a random walk. Or the readings scatter
    independently around a rising straight line; less is required then, because a random walk does
    not do so.

    Attributes
    ----------
    seconds : length of the series
    change : change of the level from the first block to the last
    per_second : mean rate of change
    surely : whether the rise is significant at the 95 % level
    continuing : whether it recently rose at least 0.4 times as fast as overall, was never higher
        before, and its floor has not paused for three times as long as ever before. *Recently* is
        the last fifth, or the longest pause if that is longer.
    peak : largest value in the last block
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
        """Return when the series will reach `limit` if the trend continues."""
        remaining = max(0.0, limit - self.peak)
        steps = remaining / self._step if self._step > 0 else math.inf
        if not math.isfinite(steps) or steps == 0:
            seconds = 0.0 if remaining == 0 else math.inf
            return Forecast(seconds, seconds, seconds)
        # Both the observed rate and the scatter of future steps around it are uncertain.
        margin = _T_AHEAD * self._spread * math.sqrt(1 / (BLOCKS - 1) + 1 / max(1.0, steps))
        slowest, fastest = self._step - margin, self._step + margin
        earliest = remaining / fastest * self._step_seconds
        latest = remaining / slowest * self._step_seconds if slowest > 0 else math.inf
        return Forecast(steps * self._step_seconds, earliest, latest)


@dataclass(frozen=True)
class Forecast:
    """When something will happen, with an interval that should hold nine times in ten.

    Attributes
    ----------
    seconds, earliest_seconds, latest_seconds : from now; infinite if it may never happen
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
    """Return the trend of a series, or None if it is too short or has gaps.

    Parameters
    ----------
    at_least_seconds
        The minimum length of the series.
    of_block
        The level of a block: its median, or its minimum, which temporary allocations do not
        raise.
    """
    if not series or series[-1][0] - series[0][0] < at_least_seconds:
        return None
    flat = _without_periods(series)
    as_seen, levels = _blocks(series, BLOCKS, of_block), _blocks(flat, BLOCKS, of_block)
    if levels is None or as_seen is None:
        return None
    steps = [after - before for before, after in pairwise(levels)]
    step = fmean(steps)
    step_seconds = (flat[-1][0] - flat[0][0]) / BLOCKS
    seconds = series[-1][0] - series[0][0]
    noise = STILL_SHARE * max(0.0, levels[-1] - levels[0])
    last_still, still = _pauses(flat, noise)
    lately = min(max(3, math.ceil(still / step_seconds) + 1), MOST_LATELY)
    wandering = step - _T * stdev(steps) / math.sqrt(len(steps)) > 0
    wandering = wandering and sum(one > noise for one in steps) >= RISES
    straight = _is_straight(_blocks(flat, 3 * BLOCKS, of_block))
    return Drift(
        seconds=seconds,
        change=levels[-1] - levels[0],
        per_second=step / step_seconds,
        surely=wandering or straight,
        continuing=(straight or _keeps_rising(levels, steps, lately))
        and last_still <= max(PAUSES * still, step_seconds / 4),
        peak=max(value for moment, value in series if moment >= series[-1][0] - seconds / BLOCKS),
        _step_seconds=seconds / BLOCKS,
        _step=step / step_seconds * seconds / BLOCKS,
        _spread=max(_spread(as_seen), _fine_spread(_blocks(series, FINE * BLOCKS, of_block))),
    )


def _blocks(
    series: Series, count: int, of_block: Callable[[Sequence[float]], float]
) -> list[float] | None:
    """Return the level of each block; None if a block has fewer than two readings."""
    start, span = series[0][0], series[-1][0] - series[0][0]
    blocks: list[list[float]] = [[] for _ in range(count)]
    for moment, value in series:
        blocks[min(int((moment - start) / span * count), count - 1)].append(value)
    return None if min(map(len, blocks)) < 2 else [of_block(block) for block in blocks]


def _spread(levels: Sequence[float]) -> float:
    """Return the scatter of the steps between levels, larger for correlated steps.

    The estimate of the autocorrelation is corrected for its bias for few steps (Kendall, 1954).
    """
    steps = [after - before for before, after in pairwise(levels)]
    spread = stdev(steps)
    ratio = _autocovariance(steps, 1) / spread**2 * len(steps) / (len(steps) - 1) if spread else 0.0
    ratio += (1 + 4 * ratio) / len(steps)
    return spread * math.sqrt(1 + 2 * min(max(0.0, ratio), 0.8))


def _fine_spread(levels: Sequence[float] | None) -> float:
    """Return the scatter of block steps estimated from steps of thirds of blocks; 0 without them.

    They show variation that ten blocks hide, such as memory that is allocated every half block. The
    weights decrease with the lag (Bartlett); `lost` corrects for subtracting the estimated mean.
    """
    if levels is None:
        return 0.0
    steps = [after - before for before, after in pairwise(levels)]
    weights = [1.0, *(2 * (1 - lag / (LAGS + 1)) for lag in range(1, LAGS + 1))]
    found = sum(weight * _autocovariance(steps, lag) for lag, weight in enumerate(weights))
    lost = 1 - (2 * LAGS + 1) * 2 / 3 / len(steps)
    return math.sqrt(max(0.0, found) / lost * FINE)


def _autocovariance(values: Sequence[float], lag: int) -> float:
    """Return the autocovariance of values at a lag."""
    middle = fmean(values)
    later = zip(values, values[lag:], strict=False)
    return sum((a - middle) * (b - middle) for a, b in later) / len(values)


def _keeps_rising(levels: Sequence[float], steps: Sequence[float], lately: int) -> bool:
    step = fmean(steps)
    return (
        step > 0
        and fmean(steps[-lately:]) >= 0.4 * step
        and fmean(steps[1 - lately :]) >= 0.25 * step
        and max(levels[1 - lately :]) == max(levels)
    )


def _pauses(series: Series, noise: float) -> tuple[float, float]:
    """Return the length of the floor's current pause, and of its longest earlier pause.

    The floor at a time is the minimum from then on, so temporary increases do not raise it; nor
    does noise that is within `noise`.
    """
    moment, least = series[-1]
    pauses = []
    for before, value in reversed(series):
        if value < least - noise:
            pauses.append(moment - before)
            moment, least = before, value
    return pauses[0] if pauses else 0.0, max(pauses[1:], default=0.0)


def _line(values: Sequence[float]) -> tuple[float, list[float]]:
    """Return the slope of the least squares line, and the residuals."""
    middle, mean = (len(values) - 1) / 2, fmean(values)
    squares = sum((n - middle) ** 2 for n in range(len(values)))
    slope = sum((n - middle) * value for n, value in enumerate(values)) / squares
    return slope, [value - mean - slope * (n - middle) for n, value in enumerate(values)]


def _is_straight(levels: Sequence[float] | None) -> bool:
    """Return whether levels scatter independently around a significantly rising line.

    The Durbin-Watson statistic is 2 for independent residuals; for a random walk of 30 levels it is
    below 1.4 in all but one of a thousand cases.
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


def _without_periods(series: Series) -> Series:
    """Return a series without its periodic component, if it has one.

    Each reading is replaced by the mean of one period up to it.
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
    """Return the period of a series in readings, at most a third of its length; 0 if there is none.

    It is the lag of the largest autocorrelation after the first negative one.
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
