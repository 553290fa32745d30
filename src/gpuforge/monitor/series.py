"""Series of readings of a device, the host or a process, and how they move.

A series is a sequence of ``(seconds, value)``, the oldest first; a moment whose reading was absent
or failed is left out of it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median, stdev
from typing import Literal

Series = Sequence[tuple[float, float]]
Kind = Literal["gpu", "host", "process"]

BLOCKS = 10
# Student's t for 90 % of the mean of so many steps from one block to the next, less one degree.
_T = 1.86


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

    Attributes
    ----------
    seconds : of all of it
    change : of the first block to the last
    per_second : mean rate
    surely : whether a rise is beyond what chance explains, at 95 %
    continuing : whether the last three steps rose at least 0.4 times as fast as all, and the last
        one a quarter as fast
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
        margin = _T * self._spread * math.sqrt(1 / (BLOCKS - 1) + 1 / max(1.0, steps))
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
    if not series or (span := series[-1][0] - series[0][0]) < at_least_seconds:
        return None
    blocks: list[list[float]] = [[] for _ in range(BLOCKS)]
    for moment, value in series:
        place = int((moment - series[0][0]) / span * BLOCKS)
        blocks[min(place, BLOCKS - 1)].append(value)
    if min(map(len, blocks)) < 2:
        return None
    levels = [of_block(block) for block in blocks]
    steps = [after - before for before, after in pairwise(levels)]
    step, spread = fmean(steps), stdev(steps)
    step_seconds = span / BLOCKS
    return Drift(
        seconds=span,
        change=levels[-1] - levels[0],
        per_second=step / step_seconds,
        surely=step - _T * spread / math.sqrt(len(steps)) > 0,
        continuing=step > 0
        and fmean(steps[-3:]) >= 0.4 * step
        and steps[-1] >= 0.25 * step
        and levels[-1] == max(levels),
        peak=max(blocks[-1]),
        _step_seconds=step_seconds,
        _step=step,
        _spread=spread,
    )
