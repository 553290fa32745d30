"""Whether recording a call takes longer than the call as written."""

from __future__ import annotations

from time import thread_time

from gpuforge.runtime.array.unsupported import NotRecordable

TELLING_SECONDS = 20e-3
"""Minimum CPU time of recording before it is judged."""
MOST_CALLS = 2.0
"""Limit for a recorded call on NumPy, in times of the call as written. It is exceeded by functions
that write into a large array piece by piece, since each write makes another array."""
TURNING_CALLS = 6.0
"""Limit for recording the turns of a loop, in times of the call as written."""


class TooManyOperations(NotRecordable):
    """Recording a call takes longer than the call as written.

    Attributes
    ----------
    factor : how many times as long, a lower bound
    """

    def __init__(self, factor: float) -> None:
        super().__init__(f"recording its operations takes {factor:.1f} times as long as the call")
        self.factor = factor


class Pace:
    """The CPU time of one call whose graphs NumPy evaluates, whole or in blocks.

    Time counts from the second graph on: the first one in a process also fills caches.

    Parameters
    ----------
    numpy_seconds
        Time of the call as written.

    Attributes
    ----------
    graphs : number of graphs that NumPy evaluated whole
    """

    def __init__(self, numpy_seconds: float) -> None:
        self.numpy_seconds = numpy_seconds
        self.graphs = 0
        self._began: float | None = None
        self._done = self._planned = 0.0

    def recording_seconds(self, elsewhere_seconds: float = 0.0) -> float:
        """Return the recording time so far, which each recorded call takes again."""
        began = thread_time() if self._began is None else self._began
        return thread_time() - began - self._done - self._planned - elsewhere_seconds

    def check(self, elsewhere_seconds: float) -> None:
        """Check the time before one more graph is evaluated.

        `elsewhere_seconds` is the time that the backend took so far.

        Raises
        ------
        TooManyOperations
            If recording takes too long.
        """
        if not self.graphs:
            return
        recording = self.recording_seconds(elsewhere_seconds)
        if recording > max(TELLING_SECONDS, self._done):
            raise TooManyOperations(recording / max(self._done, 1e-6))
        taken = recording + self._done + self._planned
        if taken > MOST_CALLS * self.numpy_seconds + TELLING_SECONDS:
            raise TooManyOperations(taken / self.numpy_seconds)

    def check_in_blocks(self) -> None:
        """Check the time before one more graph is evaluated in blocks.

        Several threads share that work: all processor time of this one counts.

        Raises
        ------
        TooManyOperations
            If the call takes much longer than as written.
        """
        if self._began is None:
            self._began = thread_time()
        taken = thread_time() - self._began
        if taken > MOST_CALLS * self.numpy_seconds + TELLING_SECONDS:
            raise TooManyOperations(taken / self.numpy_seconds)

    def check_turn(self, *, is_loop: bool) -> None:
        """Check the time before one more tape is recorded that waits to be evaluated.

        `is_loop` says that the tapes compute the same: such a call is recorded once, since those
        like it are replayed.

        Raises
        ------
        TooManyOperations
            If recording takes many times as long as the call as written.
        """
        if self._began is None:
            self._began = thread_time()
        taken = thread_time() - self._began
        most = TURNING_CALLS if is_loop else MOST_CALLS
        if taken > most * self.numpy_seconds + TELLING_SECONDS:
            raise TooManyOperations(taken / self.numpy_seconds)

    def done(self, planned_seconds: float, seconds: float) -> None:
        """Add the time to plan a graph (once per graph), and NumPy's time to evaluate it."""
        if self._began is None:
            self._began = thread_time() - planned_seconds - seconds
        self.graphs += 1
        self._planned += planned_seconds
        self._done += seconds
