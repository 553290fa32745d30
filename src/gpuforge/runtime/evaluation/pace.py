"""Whether recording a call takes longer than the call as written."""

from __future__ import annotations

from collections.abc import Iterable
from time import thread_time
from typing import Any

import numpy as np

from gpuforge.runtime.array.unsupported import NotRecordable

TELLING_SECONDS = 20e-3
"""Processor time of recording that must be seen first."""
MOST_CALLS = 2.0
"""By its graphs a call may take NumPy so many times as long as when it is made as written: where it
writes into a large array piece by piece, each piece makes another array."""


_PLAIN = (np.ndarray, float, int, complex, bool, str, type(None))


def can_start_again(values: Iterable[Any]) -> bool:
    """Return whether a call with these arguments can be made anew after a part of it ran.

    What is written into recorded arrays reaches the caller's at the end; a list is written at once.
    """
    return all(type(value) in _PLAIN or isinstance(value, np.generic) for value in values)


class TooManyOperations(NotRecordable):
    """Recording a call takes longer than the call as written.

    Attributes
    ----------
    factor : how many times as long, at least
    """

    def __init__(self, factor: float) -> None:
        super().__init__(f"recording its operations takes {factor:.1f} times as long as the call")
        self.factor = factor


class Pace:
    """The processor time of one call whose graphs NumPy evaluates.

    What is noted counts from the second graph on: the first one of a process also fills tables.

    Parameters
    ----------
    numpy_seconds
        What the call takes as written.

    Attributes
    ----------
    graphs : how many were evaluated
    """

    def __init__(self, numpy_seconds: float) -> None:
        self.numpy_seconds = numpy_seconds
        self.graphs = 0
        self._began = 0.0
        self._done = self._planned = 0.0

    def noting_seconds(self, elsewhere_seconds: float = 0.0) -> float:
        """Return what noting took so far, and will take again in each call."""
        return thread_time() - self._began - self._done - self._planned - elsewhere_seconds

    def check(self, elsewhere_seconds: float) -> None:
        """Look at the time before one more graph is evaluated.

        `elsewhere_seconds` is what the backend took so far.

        Raises
        ------
        TooManyOperations
            If it takes too long to go on.
        """
        if not self.graphs:
            return
        noting = self.noting_seconds(elsewhere_seconds)
        if noting > max(TELLING_SECONDS, self._done):
            raise TooManyOperations(noting / max(self._done, 1e-6))
        taken = noting + self._done + self._planned
        if taken > MOST_CALLS * self.numpy_seconds + TELLING_SECONDS:
            raise TooManyOperations(taken / self.numpy_seconds)

    def done(self, planned_seconds: float, seconds: float) -> None:
        """Count what planning a graph took, which is done once, and what NumPy took for it."""
        if not self.graphs:
            self._began = thread_time() - planned_seconds - seconds
        self.graphs += 1
        self._planned += planned_seconds
        self._done += seconds
