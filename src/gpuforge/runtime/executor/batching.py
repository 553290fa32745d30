"""How many calls of one signature are batched, and how long a batch waits for more."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from gpuforge.runtime.executor.arrivals import Arrivals

MAX_BATCH = 64
SMALL_SECONDS = 20e-3
"""Longer calls are not batched: they would gain little and delay each other."""
WORTH, NO_GAIN = 0.85, 0.95
"""The batch size grows while a batch takes at most the first share of the time of single calls, and
shrinks once it takes more than the second."""
LOOKED_BACK_ON = 5
"""Number of recent batches whose median counts, so that one delayed batch has no effect."""
FIRST_TRY, LAST_TRY = 3, 1000
"""Number of single calls before batching is tried: at first, and at most after repeated
failures."""
OUTLIER = 4.0
"""A batch that took more than this many times the usual time was delayed by something else."""
FORGETTING = 0.95
"""Weight that remains of a sample when the next one is added."""


class Batching:
    """What is known about batching the calls of one signature.

    Attributes
    ----------
    most : current maximum batch size
    fixed_seconds, each_seconds : a batch of n takes about ``fixed + n * each``
    """

    def __init__(self) -> None:
        self.arrivals = Arrivals()
        self.most = 1
        self.fixed_seconds = self.each_seconds = 0.0
        self._singles: deque[float] = deque(maxlen=2 * LOOKED_BACK_ON)
        self._shares: deque[float] = deque(maxlen=LOOKED_BACK_ON)
        self._alone = 0
        self._again_after = FIRST_TRY
        self._sums = (0.0, 0.0, 0.0, 0.0, 0.0)

    def arrive(self, now: float) -> None:
        """Add the arrival of a call."""
        if self.most > 1:
            self.arrivals.add(now)

    def learn(self, calls: int, seconds: float) -> None:
        """Learn that a batch of `calls` took `seconds`."""
        if calls > 1 or self.most > 1 or self._alone < self._again_after:
            self._fit(calls, seconds)
        if calls > 1:
            self._weigh(calls, seconds)
            return
        self._singles.append(seconds)
        self._alone += 1
        if self.most == 1 and self._alone >= self._again_after:
            self.most = 2 if median(self._singles) < SMALL_SECONDS else 1
            self._alone = 0

    def _weigh(self, calls: int, seconds: float) -> None:
        """Raise or lower the maximum batch size, by what batching gains."""
        self._shares.append(seconds / (calls * median(self._singles)))
        share = median(self._shares)
        if share <= WORTH and calls == self.most < MAX_BATCH:
            self.most = 2 * self.most
            self._again_after = FIRST_TRY
            self._shares.clear()
        elif share > NO_GAIN and len(self._shares) > LOOKED_BACK_ON // 2:
            self.most = self.most // 2
            self._shares.clear()
            if self.most == 1:
                self._again_after = min(4 * self._again_after, LAST_TRY)

    def _fit(self, calls: int, seconds: float) -> None:
        """Fit a line to the times of batches, with decreasing weights for older ones."""
        usual = self.fixed_seconds + calls * self.each_seconds
        if usual:
            seconds = min(seconds, OUTLIER * usual)
        weight, n, s, nn, ns = [FORGETTING * one for one in self._sums]
        weight, n, s = weight + 1, n + calls, s + seconds
        nn, ns = nn + calls * calls, ns + calls * seconds
        self._sums = weight, n, s, nn, ns
        spread = weight * nn - n * n
        if spread > 1e-9 * nn * weight:
            self.each_seconds = max((weight * ns - n * s) / spread, 0.0)
            self.fixed_seconds = max((s - self.each_seconds * n) / weight, 0.0)

    def is_enough(self, waiting: int) -> bool:
        """Return whether a batch of `waiting` calls should start without waiting for more."""
        return waiting >= self.most or waiting * self.each_seconds >= self.fixed_seconds

    def wait_until(self, now: float, waiting: int, oldest: float, latency: float) -> float:
        """Return until when a batch of `waiting` calls should wait for more; `now`: not at all."""
        if self.most <= waiting:
            return now
        wait = self.arrivals.wait_seconds(now, waiting, self.fixed_seconds, self.each_seconds)
        return max(now, min(now + wait, oldest + latency))


def median(values: Collection[float]) -> float:
    """Return the median; importing `statistics` for it would take milliseconds."""
    return sorted(values)[len(values) // 2]
