"""Work beside the user's program: loading a library, compiling a graph.

Both leave a part of their time to the interpreter's other threads, the more so on a machine with a
free core, and no call has to wait for them. One job runs at a time, in a thread that lives as long
as the job. Before a fork, and at the end of the process, it is waited for; an import that is on its
way at the end stops at the next module.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

COMPILING = "it is being compiled"
"""Why NumPy makes a call of which a graph is compiled beside the program."""


class Aside:
    """What one session does beside the program."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        _all.add(self)

    @property
    def is_busy(self) -> bool:
        """Whether a job is under way."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def start(self, job: Callable[[], None]) -> bool:
        """Begin a job, which must not raise; return whether it was begun: not beside another."""
        with self._lock:
            if self.is_busy:
                return False
            self._thread = threading.Thread(target=job, name="gpuforge aside")
            self._thread.start()
        return True

    def wait(self) -> None:
        """Wait until nothing is under way."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def forget(self) -> None:
        """Go on in a forked child, where no other thread is."""
        self._lock = threading.Lock()
        self._thread = None


_all: WeakSet[Aside] = WeakSet()


@contextmanager
def importing() -> Iterator[None]:
    """Import a library beside the program.

    Raises
    ------
    ProgramEnds
        Inside, at the next module that is imported once the program has come to its end.
    """
    stop = _Stop(threading.get_ident())
    sys.meta_path.insert(0, stop)
    try:
        yield
    finally:
        sys.meta_path.remove(stop)


class ProgramEnds(BaseException):
    """The program has come to its end: what is loaded beside it serves nobody any more."""


class _Stop:
    """Stops the imports of one thread when the program has come to its end."""

    def __init__(self, thread: int) -> None:
        self.thread = thread

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Find nothing, or raise where the main thread has ended."""
        if threading.get_ident() == self.thread and not threading.main_thread().is_alive():
            raise ProgramEnds


def _wait() -> None:
    for each in list(_all):
        each.wait()


def _forget() -> None:
    for each in list(_all):
        each.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait, after_in_child=_forget)
