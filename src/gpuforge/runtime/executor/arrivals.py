"""How long a batch waits for calls that are likely to come."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque

KEPT_GAPS = 64
"""Gaps between arrivals that are looked back on."""
MARGIN = 2.5
"""So many times the gap is waited: it is looked again at the end only, and a burst has several."""
CLEAR_GAIN = 0.2
"""Share of what could be gained at best that waiting must have gained: it is a guess, after all."""
FEW_GAPS = 4
"""Nothing is waited for before so many were seen."""


class Arrivals:
    """The gaps between the calls of one signature."""

    def __init__(self) -> None:
        self.gaps: deque[float] = deque()
        self._sorted: list[float] = []
        self.last = float("-inf")

    def add(self, now: float) -> None:
        """Take in a call that arrived."""
        if self.last > float("-inf"):
            gap = now - self.last
            self.gaps.append(gap)
            insort(self._sorted, gap)
            if len(self.gaps) > KEPT_GAPS:
                del self._sorted[bisect_right(self._sorted, self.gaps.popleft()) - 1]
        self.last = now

    def wait_seconds(self, now: float, waiting: int, fixed: float, each: float) -> float:
        """Return how much longer `waiting` calls should wait for the next one; 0: not at all.

        A batch of n calls takes ``fixed + n * each`` seconds. Started now, it lets a call that
        comes `r` seconds later wait for its end and pay `fixed` again. Started with that call, it
        lets all of them wait for `r`, and the ones that are there for `each` as well. So waiting
        gains ``fixed - waiting * each - (waiting + 1) * r``, and loses ``waiting * w`` where
        nobody comes within the `w` seconds that are waited. Among the gaps seen so far, as far as
        they are longer than what has passed, the wait is chosen that would have gained most.
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
