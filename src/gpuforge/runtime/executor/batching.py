"""How many calls of one signature are made together, and how long is waited for more."""

from __future__ import annotations

from gpuforge.runtime.executor.arrivals import Arrivals

MAX_BATCH = 64
SMALL_SECONDS = 20e-3
"""Longer calls are made alone: together they would gain little and hold each other up."""
WORTH, NO_GAIN = 0.85, 0.95
"""More are made together while that takes at most the first share of what they take one after
another, fewer once it takes more than the second."""
TRIED_AGAIN_AFTER = 500
"""Calls made alone before it is tried again to make some together."""
OUTLIER = 4.0
"""What took more than so many times the usual was held up by something else."""
FORGETTING = 0.95
"""What a sample still counts when the next one is taken in."""


class Batching:
    """What is known of the calls of one signature.

    Attributes
    ----------
    most : how many are made together at most, now
    single_seconds : what one takes alone; 0 as long as that is not known
    fixed_seconds, each_seconds : a batch of n takes about ``fixed + n * each``
    """

    def __init__(self) -> None:
        self.arrivals = Arrivals()
        self.most = 1
        self.single_seconds = self.fixed_seconds = self.each_seconds = 0.0
        self._alone = 0
        self._again_after = 3
        self._share = WORTH
        self._sums = (0.0, 0.0, 0.0, 0.0, 0.0)

    def learn(self, calls: int, seconds: float) -> None:
        """Take in that `calls` made together took `seconds`."""
        usual = self.fixed_seconds + calls * self.each_seconds
        if usual:
            seconds = min(seconds, OUTLIER * usual)
        self._fit(calls, seconds)
        if calls > 1:
            self._weigh(calls, seconds)
            return
        known = self.single_seconds
        self.single_seconds = known + 0.2 * (seconds - known) if known else seconds
        self._alone += 1
        if self.most == 1 and self._alone >= self._again_after:
            self.most = 2 if self.single_seconds < SMALL_SECONDS else 1
            self._alone = 0

    def _weigh(self, calls: int, seconds: float) -> None:
        """Let more or fewer calls be made together, by what that gains."""
        share = seconds / (calls * self.single_seconds)
        self._share += 0.25 * (min(share, 2.0) - self._share)
        if self._share <= WORTH and calls == self.most:
            self.most = min(2 * self.most, MAX_BATCH)
        elif self._share > NO_GAIN:
            self.most = max(self.most // 2, 1)
            self._share = WORTH
            self._again_after = TRIED_AGAIN_AFTER

    def _fit(self, calls: int, seconds: float) -> None:
        """Fit a line to what batches took, the older ones counting less."""
        new = (1.0, calls, seconds, calls * calls, calls * seconds)
        self._sums = tuple(FORGETTING * old + one for old, one in zip(self._sums, new, strict=True))  # type: ignore[assignment]
        weight, n, s, nn, ns = self._sums
        spread = weight * nn - n * n
        if spread > 1e-9 * nn * weight:
            self.each_seconds = max((weight * ns - n * s) / spread, 0.0)
            self.fixed_seconds = max((s - self.each_seconds * n) / weight, 0.0)

    def wait_until(self, now: float, waiting: int, oldest: float, latency: float) -> float:
        """Return until when a batch of `waiting` calls should wait for more; `now`: not at all."""
        if self.most <= waiting:
            return now
        wait = self.arrivals.wait_seconds(now, waiting, self.fixed_seconds, self.each_seconds)
        return max(now, min(now + wait, oldest + latency))
