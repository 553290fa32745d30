"""A lane: a device or the host, and what runs there."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from gpuforge.runtime.executor.quota import Quota, Share
from gpuforge.runtime.executor.task import RUNNING, Task

HOST, CPU = "host", "cpu"
EWMA = 0.3


@dataclass(eq=False)
class Batch:
    """Calls that run together on a lane; usually one.

    Attributes
    ----------
    expected_seconds : their expected time; 0 if unknown
    abandoned : whether its lane has continued without it
    nested : whether it runs inside a task that waits for it
    given_up_at : when its lane continues without it because nobody waits for its tasks
    thread : identifier of the thread that runs it
    """

    tasks: list[Task]
    lane: Lane
    started_at: float
    expected_seconds: float = 0.0
    abandoned: bool = False
    nested: bool = False
    given_up_at: float | None = None
    thread: int = 0

    @property
    def due_at(self) -> float | None:
        """When the first of its tasks times out, or its lane continues without it."""
        if self.given_up_at is not None:
            return self.given_up_at
        timeouts = [
            task.terms.timeout for task in self.tasks if task.state == RUNNING and not task.killable
        ]
        known = [seconds for seconds in timeouts if seconds is not None]
        return self.started_at + min(known) if known else None


@dataclass(eq=False)
class Lane:
    """Where tasks run, at most `width` at the same time.

    Attributes
    ----------
    device, backend : restriction of placement on this lane; empty for none
    memory_bytes : memory limit for all running tasks; None for no limit
    awaited : the group of calls for which it waits to fill a batch; None if it does not
    running : what runs now
    used_bytes : what the running tasks need
    busy_seconds, calls : totals of the tasks that ended here
    mean_seconds : moving average of the time of a task
    """

    name: str
    width: int = 1
    device: str = ""
    backend: str = ""
    memory_bytes: int | None = None
    share: Share = field(default_factory=lambda: Share(1.0))
    awaited: Hashable = None
    running: list[Batch] = field(default_factory=list)
    used_bytes: int = 0
    busy_seconds: float = 0.0
    calls: int = 0
    mean_seconds: float = 0.0

    def restrict(self, quota: Quota) -> None:
        """Apply a quota."""
        self.width = quota.concurrency or self.width
        self.memory_bytes = quota.memory_bytes
        self.share = Share(quota.share)

    def free_in(self, now: float) -> float:
        """Return the expected seconds until it can start another task."""
        if len(self.running) < self.width:
            return max(self.share.ready_at - now, 0.0)
        left = [b.started_at + (b.expected_seconds or self.mean_seconds) for b in self.running]
        debt = min(left) - now
        if self.share.share < 1:
            debt += self.mean_seconds * (1 / self.share.share - 1)
        return max(debt, 0.0)

    def fits(self, task: Task, more: int = 0) -> bool:
        """Return whether there is memory for a task besides the running ones and `more` bytes."""
        limits = (self.memory_bytes, task.limit_bytes or None)
        least = min((one for one in limits if one is not None), default=None)
        return least is None or self.used_bytes + more + task.need_bytes <= least

    def start(self, batch: Batch) -> None:
        """Add a batch that begins to run."""
        self.running.append(batch)
        self.used_bytes += sum(task.need_bytes for task in batch.tasks)

    def leave(self, batch: Batch) -> None:
        """Remove a batch that ended or was abandoned."""
        self.running.remove(batch)
        self.used_bytes -= sum(task.need_bytes for task in batch.tasks)

    def took(self, batch: Batch, seconds: float) -> None:
        """Count a batch that ran."""
        calls = len(batch.tasks)
        self.calls += calls
        if batch.nested:  # its time is part of the enclosing task's
            return
        self.busy_seconds += seconds
        self.share.take(batch.started_at, seconds)
        each = seconds / calls
        self.mean_seconds += (EWMA if self.mean_seconds else 1.0) * (each - self.mean_seconds)
