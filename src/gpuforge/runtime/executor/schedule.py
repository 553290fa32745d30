"""Decide what runs next on which lane. Pure: the caller passes the time.

`Dispatcher` uses it with threads and the real clock, ``benchmarks/coalescing.py`` with a simulated
one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from contextvars import Context
from itertools import count

from gpuforge.errors import DeviceOutOfMemory
from gpuforge.runtime.executor.batching import Batching
from gpuforge.runtime.executor.lane import EWMA, Batch, Lane
from gpuforge.runtime.executor.queue import AGE_SECONDS, Queue
from gpuforge.runtime.executor.task import ENDED, RUNNING, WAITING, Task
from gpuforge.units import format_bytes

LATENCY_SECONDS = 5e-3
"""Maximum time that a call waits to be batched with others."""
KEPT_KINDS = 1024
OUTLIER = 4.0


class Schedule:
    """The waiting tasks, and the rules by which lanes choose among them.

    Attributes
    ----------
    limited : whether a lane has a memory limit
    memory_short : whether a lane's next task needed more memory than was left
    left_to : lanes to which the last asking lane left a task that would end earlier there
    """

    def __init__(
        self, lanes: Iterable[Lane] = (), *, latency: float = LATENCY_SECONDS,
        age_seconds: float = AGE_SECONDS,
    ) -> None:  # fmt: skip
        self.lanes: dict[str, Lane] = {lane.name: lane for lane in lanes}
        self.latency, self.age_seconds = latency, age_seconds
        self.queues: dict[tuple[str, ...], Queue] = {}
        self.memory_short = False
        self.left_to: set[str] = set()
        self.limited = any(lane.memory_bytes is not None for lane in self.lanes.values())
        self._numbers = count()
        self._batching: OrderedDict[Hashable, Batching] = OrderedDict()
        self._seconds: OrderedDict[tuple[Hashable, str], float] = OrderedDict()

    def check(self, task: Task) -> None:
        """Raise DeviceOutOfMemory if a task needs more memory than it can ever get."""
        limits = [
            min(lane.memory_bytes or task.limit_bytes, task.limit_bytes or lane.memory_bytes or 0)
            for lane in map(self.lanes.__getitem__, task.lanes)
        ]
        if task.need_bytes and min(limits) and task.need_bytes > max(limits):
            raise DeviceOutOfMemory(
                f"task {task.name!r} needs {format_bytes(task.need_bytes)}, and the tasks on"
                f" {' or '.join(task.lanes)} may use {format_bytes(max(limits))} together",
                hint="split its arrays, or raise memory_limit or the quota",
            )

    def add(self, task: Task, now: float) -> None:
        """Queue a task."""
        task.queued_at = now
        task.order = (now - task.terms.priority * self.age_seconds, next(self._numbers))
        queue = self.queues.get(task.lanes)
        if queue is None:
            queue = self.queues[task.lanes] = Queue()
        if task.group is not None:
            self.batching(task).arrive(now)
        queue.add(task)

    def drop(self, task: Task) -> bool:
        """Remove a task that must not run; return whether it was still waiting."""
        if task.state != WAITING:
            return False
        self.queues[task.lanes].remove([task], ENDED)
        return True

    def clear(self) -> None:
        """Drop all tasks."""
        self.queues.clear()
        for lane in self.lanes.values():
            lane.running.clear()
            lane.used_bytes = 0

    @property
    def waiting(self) -> int:
        """Number of waiting tasks."""
        return sum(queue.waiting for queue in self.queues.values())

    def has_work(self, lane: Lane) -> bool:
        """Return whether a task that may run on a lane is waiting."""
        return any(queue.waiting and lane.name in names for names, queue in self.queues.items())

    def batching(self, task: Task) -> Batching:
        """Return what is known about batching the calls of a task's group."""
        found = self._batching.get(task.group)
        if found is None:
            found = self._batching[task.group] = Batching()
            if len(self._batching) > KEPT_KINDS:
                self._batching.popitem(last=False)
        return found

    def take(self, lane: Lane, now: float) -> Batch | float | None:
        """Return a lane's next batch, or when to ask again; None to ask after the next change."""
        lane.awaited = None
        self.left_to.clear()
        if len(lane.running) >= lane.width:
            return None
        found = self._next(lane, now)
        if found is None:
            return None
        task, queue = found
        if lane.share.ready_at > now:
            return lane.share.ready_at
        if not lane.fits(task):
            self.memory_short = True
            return None
        tasks = [task]
        if task.group is not None and (batching := self.batching(task)).most > 1:
            until = self._wait_until(batching, task, queue, lane, now)
            if until > now:
                lane.awaited = task.group
                return until
            tasks = self._together(batching.most, task, queue, lane)
        return self.start(tasks, queue, lane, now)

    def is_news(self, task: Task, lane: Lane) -> bool:
        """Return whether a waiting lane should look at a task that has just arrived.

        Not if it waits to fill a batch, unless there are enough tasks now: looking at each one
        would take longer than the calls.
        """
        if lane.awaited is None or task.group != lane.awaited:
            return True
        return self.batching(task).is_enough(self.queues[task.lanes].count(task))

    def start(self, tasks: list[Task], queue: Queue, lane: Lane, now: float) -> Batch:
        """Start waiting tasks on a lane."""
        queue.remove(tasks, RUNNING)
        for task in tasks:
            task.started_at = now
        batch = Batch(tasks, lane, now, len(tasks) * (self.expected(tasks[0], lane) or 0.0))
        lane.start(batch)
        return batch

    def finish(self, batch: Batch, seconds: float) -> None:
        """Learn the time of a batch, and free its lane."""
        lane, task = batch.lane, batch.tasks[0]
        if not batch.abandoned:
            lane.leave(batch)
        lane.took(batch, seconds)
        if task.group is not None:
            self.batching(task).learn(len(batch.tasks), seconds)
        if task.kind is not None:
            self.learn(task, lane, seconds / len(batch.tasks))

    def abandon(self, batch: Batch) -> None:
        """Free a lane without waiting for its batch."""
        batch.abandoned = True
        batch.lane.leave(batch)

    def expected(self, task: Task, lane: Lane) -> float | None:
        """Return the expected time of a task on a lane; None if unknown."""
        return self._seconds.get((task.kind, lane.name))

    def learn(self, task: Task, lane: Lane, seconds: float) -> None:
        """Learn the time of a task on a lane."""
        key = (task.kind, lane.name)
        known = self._seconds.get(key)
        if known is not None:  # a delayed call says little about the next one
            seconds = known + EWMA * (min(seconds, OUTLIER * known) - known)
        self._seconds[key] = seconds
        if len(self._seconds) > KEPT_KINDS:
            self._seconds.popitem(last=False)

    def _next(self, lane: Lane, now: float) -> tuple[Task, Queue] | None:
        """Return the first waiting task that this lane should take."""
        best: tuple[Task, Queue] | None = None
        for names, queue in self.queues.items():
            if lane.name not in names or not queue.waiting:
                continue
            task = queue.head() if len(names) == 1 else self._share(lane, names, queue, now)
            if task is not None and (best is None or task.order < best[0].order):
                best = task, queue
        return best

    def _share(self, lane: Lane, names: tuple[str, ...], queue: Queue, now: float) -> Task | None:
        """Return a task that would end here earlier than elsewhere: the first, else a late one.

        For a late one, the waiting work before it counts too.
        """
        others = [self.lanes[name] for name in names if name != lane.name]
        for task, ahead in ((queue.head(), 0), (queue.late(), queue.waiting - 1)):
            if task is None:
                return None
            here = lane.free_in(now) + (self.expected(task, lane) or 0.0)
            if all(here <= self._end(task, other, ahead, now) for other in others):
                return task
        self.left_to.update(other.name for other in others)
        return None

    def _end(self, task: Task, lane: Lane, ahead: int, now: float) -> float:
        """Return in how many seconds a task would end on a lane, after `ahead` others."""
        each = self.expected(task, lane)
        queued = ahead * lane.mean_seconds / lane.width / lane.share.share
        return lane.free_in(now) + queued + (lane.mean_seconds if each is None else each)

    def _wait_until(
        self, batching: Batching, task: Task, queue: Queue, lane: Lane, now: float
    ) -> float:
        """Return until when an otherwise idle lane should wait for more calls."""
        together = queue.count(task)
        if queue.waiting > together or lane.running:
            return now
        return batching.wait_until(now, together, task.queued_at, self.latency)

    def _together(self, most: int, task: Task, queue: Queue, lane: Lane) -> list[Task]:
        """Return a task and those that are batched with it."""
        tasks: list[Task] = []
        used = 0
        for mate in queue.mates(task):
            if mate is task or (_same(mate.context, task.context) and lane.fits(mate, used)):
                tasks.append(mate)
                used += mate.need_bytes
            if len(tasks) == most:
                break
        return tasks


def _same(one: Context | None, other: Context | None) -> bool:
    """Return whether two calls see the same context variables, which they may read.

    Values are compared by identity, since arrays have no single truth value.
    """
    if one is other or one is None or other is None:
        return one is other
    alike = (other.get(variable, other) is value for variable, value in one.items())
    return len(one) == len(other) and all(alike)
