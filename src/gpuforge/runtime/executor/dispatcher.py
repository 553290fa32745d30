"""The threads that run tasks: one for each device, and several for functions of the host.

A device has one thread, because concurrent calls on it slow each other down and give no usable
timings (`Session.crowded`). All threads are daemons: an abandoned call must not delay the end of
the program. They start when there is work, and end after `IDLE_SECONDS` without any.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from time import perf_counter
from weakref import WeakSet

from gpuforge import published
from gpuforge.errors import ExecutorClosed, TaskTimeout
from gpuforge.log import logger
from gpuforge.runtime.executor.lane import Batch, Lane
from gpuforge.runtime.executor.running import end_call, run
from gpuforge.runtime.executor.schedule import Schedule
from gpuforge.runtime.executor.stats import ExecutorStats, LaneStats, Tally
from gpuforge.runtime.executor.task import ENDED, RUNNING, WAITING, Ending, Task
from gpuforge.runtime.executor.together import Result
from gpuforge.units import format_seconds

IDLE_SECONDS = 2.0
GRACE_SECONDS = 1.0
"""How long a call that nobody waits for may run before its lane continues without it."""

_log = logger("tasks")
everyone: WeakSet[Dispatcher] = WeakSet()
_here = threading.local()


class Crew:
    """The threads of one lane.

    Attributes
    ----------
    bell : condition that wakes waiting threads
    threads, idle : number of threads, and of waiting ones
    called : number of waiting threads that were woken but have not looked for work yet
    """

    def __init__(self, lane: Lane, lock: threading.Lock) -> None:
        self.lane = lane
        self.bell = threading.Condition(lock)
        self.threads = self.idle = self.called = 0

    def wait(self, seconds: float) -> bool:
        """Wait until there may be work; return whether there may be."""
        self.idle += 1
        self.bell.wait(seconds)
        self.idle -= 1
        woken = self.called > 0
        self.called -= woken
        return woken


class Dispatcher:
    """Runs the tasks of a schedule in threads.

    Attributes
    ----------
    tally : counts of how tasks ended
    closed : whether it refuses new tasks
    """

    def __init__(self, schedule: Schedule, clock: Callable[[], float] = perf_counter) -> None:
        self.schedule, self.clock = schedule, clock
        self._reset()
        everyone.add(self)

    def _reset(self) -> None:
        self.tally = Tally()
        self.closed = False
        self.pending: dict[Task, None] = {}
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiters = 0
        self._crews: dict[str, Crew] = {}
        self._guard: threading.Thread | None = None
        self._guard_bell = threading.Condition(self._lock)
        self._guard_until = float("inf")
        self._lost: dict[Batch, str] = {}
        self._shown = (0, 0, 0, 0)

    def put(self, task: Task) -> None:
        """Queue a task.

        Raises
        ------
        ExecutorClosed
            If the executor was shut down.
        DeviceOutOfMemory
            If it needs more memory than it can ever get.
        RuntimeError
            If no thread can be started for it.
        """
        home = task.home
        with self._lock:
            if self.closed or (home is not None and home.closed):
                raise ExecutorClosed(
                    f"task {task.name!r} was submitted after the executor was shut down",
                    hint="submit before shutdown, or inside the 'with' block",
                )
            if task.limit_bytes or self.schedule.limited:
                self.schedule.check(task)
            self.schedule.add(task, self.clock())
            self.pending[task] = None
            self.tally.given += 1
            if home is not None:
                home.pending[task] = None
                home.given += 1
            lanes = self.schedule.lanes
            news = [name for name in task.lanes if self.schedule.is_news(task, lanes[name])]
            woken = [self._wake(name) for name in news]  # each of them
            if woken and not any(woken):
                self._drop(task)
                raise RuntimeError(f"can't start a new thread for task {task.name!r}")
            self._show()

    def add_lane(self, lane: Lane) -> None:
        """Add a lane."""
        with self._lock:
            self.schedule.lanes.setdefault(lane.name, lane)
            self.schedule.limited |= lane.memory_bytes is not None

    def _wake(self, name: str) -> bool:
        """Wake a waiting thread of a lane to look for work, or start one; return if it has any."""
        crew = self._crews.get(name)
        if crew is None:
            crew = self._crews[name] = Crew(self.schedule.lanes[name], self._lock)
        if crew.idle > crew.called:
            crew.called += 1
            crew.bell.notify()
            return True
        if crew.threads < crew.lane.width:
            title = f"gpuforge lane {name}"
            thread = threading.Thread(target=self._serve, args=(crew,), name=title, daemon=True)
            crew.threads += _starts(thread)
        return crew.threads > 0

    def _serve(self, crew: Crew) -> None:
        """Run tasks of one lane until there was none for a while."""
        _here.lane = True
        while (batch := self._next(crew)) is not None:
            self._run(batch)
            if batch.abandoned:
                return
            del batch

    def _next(self, crew: Crew) -> Batch | None:
        """Wait for a lane's next batch; None to end the thread."""
        with self._lock:
            while True:
                now = self.clock()
                found = self.schedule.take(crew.lane, now)
                if isinstance(found, Batch):
                    self._guard_for(found)
                    self._show()
                    return found
                for name in self.schedule.left_to:  # nothing else may wake those lanes
                    self._wake(name)
                if found is None:
                    woken = not self.closed and crew.wait(IDLE_SECONDS)
                    if not woken and (self.closed or not self.schedule.has_work(crew.lane)):
                        break
                else:
                    crew.wait(found - now)
            crew.threads = max(crew.threads - 1, 0)  # Ctrl-C may come before its start is counted
            return None

    def _run(self, batch: Batch) -> None:
        """Make the calls of a batch and report their results, except of tasks that ended before."""
        for task in batch.tasks:
            task.ending.set_running_or_notify_cancel()
        batch.thread = threading.get_ident()
        results = run(batch)
        seconds = self.clock() - batch.started_at
        with self._lock:
            self.schedule.finish(batch, seconds)
            self._lost.pop(batch, None)
            told = [
                (task, task.ending, result)
                for task, result in zip(batch.tasks, results, strict=True)
                if task.state == RUNNING
            ]
            self._count(batch, results)
            self._end([task for task, _, _ in told])
            if self.closed:
                self._guard_bell.notify()  # whose timeout may be an hour away
            for task, _, _ in told:  # break the reference cycle with its future
                del task.ending
            if self.schedule.memory_short:
                self.schedule.memory_short = False
                for name in self._crews:
                    self._wake(name)
        for task, ending, result in told:
            _tell(task, ending, result)

    def _show(self) -> None:
        """Publish how many tasks wait, run and have ended; call with the lock held."""
        tally, waiting, shown = self.tally, self.schedule.waiting, self._shown
        now = waiting, len(self.pending) - waiting, tally.done, tally.failed
        if now != shown:
            published.tasks(
                now[0] - shown[0], now[1] - shown[1], now[2] - shown[2], now[3] - shown[3]
            )
            self._shown = now

    def _count(self, batch: Batch, results: list[Result]) -> None:
        tally = self.tally
        if len(batch.tasks) > 1:
            published.batched()
        tally.batches[len(batch.tasks)] += 1
        for task, result in zip(batch.tasks, results, strict=True):
            tally.waits.append(task.started_at - task.queued_at)
            if task.state == RUNNING:
                tally.done += result.error is None
                tally.failed += result.error is not None
                if task.home is not None:
                    task.home.finished += 1

    def _end(self, tasks: Iterable[Task]) -> None:
        """Mark tasks as ended, with the lock held; the caller notifies their endings without it."""
        for task in tasks:
            task.state = ENDED
            self.pending.pop(task, None)
            if task.home is not None:
                task.home.pending.pop(task, None)
        self._show()
        if self._waiters:
            self._changed.notify_all()

    def made(self, task: Task, seconds: float, error: BaseException | None) -> None:
        """Count a call that was made without a lane."""
        with self._lock:
            self.schedule.learn(task, self.schedule.lanes[task.lanes[0]], seconds)
            self.tally.given += 1
            self.tally.done += error is None
            self.tally.failed += error is not None

    def help(self, task: Task) -> None:
        """Run a task in the lane's thread that waits for it, unless it has begun."""
        if task.state != WAITING or not hasattr(_here, "lane"):
            return
        with self._lock:
            if task.state != WAITING:
                return
            lane, queue = self.schedule.lanes[task.lanes[0]], self.schedule.queues[task.lanes]
            batch = self.schedule.start([task], queue, lane, self.clock())
            batch.nested = True
            self._guard_for(batch)
        self._run(batch)

    def cancel(self, task: Task) -> bool:
        """Cancel a task unless it has begun; return whether it was. The caller notifies."""
        with self._lock:
            dropped = self._drop(task)
        if dropped:
            task.forget()
        return dropped

    def _drop(self, task: Task) -> bool:
        if not self.schedule.drop(task):
            return False
        self.tally.cancelled += 1
        if task.home is not None:
            task.home.cancelled += 1
        self._end([task])
        return True

    def give_up(self, task: Task, after: float = GRACE_SECONDS) -> bool:
        """End a task that nobody waits for; return whether this ended it.

        If it runs, its lane continues without it after `after` seconds.
        """
        if self.cancel(task):
            return True
        with self._lock:
            if task.state != RUNNING:
                return False
            self.tally.given_up += 1
            self._end([task])
            batch = next(b for b in self._running() if task in b.tasks)
            if all(one.state == ENDED for one in batch.tasks):
                batch.given_up_at = self.clock() + after
                self._guard_for(batch)
        task.forget()
        return True

    def _running(self) -> list[Batch]:
        return [batch for lane in self.schedule.lanes.values() for batch in lane.running]

    def _guard_for(self, batch: Batch) -> None:
        """Ensure that a thread watches the timeout of a batch, if it has one."""
        due = batch.due_at
        if due is None:
            return
        if self._guard is None:
            self._guard_until = due
            guard = threading.Thread(target=self._keep_guard, name="gpuforge timeouts", daemon=True)
            self._guard = guard if _starts(guard) else None
        elif due < self._guard_until:
            self._guard_until = due
            self._guard_bell.notify()

    def _keep_guard(self) -> None:
        """End batches that exceed their timeout, as long as any with a timeout are running."""
        idle = False
        while True:
            with self._lock:
                now = self.clock()
                late = [b for b in self._running() if (due := b.due_at) is not None and due <= now]
                told = [one for batch in late for one in self._expire(batch, now)]
                if not told:
                    dues = [due for b in self._running() if (due := b.due_at) is not None]
                    if (idle or self.closed) and not dues:
                        self._guard = None
                        return
                    self._guard_until = min(dues, default=now + IDLE_SECONDS)
                    idle = not self._guard_bell.wait(self._guard_until - now) and not dues
            for task, error in told:
                _tell(task, task.ending, Result(error=error))

    def _expire(self, batch: Batch, now: float) -> list[tuple[Task, TaskTimeout]]:
        """End the tasks of a batch that timed out; abandon the batch if none is left."""
        ran = now - batch.started_at
        told = [
            (task, _timeout(task, ran))
            for task in batch.tasks
            if task.state == RUNNING
            and task.terms.timeout is not None
            and ran >= task.terms.timeout
        ]
        self.tally.timed_out += len(told)
        self._end([task for task, _ in told])
        if all(task.state == ENDED for task in batch.tasks):
            self._abandon(batch)
        return told

    def _abandon(self, batch: Batch) -> None:
        """Replace the thread that runs a batch; the old one ends with the batch.

        If the batch is a call in a worker process, that process is killed; if it waits for a task
        that it runs in place, that one's call goes on.
        """
        self.schedule.abandon(batch)
        inside = (one for one in self._running() if one.thread == batch.thread)
        if not any(one.started_at > batch.started_at for one in inside):
            end_call(batch.thread)
        self._lost[batch] = batch.tasks[0].name
        self.tally.abandoned += 1
        if not batch.nested:
            self._crews[batch.lane.name].threads -= 1
            self._wake(batch.lane.name)

    def wait(self, pending: dict[Task, None], timeout: float | None = None) -> bool:
        """Wait until none of some tasks is pending; return whether none is."""
        with self._lock:
            self._waiters += 1
            try:
                return self._changed.wait_for(lambda: not pending, timeout)
            finally:
                self._waiters -= 1

    def close(self) -> None:
        """Refuse new tasks; the threads end once nothing waits."""
        with self._lock:
            self.closed = True
            self._rest()
            self._guard_bell.notify()

    def rest(self) -> None:
        """End idle threads at once."""
        with self._lock:
            if not self.pending:
                self._rest()

    def _rest(self) -> None:
        for crew in self._crews.values():
            crew.bell.notify_all()

    def fork(self) -> None:
        """Continue in a forked child without the parent's tasks."""
        pending = list(self.pending)
        closed = self.closed
        self._reset()
        self.closed = closed
        self.schedule.clear()
        for task in pending:
            task.state = ENDED
            task.ending.left_to_parent()

    def stats(self) -> ExecutorStats:
        """Return statistics of the tasks so far."""
        with self._lock:
            tally = self.tally
            median, longest = tally.spread()
            lanes = {
                lane.name: LaneStats(lane.busy_seconds, lane.calls, len(lane.running))
                for lane in self.schedule.lanes.values()
            }
            return ExecutorStats(
                self.schedule.waiting, sum(len(b.tasks) for b in self._running()),
                tally.done, tally.failed, tally.timed_out, tally.cancelled + tally.given_up,
                tuple(self._lost.values()), dict(tally.batches), median, longest, lanes,
            )  # fmt: skip


def _starts(thread: threading.Thread) -> bool:
    """Start a thread; return whether the system lets it start."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def _tell(task: Task, ending: Ending, result: Result) -> None:
    """Report a task's end; no callback of its future may end the thread, as SystemExit would."""
    task.forget()
    try:
        if result.error is None:
            ending.set_result(result.value)
        else:
            ending.set_exception(result.error)
    except BaseException as error:  # noqa: BLE001 - futures let some exceptions pass
        _log.warning("a callback of task %r raised %r", task.name, error)


def _timeout(task: Task, ran: float) -> TaskTimeout:
    waited = task.started_at - task.queued_at
    return TaskTimeout(
        f"task {task.name!r} ran for {format_seconds(ran)}, its timeout is"
        f" {format_seconds(task.terms.timeout or 0.0)}; its call was abandoned and may continue"
        f" in its thread (it had waited {format_seconds(waited)} before)",
        hint="a call with isolate=True is ended instead",
    )
