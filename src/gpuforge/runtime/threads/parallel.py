"""Run the parts of one job on several threads of this process.

The threads sleep between jobs: a new thread needs the interpreter's lock to start, for which it
waits up to 0.3 ms. They are daemons, so that no program waits for them at its end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue

_tasks: SimpleQueue[_Share] = SimpleQueue()
_threads: list[threading.Thread] = []
_process = os.getpid()
_lock = threading.Lock()


class _Job:
    """Parts to run, each once, by whichever thread is free."""

    def __init__(self, part: Callable[[int], None], parts: int) -> None:
        self.part, self.parts = part, parts
        self.errors: list[BaseException] = []
        self._places = count()

    def run(self) -> None:
        """Run parts until none is left, or one has failed."""
        try:
            while not self.errors and (place := next(self._places)) < self.parts:
                self.part(place)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self.errors.append(error)


class _Share:
    """The share of another thread in a job, which it may begin or find taken back."""

    def __init__(self, job: _Job) -> None:
        self.job = job
        self._begun, self._done = threading.Lock(), threading.Lock()
        self._done.acquire()

    def run(self) -> None:
        """Run it in this thread, unless it was taken back."""
        if self._begun.acquire(blocking=False):
            self.job.run()
            self._done.release()

    def end(self) -> None:
        """Take it back if it has not begun, otherwise wait for it."""
        if not self._begun.acquire(blocking=False):
            self._done.acquire()


def in_parallel(part: Callable[[int], None], parts: int, threads: int) -> None:
    """Call ``part(0)`` to ``part(parts - 1)`` on this thread and up to ``threads - 1`` others.

    Raises what a part raised first; parts that have not begun by then are left out.
    """
    job = _Job(part, parts)
    shares = [_Share(job) for _ in range(min(threads, parts) - 1)]
    if shares:
        _start(len(shares))
    for share in shares:
        _tasks.put(share)
    job.run()
    for share in shares:
        share.end()
    if job.errors:
        raise job.errors[0]


def _start(wanted: int) -> None:
    """Make sure that this many threads wait for tasks; a forked child has none at first."""
    global _process, _lock, _tasks
    if os.getpid() != _process:
        _process, _lock, _tasks = os.getpid(), threading.Lock(), SimpleQueue()
        _threads.clear()
    if len(_threads) >= wanted:
        return
    with _lock:
        while len(_threads) < wanted:
            name = f"gpuforge blocks {len(_threads) + 1}"
            thread = threading.Thread(target=_work, args=(_tasks,), name=name, daemon=True)
            thread.start()
            _threads.append(thread)


def _work(tasks: SimpleQueue[_Share]) -> None:
    while True:
        tasks.get().run()
