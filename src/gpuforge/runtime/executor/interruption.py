"""Handling of tasks when the program is interrupted, ends, or forks."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterable
from types import FrameType

from gpuforge.errors import TaskCancelled
from gpuforge.runtime.executor.dispatcher import Dispatcher, everyone
from gpuforge.runtime.executor.stats import names
from gpuforge.runtime.executor.task import Task

PATIENCE_SECONDS = 0.5
"""How long an interrupted program waits for running calls."""


def cut_short(dispatcher: Dispatcher, pending: dict[Task, None], given: int, cause: str) -> None:
    """Cancel waiting tasks, and give running ones a moment to finish.

    If the `cause` is outside of the program, report what finished on stderr.
    """
    tasks = list(pending)
    if not tasks:
        return
    cancelled = [task for task in tasks if dispatcher.cancel(task)]
    for task in cancelled:
        task.ending.mark_cancelled()
    dispatcher.wait(pending, PATIENCE_SECONDS)
    abandoned = [task for task in tasks if give_up(dispatcher, task)]
    if cause:
        tell(cause, given, given - len(cancelled) - len(abandoned), cancelled, abandoned)


def give_up(dispatcher: Dispatcher, task: Task) -> bool:
    """End a running task with TaskCancelled; return whether this ended it."""
    if not dispatcher.give_up(task):
        return False
    task.ending.set_exception(TaskCancelled(f"task {task.name!r} was abandoned while it ran"))
    return True


def tell(
    cause: str, given: int, finished: int, cancelled: list[Task], abandoned: list[Task]
) -> None:
    """Report on stderr what finished and what did not."""
    parts = [f"{finished} of {given} tasks had finished"]
    if cancelled:
        parts.append(f"{len(cancelled)} cancelled before they began")
    if abandoned:
        parts.append(f"{len(abandoned)} abandoned while they ran ({names(abandoned)})")
    sys.stderr.write(f"gpuforge: {cause}: {', '.join(parts)}\n")
    sys.stderr.flush()


@atexit.register
def finish() -> None:
    """Wait for remaining tasks, as Python does for threads; not after an interruption."""
    for dispatcher in list(everyone):
        try:
            if getattr(sys, "last_type", None) is not KeyboardInterrupt:
                dispatcher.wait(dispatcher.pending)
        except KeyboardInterrupt:
            sys.stderr.write("\n")
        cut_short(dispatcher, dispatcher.pending, dispatcher.tally.given, "interrupted")
        dispatcher.close()


def watch_for_termination() -> None:
    """Make SIGTERM report what finished before the process ends, unless the program handles it."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Report what finished, without locks that the interrupted code may hold; end as by default."""
    for dispatcher in list(everyone):
        tasks = list(dispatcher.pending)
        if tasks:
            given, states = dispatcher.tally.given, _by_state(tasks)
            tell("terminated", given, given - len(tasks), *states)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _by_state(tasks: Iterable[Task]) -> tuple[list[Task], list[Task]]:
    waiting: list[Task] = []
    running: list[Task] = []
    for task in tasks:
        (running if task.state else waiting).append(task)
    return waiting, running


def _after_fork() -> None:
    for dispatcher in list(everyone):
        dispatcher.fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
