"""Work beside the user's program: loading a library, compiling a graph.

Both leave a part of their time to the interpreter's other threads, the more so on a machine with a
free core, and no call has to wait for them. One job runs at a time, in a thread that lives as long
as the job. Before a fork, and at the end of the process, it is waited for; an import that is on its
way at the end stops at the next module. One that does not come to its next module, because it waits
for something itself, is left where it is: it never touches the interpreter again.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any
from weakref import WeakSet

COMPILING = "it is being compiled"
"""Why NumPy makes a call of which a graph is compiled beside the program."""
END_PATIENCE_SECONDS, FORK_PATIENCE_SECONDS, UNKNOWN_PATIENCE_SECONDS = 0.05, 1.0, 5.0
"""How long an import may compute nothing before it is no longer waited for; the last, how long it
may take at most where the system does not tell what a thread computes."""


class Aside:
    """What one session does beside the program.

    Attributes
    ----------
    leave_a_core : around what computes beside the program: keeps it from using all cores meanwhile
    """

    def __init__(
        self, leave_a_core: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self.leave_a_core = leave_a_core
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._imports = False
        _all.add(self)

    @property
    def is_busy(self) -> bool:
        """Whether a job is under way."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def start(
        self, job: Callable[[], None], *, imports: bool = False, computes: bool = True
    ) -> bool:
        """Begin a job, which must not raise; return whether it was begun: not beside another.

        One that `imports` may wait for ever, as an import does whose file system is gone. One that
        `computes` nothing here leaves all cores to the program.
        """
        with self._lock:
            if self.is_busy:
                return False
            self._imports = imports
            run = partial(self._run, job, self.leave_a_core if computes else nullcontext)
            self._thread = threading.Thread(target=run, name="gpuforge aside", daemon=True)
            self._thread.start()
        return True

    def _run(
        self, job: Callable[[], None], around: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Do a job; what runs it stays known until it has ended, so that it is waited for."""
        with around():
            job()

    def wait(self, patience: float | None = None) -> None:
        """Wait until nothing is under way.

        With `patience`, an import is left alone that has not computed for so many seconds.
        """
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return
        if patience is None or not self._imports:
            thread.join()
            return
        before = _computed(thread)
        while thread.is_alive():
            thread.join(patience if before is not None else UNKNOWN_PATIENCE_SECONDS)
            now = _computed(thread)
            if now == before:
                return
            before = now

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


def _computed(thread: threading.Thread) -> str | None:
    """Return the CPU time of a thread; None where the system does not tell, or it has ended."""
    try:
        with open(f"/proc/self/task/{thread.native_id}/schedstat", encoding="ascii") as file:
            return file.read().split()[0]
    except (OSError, IndexError):
        return None


def _wait(patience: float = FORK_PATIENCE_SECONDS) -> None:
    for each in list(_all):
        each.wait(patience)


def _forget() -> None:
    for each in list(_all):
        each.forget()


atexit.register(_wait, END_PATIENCE_SECONDS)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait, after_in_child=_forget)
