"""How many calls of one signature are made together, and how long is waited for more."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from gpuforge.runtime.executor.arrivals import Arrivals

MAX_BATCH = 64
SMALL_SECONDS = 20e-3
"""Longer calls are made alone: together they would gain little and hold each other up."""
WORTH, NO_GAIN = 0.85, 0.95
"""More are made together while that takes at most the first share of what they take one after
another, fewer once it takes more than the second."""
LOOKED_BACK_ON = 5
"""So many batches are looked back on; their median is not moved by one that was held up."""
FIRST_TRY, LAST_TRY = 3, 1000
"""After so many calls made alone it is tried to make some together: at first, and at most if that
has failed again and again."""
OUTLIER = 4.0
"""What took more than so many times the usual was held up by something else."""
FORGETTING = 0.95
"""What a sample still counts when the next one is taken in."""


class Batching:
    """What is known of the calls of one signature.

    Attributes
    ----------
    most : how many are made together at most, now
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
        """Take in a call that arrived."""
        if self.most > 1:
            self.arrivals.add(now)

    def learn(self, calls: int, seconds: float) -> None:
        """Take in that `calls` made together took `seconds`."""
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
        """Let more or fewer calls be made together, by what that gains."""
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
        """Fit a line to what batches took, the older ones counting less."""
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
        """Return whether so many calls need not wait for another one."""
        return waiting >= self.most or waiting * self.each_seconds >= self.fixed_seconds

    def wait_until(self, now: float, waiting: int, oldest: float, latency: float) -> float:
        """Return until when a batch of `waiting` calls should wait for more; `now`: not at all."""
        if self.most <= waiting:
            return now
        wait = self.arrivals.wait_seconds(now, waiting, self.fixed_seconds, self.each_seconds)
        return max(now, min(now + wait, oldest + latency))


def median(values: Collection[float]) -> float:
    """Return the middle one; importing `statistics` for it would take milliseconds."""
    return sorted(values)[len(values) // 2]
