"""Calls so short that looking at each would cost more than it could gain."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

SHORT_SECONDS = 20e-6
"""Calls on NumPy that are held and take longer are timed, each of them."""
SEEN_EVERY = 64
"""Of so many short calls one is looked at; a power of two."""
UNSEEN = SEEN_EVERY - 1
FEW = 4
"""Fewer items than this are called one by one by a map, without another thought."""


class Short:
    """The short calls of a function, most of which are made as written at once.

    Attributes
    ----------
    context : the session in which they were found short
    shape, dtype : of their only argument, an array; None: calls with any arguments. Strides do not
        count, so that calls over a view are counted with those over an array of its shape
    ticks : counts them, in threads too: an iterator of Python's own gives each number once
    beside : calls made beside one that was counted, by a map
    """

    __slots__ = ("_counted", "beside", "context", "dtype", "shape", "ticks")

    def __init__(self, context: Any, array: np.ndarray[Any, Any] | None = None) -> None:
        self.context = context
        self.shape = None if array is None else array.shape
        self.dtype = None if array is None else array.dtype
        self.ticks = count()
        self._counted = self.beside = 0

    def take_unseen(self) -> int:
        """Return how many calls were made without being looked at since this was last asked."""
        made, self.beside = self.beside, 0
        while True:
            now = next(self.ticks)
            made += _unseen(now) - _unseen(self._counted)
            self._counted = now + 1
            if now & UNSEEN:  # or who asks after each call might take every tick of a look
                return made


def _unseen(ticks: int) -> int:
    """Return how many of the numbers below `ticks` are no multiples of `SEEN_EVERY`."""
    return ticks - (ticks + UNSEEN) // SEEN_EVERY
