"""Choose batch sizes from the measured times of other sizes. Pure.

A size of one stands for single calls. Sizes are powers of two; the one with the least time per item
is used, and its neighbours are tried first. Running out of memory halves the maximum size, which
grows back while batches succeed.
"""

from __future__ import annotations

from collections import deque

SMALLEST = 4
SAMPLES, KEPT = 3, 5
WORTH_BATCHING = 0.93
"""A batch must take less than this share of the time of single calls, since it needs memory."""
WORTH_CLIMBING = 1.5
"""The best batch's neighbours are tried unless it takes this many times a single call, per item."""
BRIEF_SECONDS = 250e-6
"""They are tried also if the whole batch is shorter than this: most of its time may be fixed, so it
says little about larger ones."""
LOOK_AGAIN = ((16, 1.15), (64, 2.0))
"""One batch in this many retries another size that took at most this many times the best, since
measurements may be disturbed and the best size changes."""
GROW_AFTER = 32
REST = 16
"""At least this many items left over at the end form a batch."""


def below(number: int) -> int:
    """Return the largest power of two that is at most `number`."""
    return 1 << (max(number, 1).bit_length() - 1)


class Ladder:
    """The sizes of the batches of one kind of call.

    Attributes
    ----------
    start : the first size to try
    cap : current maximum size
    fixed : the size that the user last requested; 0 if none
    """

    def __init__(self, start: int, limit: int) -> None:
        self.limit = self.cap = max(1, limit)
        self.start = max(SMALLEST, min(below(start), below(self.limit)))
        self.fixed = 0
        self._seconds: dict[int, deque[float]] = {}
        self._where: dict[int, str] = {}
        self._turn = self._good = 0

    def each(self, size: int) -> float | None:
        """Return the seconds per item in batches of a size; None if there were none."""
        row = self._seconds.get(size)
        return min(row) if row else None

    def add(self, size: int, seconds: float, where: str = "") -> None:
        """Add the time per item of a batch of `size` on a backend."""
        if size & (size - 1) and size != self.fixed:
            return  # items left over at the end
        if self._where.setdefault(size, where) != where:  # the best size differs between backends
            self._where[size] = where
            for near in (size // 2, size, size * 2):
                if near > 1:
                    self._seconds.pop(near, None)
        self._seconds.setdefault(size, deque(maxlen=KEPT)).append(seconds)
        self._good += size > 1
        if self.cap < self.limit and self._good >= GROW_AFTER:
            self.cap, self._good = min(2 * self.cap, self.limit), 0

    def exhausted(self, size: int) -> None:
        """Halve the maximum size, because memory ran out."""
        self.cap, self._good = max(1, size // 2), 0

    def choose(self, available: int, fixed: int = 0) -> int:
        """Return the size of the next batch of at most `available` items.

        `fixed` is the size that the user requests; the last batch may be smaller.
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
            brief = near * self._each(near) < BRIEF_SECONDS
            if single is None or brief or self._each(near) < WORTH_CLIMBING * single:
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
        """Return the first size with too few samples, or 0."""
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
        """The measured sizes, without those that the user requested."""
        return [size for size in list(self._seconds) if not size & (size - 1)]

    @property
    def best(self) -> int:
        """The size with the least time per item; 0 if nothing was measured."""
        sizes = [size for size in self._rungs if size <= self.cap]
        return self._best(sizes) if sizes else 0
