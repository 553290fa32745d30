"""Statistics of tasks: how they ended, how long they waited, what each lane did."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpuforge.units import format_seconds, significant

KEPT_WAITS = 1000


@dataclass(frozen=True)
class LaneStats:
    """One lane: a device, or the host.

    Attributes
    ----------
    busy_seconds : wall seconds in calls, summed over its threads
    calls : number of tasks that ended here
    running : number of running tasks
    """

    busy_seconds: float
    calls: int
    running: int


@dataclass(frozen=True)
class ExecutorStats:
    """The tasks of an executor.

    Attributes
    ----------
    queued, running : current numbers of tasks
    done, failed, timed_out, cancelled : tasks so far; `failed` ones raised their own exception
    abandoned : names of running calls that nobody waits for any more
    batches : batch size to number of batches
    median_wait_seconds, longest_wait_seconds : from submit to start, of the last thousand tasks;
        None before one has begun
    lanes : statistics of each lane by name
    """

    queued: int
    running: int
    done: int
    failed: int
    timed_out: int
    cancelled: int
    abandoned: tuple[str, ...]
    batches: Mapping[int, int]
    median_wait_seconds: float | None
    longest_wait_seconds: float | None
    lanes: Mapping[str, LaneStats]

    def __str__(self) -> str:
        lines = [
            f"{self.queued} queued, {self.running} running, {self.done} done,"
            f" {self.failed} failed, {self.timed_out} timed out, {self.cancelled} cancelled"
        ]
        if self.abandoned:
            lines.append(f"abandoned and still running: {', '.join(self.abandoned)}")
        if self.median_wait_seconds is not None and self.longest_wait_seconds is not None:
            lines.append(
                f"waited {format_seconds(self.median_wait_seconds)} (median),"
                f" {format_seconds(self.longest_wait_seconds)} (longest)"
            )
        together = sum(size * times for size, times in self.batches.items() if size > 1)
        if together:
            batches = sum(times for size, times in self.batches.items() if size > 1)
            mean = significant(together / batches)
            lines.append(f"{together} calls were batched, {mean} at a time on average")
        for name, lane in self.lanes.items():
            lines.append(f"{name}: {lane.calls} calls, {format_seconds(lane.busy_seconds)} busy")
        return "\n".join(lines)


class Counts(Protocol):
    """How many tasks there were.

    Attributes
    ----------
    given : tasks submitted
    cancelled : those cancelled before they began
    """

    given: int
    cancelled: int

    @property
    def finished(self) -> int:
        """Number of tasks that returned a result or raised their own exception."""


class Tally:
    """Counts how tasks ended. Change it only with the dispatcher's lock held."""

    def __init__(self) -> None:
        self.given = self.done = self.failed = self.timed_out = self.cancelled = 0
        self.given_up = self.abandoned = 0
        self.batches: Counter[int] = Counter()
        self.waits: deque[float] = deque(maxlen=KEPT_WAITS)

    @property
    def finished(self) -> int:
        """Number of tasks that returned a result or raised their own exception."""
        return self.done + self.failed

    def spread(self) -> tuple[float | None, float | None]:
        """Return the median and the longest wait; None if there was none."""
        waits = sorted(self.waits)
        return (waits[len(waits) // 2], waits[-1]) if waits else (None, None)


def names(tasks: Sequence[Any], most: int = 5) -> str:
    """Return the names of the first `most` tasks."""
    known = [task.name for task in tasks[:most]]
    more = f" and {len(tasks) - most} more" if len(tasks) > most else ""
    return ", ".join(known) + more
