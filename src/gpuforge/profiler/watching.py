"""The thread that works for recordings, one after another.

A thread of its own for each recording would let the process grow by some MB with each: glibc gives
a new thread another of its heaps, and the free pages of the former one stay with the process.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue

_Job = tuple[Callable[[], None], threading.Event]


class _Worker:
    """A thread with its jobs; `latest` is set when it has nothing to do."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.latest = threading.Event()
        self.latest.set()
        self.thread = threading.Thread(target=self._run, name="gpuforge profile", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while (job := self.jobs.get()) is not None:
            work, ended = job
            try:
                work()
            except BaseException:  # noqa: BLE001 - told as of any thread; this one goes on
                threading.excepthook(
                    threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread()))
                )
            finally:
                del job, work  # and the recording that it belongs to
                ended.set()


_lock = threading.RLock()  # a signal handler may fork while it is held
_worker: _Worker | None = None


def ready() -> _Worker:
    """Return the worker; starting its thread takes milliseconds on a busy machine."""
    global _worker
    with _lock:
        if _worker is None or not _worker.thread.is_alive():
            _worker = _Worker()
        return _worker


def begin(work: Callable[[], None]) -> threading.Event:
    """Let the thread do `work`, and return an event that is set when it has ended."""
    with _lock:
        worker = ready()
        ended = worker.latest = threading.Event()
        worker.jobs.put((work, ended))
    return ended


def _rest() -> None:
    """End the thread before a fork, unless it works: Python warns of threads in what is forked."""
    global _worker
    _lock.acquire()
    if _worker is not None and _worker.latest.is_set():
        _worker.jobs.put(None)
        _worker.thread.join()
        _worker = None


def _forget() -> None:
    """Let a forked child, which has no such thread, start one of its own."""
    global _worker
    _worker = None
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_rest, after_in_parent=_lock.release, after_in_child=_forget)
