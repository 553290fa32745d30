"""How many items a batch takes: pure, from what batches of other sizes took.

A size of one stands for calls one after the other. Sizes are powers of two; the one with the least
time for an item is used, those beside it are looked at first. What ran out of memory halves the
most that is taken, and batches that work let it grow back.
"""

from __future__ import annotations

from collections import deque

SMALLEST = 4
SAMPLES, KEPT = 3, 5
WORTH_BATCHING = 0.93
"""A batch has to take less than this share of single calls: it needs memory and care."""
WORTH_CLIMBING = 1.5
"""Sizes beside the best batch are looked at unless that takes so many times a single call."""
LOOK_AGAIN = ((16, 1.15), (64, 2.0))
"""One batch in so many is of another size that took at most this many times the best: what was
measured may have been disturbed, and what is best changes."""
GROW_AFTER = 32
REST = 16
"""From so many items on, those that are left at the end are a batch of their own."""


def below(number: int) -> int:
    """Return the largest power of two that is at most `number`."""
    return 1 << (max(number, 1).bit_length() - 1)


class Ladder:
    """The sizes of the batches of one kind of call.

    Attributes
    ----------
    start : the size that is looked at first
    cap : the most that is taken at once now
    fixed : the size that the user asked for last; 0 before
    """

    def __init__(self, start: int, limit: int) -> None:
        self.limit = self.cap = max(1, limit)
        self.start = max(SMALLEST, min(below(start), below(self.limit)))
        self.fixed = 0
        self._seconds: dict[int, deque[float]] = {}
        self._where: dict[int, str] = {}
        self._turn = self._good = 0

    def each(self, size: int) -> float | None:
        """Return the seconds for an item in batches of a size; None where none was made."""
        row = self._seconds.get(size)
        return min(row) if row else None

    def add(self, size: int, seconds: float, where: str = "") -> None:
        """Take in what an item took in a batch of `size` on a backend."""
        if size & (size - 1) and size != self.fixed:
            return  # what was left at the end
        if self._where.setdefault(size, where) != where:  # another backend has another best size
            self._where[size] = where
            for near in (size // 2, size, size * 2):
                if near > 1:
                    self._seconds.pop(near, None)
        self._seconds.setdefault(size, deque(maxlen=KEPT)).append(seconds)
        self._good += size > 1
        if self.cap < self.limit and self._good >= GROW_AFTER:
            self.cap, self._good = min(2 * self.cap, self.limit), 0

    def exhausted(self, size: int) -> None:
        """Take half as many from now on: memory ran out."""
        self.cap, self._good = max(1, size // 2), 0

    def choose(self, available: int, fixed: int = 0) -> int:
        """Return the size of the next batch of at most `available` items.

        `fixed` is the size that the user asks for; fewer are left at the end.
        """
        limit = min(available, self.cap)
        if limit < 2 or fixed == 1:
            return 1
        if fixed:
            self.fixed = min(fixed, limit)
            return self._unknown([1, self.fixed]) or self._best([1, self.fixed])
        self.fixed = 0
        first = min(self.start, below(limit))
        sizes = [1, first] if first >= SMALLEST else [1]
        known = [size for size in self._rungs if 1 < size <= limit]
        if known:
            near = self._best(known)
            single = self.each(1)
            if single is None or self._each(near) < WORTH_CLIMBING * single:
                beside = (near * 2, near // 2)
                sizes += [size for size in beside if SMALLEST <= size <= limit]
        unknown = self._unknown(sizes)
        if unknown:
            return unknown
        best = self._best({*sizes, *known})
        self._turn += 1
        for every, share in LOOK_AGAIN:
            if self._turn % every == 0:
                most = share * self._each(best)
                others = sorted(s for s in {*sizes, *known} - {best} if self._each(s) < most)
                if others:
                    return others[self._turn // every % len(others)]
        usual = self.best
        is_rest = max(REST, usual // 8, best) <= limit < usual
        is_whole = 1 < best < limit < 2 * best and best == usual and self.each(2 * best) is None
        return limit if is_rest or is_whole else best

    def _unknown(self, sizes: list[int]) -> int:
        """Return the first size that too little is known of, or 0."""
        rows = ((size, self._seconds.get(size, ())) for size in sizes)
        return next((size for size, row in rows if len(row) < SAMPLES), 0)

    def _best(self, sizes: set[int] | list[int]) -> int:
        return min(sizes, key=self._each)

    def _each(self, size: int) -> float:
        found = self.each(size)
        if found is None:
            return float("inf")
        return WORTH_BATCHING * found if size == 1 else found

    @property
    def _rungs(self) -> list[int]:
        """The sizes that were measured, without those that the user asked for."""
        return [size for size in list(self._seconds) if not size & (size - 1)]

    @property
    def best(self) -> int:
        """The size with the least time for an item; 0 where nothing was measured."""
        sizes = [size for size in self._rungs if size <= self.cap]
        return self._best(sizes) if sizes else 0
