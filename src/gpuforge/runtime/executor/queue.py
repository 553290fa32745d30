"""The queue of waiting tasks.

Tasks are ordered by arrival time, moved ahead by `AGE_SECONDS` for each step of priority: a task is
taken before those of lower priority, unless one that is a step below has waited that much longer.
So no task waits for ever. Within one priority the order is first in, first out.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterator

from gpuforge.runtime.executor.task import ENDED, WAITING, Task

AGE_SECONDS = 30.0


class Queue:
    """The waiting tasks of one set of lanes; removed tasks are dropped lazily."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Task]] = []
        self._groups: dict[Hashable, deque[Task]] = {}
        self.waiting = 0

    def add(self, task: Task) -> None:
        """Insert a task by its order."""
        self.waiting += 1  # first: Ctrl-C after the push must not leave a task uncounted
        heapq.heappush(self._heap, (*task.order, task))
        if task.group is not None:
            self._groups.setdefault(task.group, deque()).append(task)

    def head(self) -> Task | None:
        """Return the first task, or None."""
        heap = self._heap
        while heap:
            task = heap[0][2]
            if task.state == WAITING:
                return task
            heapq.heappop(heap)
        return None

    def late(self) -> Task | None:
        """Return one of the last tasks, or None."""
        heap = self._heap
        while heap:
            task = heap[-1][2]
            if task.state == WAITING:
                return task
            heap.pop()
        return None

    def mates(self, task: Task) -> Iterator[Task]:
        """Yield the waiting tasks that can be batched with a task, itself first."""
        yield task
        for mate in self._groups.get(task.group, ()):
            if mate is not task and mate.state == WAITING:
                yield mate

    def count(self, task: Task) -> int:
        """Return the approximate number of waiting tasks that can be batched with a task."""
        self._clear(task.group)
        return len(self._groups.get(task.group, ()))

    def remove(self, tasks: list[Task], state: int) -> None:
        """Remove tasks and set their state."""
        for task in tasks:
            task.state = state
        self.waiting -= len(tasks)
        if tasks[0].group is not None:
            self._clear(tasks[0].group)
        if len(self._heap) > 64 and self.waiting * 2 < len(self._heap) and state == ENDED:
            self._heap = [entry for entry in self._heap if entry[2].state == WAITING]
            heapq.heapify(self._heap)

    def _clear(self, group: Hashable) -> None:
        """Drop leading tasks of a group that no longer wait."""
        found = self._groups.get(group)
        while found and found[0].state != WAITING:
            found.popleft()
        if found is not None and not found:
            del self._groups[group]
