"""When a device was busy, from the events of its library, which are read after the work is done.

Events tell durations, or times of a clock of their own. These are set against the host's clock
where the work was submitted: exact to what a submission takes, some 10 µs.

Sources: CUDA Runtime API, ``cudaEventElapsedTime`` (resolution about 0.5 µs); OpenCL API,
``clGetEventProfilingInfo`` (queued, start and end in nanoseconds of the device's clock); SYCL 2020,
``info::event_profiling``.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Protocol

Busy = tuple[str, int, int]
"""what the device did, and when it began and ended, in nanoseconds of ``time.perf_counter_ns``"""


class Timer(Protocol):
    """Watches what is submitted to one device between its making and `stop`."""

    def stop(self) -> None:
        """Say that everything to be watched was submitted."""

    def read(self) -> list[Busy]:
        """Return when the device was busy, once what was submitted is done."""


class MarkTimer:
    """From two marks in the queue of a device, one before and one behind the work.

    Parameters
    ----------
    mark
        Submits a mark and returns it.
    elapsed_ns
        Returns the time between two marks that were reached, in nanoseconds.
    """

    def __init__(self, mark: Callable[[], Any], elapsed_ns: Callable[[Any, Any], float]) -> None:
        self._mark, self._elapsed_ns = mark, elapsed_ns
        self._first = mark()
        self._began = perf_counter_ns()

    def stop(self) -> None:
        self._last = self._mark()

    def read(self) -> list[Busy]:
        return [("run", self._began, self._began + int(self._elapsed_ns(self._first, self._last)))]


class KernelTimer:
    """From the events of OpenCL kernels, each with its own times.

    Attributes
    ----------
    taken : for each kernel its name, its event, and when it had been submitted
    """

    def __init__(self) -> None:
        self.taken: list[tuple[str, Any, int]] = []

    def take(self, name: str, event: Any) -> None:
        """Watch one kernel that was submitted just now."""
        self.taken.append((name, event, perf_counter_ns()))

    def stop(self) -> None:
        """Do nothing: events are of single kernels."""

    def read(self) -> list[Busy]:
        if not self.taken:
            return []
        profiles = [event.profile for _, event, _ in self.taken]
        shifts = zip(self.taken, profiles, strict=True)
        shift = min(at - profile.queued for (_, _, at), profile in shifts)
        return [
            (name, profile.start + shift, profile.end + shift)
            for (name, _, _), profile in zip(self.taken, profiles, strict=True)
        ]
