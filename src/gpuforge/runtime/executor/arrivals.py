"""How long a batch waits for further calls that are likely to arrive."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque

KEPT_GAPS = 64
"""Number of recent gaps between arrivals that are kept."""
MARGIN = 2.5
"""The wait in gaps: the queue is checked only at its end, and a burst has several."""
CLEAR_GAIN = 0.2
"""Share of the best possible gain that waiting must have achieved, since it is a guess."""
FEW_GAPS = 4
"""No batch waits before this many gaps were seen."""


class Arrivals:
    """The gaps between the calls of one signature."""

    def __init__(self) -> None:
        self.gaps: deque[float] = deque()
        self._sorted: list[float] = []
        self.last = float("-inf")

    def add(self, now: float) -> None:
        """Add the arrival of a call."""
        if self.last > float("-inf"):
            gap = now - self.last
            self.gaps.append(gap)
            insort(self._sorted, gap)
            if len(self.gaps) > KEPT_GAPS:
                del self._sorted[bisect_right(self._sorted, self.gaps.popleft()) - 1]
        self.last = now

    def wait_seconds(self, now: float, waiting: int, fixed: float, each: float) -> float:
        """Return how much longer `waiting` calls should wait for the next one; 0 for not at all.

        A batch of n calls takes ``fixed + n * each`` seconds. If it starts now, a call that arrives
        `r` seconds later waits for its end and pays `fixed` again. If it starts with that call, all
        of them wait for `r`, and the waiting ones for `each` as well. So waiting gains ``fixed -
        waiting * each - (waiting + 1) * r``, and loses ``waiting * w`` if no call arrives within a
        wait of `w` seconds. Chosen is the wait that would have gained most over the recent gaps
        that are longer than the time already passed.
        """
        profit = fixed - waiting * each
        if profit <= 0 or len(self.gaps) < FEW_GAPS:
            return 0.0
        passed = now - self.last
        first = bisect_right(self._sorted, passed)
        likely = self._sorted[first:]
        if not likely or (likely[0] - passed) * (waiting + 1) >= profit:
            return 0.0
        best, best_gain, gained = 0.0, CLEAR_GAIN * len(likely) * profit, 0.0
        for place, gap in enumerate(likely):
            rest = gap - passed
            gained += profit - (waiting + 1) * rest
            gain = gained - (len(likely) - place - 1) * waiting * rest
            if gain > best_gain:
                best, best_gain = rest, gain
        return best * MARGIN
