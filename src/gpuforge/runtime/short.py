"""Calls so short that looking at each would cost more than it could gain."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

SEEN_EVERY = 64
"""Of so many short calls one is looked at; a power of two."""
UNSEEN = SEEN_EVERY - 1


class Short:
    """The short calls of a function, most of which are made as written at once.

    Attributes
    ----------
    context : the session in which they were found short
    shape, dtype : of their only argument, an array; None where any call counts as short
    ticks : counts them, in threads too: an iterator of Python's own gives each number once
    """

    __slots__ = ("_from", "context", "dtype", "shape", "ticks")

    def __init__(self, context: Any, array: np.ndarray[Any, Any] | None = None) -> None:
        self.context = context
        self.shape = None if array is None else array.shape
        self.dtype = None if array is None else array.dtype
        self.ticks = count()
        self._from = 0

    def take_unseen(self) -> int:
        """Return how many calls were made without being looked at since this was last asked."""
        now = next(self.ticks)
        made = _unseen(now) - _unseen(self._from)
        self._from = now + 1
        return made


def _unseen(ticks: int) -> int:
    return ticks - (ticks + UNSEEN) // SEEN_EVERY
