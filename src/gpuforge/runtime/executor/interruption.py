"""Handling of tasks when the program is interrupted, ends, or forks."""

from __future__ import annotations

import atexit
import os
import sys

from gpuforge.errors import TaskCancelled
from gpuforge.runtime.executor import termination
from gpuforge.runtime.executor.dispatcher import Dispatcher, everyone
from gpuforge.runtime.executor.stats import Counts, names
from gpuforge.runtime.executor.task import Task
from gpuforge.runtime.progress_line import say

PATIENCE_SECONDS = 0.5
"""How long an interrupted program waits for running calls."""


def cut_short(dispatcher: Dispatcher, pending: dict[Task, None]) -> list[Task]:
    """Cancel waiting tasks and give running ones a moment to finish; return those abandoned."""
    tasks = list(pending)
    cancelled = [task for task in tasks if dispatcher.cancel(task)]
    for task in cancelled:
        task.ending.mark_cancelled()
    if tasks:
        dispatcher.wait(pending, PATIENCE_SECONDS)
    return [task for task in tasks if give_up(dispatcher, task)]


def interrupt(dispatcher: Dispatcher, pending: dict[Task, None], counts: Counts) -> None:
    """Cut tasks short, and report what finished on stderr if there were any."""
    if pending:
        abandoned = cut_short(dispatcher, pending)
        tell("interrupted", counts.given, counts.finished, counts.cancelled, abandoned)


def give_up(dispatcher: Dispatcher, task: Task) -> bool:
    """End a running task with TaskCancelled; return whether this ended it."""
    if not dispatcher.give_up(task):
        return False
    task.ending.set_exception(TaskCancelled(f"task {task.name!r} was abandoned while it ran"))
    return True


def tell(cause: str, given: int, finished: int, cancelled: int, abandoned: list[Task]) -> None:
    """Report on stderr what finished and what did not."""
    parts = [f"{finished} of {given} tasks had finished"]
    if cancelled:
        parts.append(f"{cancelled} cancelled before they began")
    if abandoned:
        parts.append(f"{len(abandoned)} abandoned while they ran ({names(abandoned)})")
    say(f"gpuforge: {cause}: {', '.join(parts)}\n")


@atexit.register
def finish() -> None:
    """Wait for remaining tasks, as Python does for threads; not after an interruption."""
    for dispatcher in list(everyone):
        try:
            if getattr(sys, "last_type", None) is not KeyboardInterrupt:
                dispatcher.wait(dispatcher.pending)
        except KeyboardInterrupt:
            say("\n")
        interrupt(dispatcher, dispatcher.pending, dispatcher.tally)
        dispatcher.close()


def watch_for_termination() -> None:
    """Make SIGTERM report what finished before the process ends, unless the program handles it."""
    termination.begin(tell, _tell_terminated, in_children=True)


def _tell_terminated() -> None:
    for dispatcher in list(everyone):
        tasks, tally = list(dispatcher.pending), dispatcher.tally
        if tasks:
            running = [task for task in tasks if task.state]
            cancelled = tally.cancelled + len(tasks) - len(running)
            tell("terminated", tally.given, tally.finished, cancelled, running)


def _after_fork() -> None:
    for dispatcher in list(everyone):
        dispatcher.fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
