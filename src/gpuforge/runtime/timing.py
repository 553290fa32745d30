"""When a device was busy, from its library's events, which are read after the work is done.

Events give durations, or times on a clock of their own. They are aligned with the host's clock at
the time of submission, accurate to the duration of a submission, some 10 µs.

Sources: CUDA Runtime API, ``cudaEventElapsedTime`` (resolution about 0.5 µs); OpenCL API,
``clGetEventProfilingInfo`` (queued, start and end in nanoseconds of the device's clock); SYCL 2020,
``info::event_profiling``.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Protocol

Busy = tuple[str, int, int]
"""what the device did, start and end on the clock of ``time.perf_counter_ns``"""


class Timer(Protocol):
    """Times the work submitted to one device between its creation and `stop`."""

    def stop(self) -> None:
        """Mark the end of the work to time."""

    def read(self) -> list[Busy]:
        """Return when the device was busy, after the work is done."""


class MarkTimer:
    """Timer with two marks in the queue of a device, before and after the work.

    Parameters
    ----------
    mark
        Submits a mark and returns it.
    elapsed_ns
        Returns the nanoseconds between two marks that were reached.
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
    """Timer from the events of OpenCL kernels, each with its own times.

    Attributes
    ----------
    taken : for each kernel its name, its event, and its time of submission
    """

    def __init__(self) -> None:
        self.taken: list[tuple[str, Any, int]] = []

    def take(self, name: str, event: Any) -> None:
        """Add a kernel that was just submitted."""
        self.taken.append((name, event, perf_counter_ns()))

    def stop(self) -> None:
        """Do nothing: each kernel has its own event."""

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
