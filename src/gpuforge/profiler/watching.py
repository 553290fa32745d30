"""The thread that works for recordings, one after another, as long as the process lives.

A thread of its own for each recording would let the process grow by some MB with each: glibc gives
a new thread another of its heaps, and the free pages of the former one stay with the process.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue

_Job = tuple[Callable[[], None], threading.Event]
_jobs: SimpleQueue[_Job] = SimpleQueue()
_thread: threading.Thread | None = None


def begin(work: Callable[[], None]) -> threading.Event:
    """Let the thread do `work`, and return an event that is set when it has ended."""
    global _jobs, _thread
    if _thread is None or not _thread.is_alive():  # at first, and in a forked child
        _jobs = SimpleQueue()
        _thread = threading.Thread(
            target=_do_all, args=(_jobs,), name="gpuforge profile", daemon=True
        )
        _thread.start()
    ended = threading.Event()
    _jobs.put((work, ended))
    return ended


def _do_all(jobs: SimpleQueue[_Job]) -> None:
    while True:
        work, ended = jobs.get()
        try:
            work()
        except Exception:  # noqa: BLE001 - is told as of any thread, which then goes on
            told = threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread()))
            threading.excepthook(told)
        ended.set()
        del work  # and the recording that it belongs to
