"""Background work: loading a library, compiling a graph.

Both release the interpreter's lock part of the time, and no call has to wait for them. One job runs
at a time, in a thread that lives as long as the job. A fork, and the end of the process, wait for
it. At the end of the process an import stops at the next module; one that is blocked and never
reaches its next module is abandoned, since it never touches the interpreter again.
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
"""Why NumPy makes a call whose graph is being compiled in the background."""
END_PATIENCE_SECONDS, FORK_PATIENCE_SECONDS, UNKNOWN_PATIENCE_SECONDS = 0.05, 1.0, 5.0
"""How long an import may use no CPU time before waiting ends; the last is the limit for any import
where the system does not report a thread's CPU time."""

INTERRUPTED_EVERY_SECONDS = 0.02
"""How often a job is interrupted while something waits for it: it may begin to wait only later."""


class Background:
    """The background work of one session.

    Attributes
    ----------
    leave_a_core : context for a job that computes, in which the program leaves a core to it
    name : the name of its thread
    interrupt : called again and again while a fork or the program's end waits for a job
    """

    def __init__(
        self,
        leave_a_core: Callable[[], AbstractContextManager[None]] = nullcontext,
        interrupt: Callable[[], None] | None = None,
        name: str = "gpuforge aside",
    ) -> None:
        self.leave_a_core, self.interrupt, self.name = leave_a_core, interrupt, name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._imports = self._is_elsewhere = False
        _all.add(self)

    @property
    def is_busy(self) -> bool:
        """Whether a job is running."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    @property
    def is_importing(self) -> bool:
        """Whether a job runs that imports, and so holds the interpreter's lock for long."""
        return self._imports and self.is_busy

    def start(
        self, job: Callable[[], None], *, imports: bool = False, computes: bool = True
    ) -> bool:
        """Start a job, which must not raise; return False if another one is running.

        A job that `imports` may block for ever, for instance on a file system that is gone. A job
        that `computes` nothing in this process leaves all cores to the program.
        """
        with self._lock:
            if self.is_busy:
                return False
            self._imports = imports
            run = partial(self._run, job, self.leave_a_core if computes else nullcontext)
            self._thread = threading.Thread(target=run, name=self.name, daemon=True)
            self._thread.start()
        return True

    def _run(
        self, job: Callable[[], None], around: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Run a job."""
        with around():
            job()

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Context for the part of a job that only waits for another process, as no fork should."""
        self._is_elsewhere = True
        try:
            yield
        finally:
            self._is_elsewhere = False

    def wait(self, patience: float | None = None) -> None:
        """Wait until no job is running.

        With `patience`, give up on an import that has used no CPU time for that many seconds.
        """
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return
        if patience is not None and self._is_elsewhere:
            patience = END_PATIENCE_SECONDS
        while self.interrupt is not None and thread.is_alive():
            self.interrupt()
            thread.join(INTERRUPTED_EVERY_SECONDS)
        if patience is None or not self._imports:
            thread.join()
            return
        before = _cpu_time(thread)
        while thread.is_alive():
            thread.join(patience if before is not None else UNKNOWN_PATIENCE_SECONDS)
            now = _cpu_time(thread)
            if now == before:
                return
            before = now

    def forget(self) -> None:
        """Continue in a forked child, which has no other thread."""
        self._lock = threading.Lock()
        self._thread = None


_all: WeakSet[Background] = WeakSet()
_forking: dict[int, list[Callable[[], object]]] = {}
"""What modules imported while a thread's fork waits want to be called before it, by thread.

Python calls only what was registered when the fork began, but afterwards also what was registered
since: a lock would be released that nobody acquired.
"""
_importers: list[int] = []
"""The threads that import libraries in the background."""
_register = getattr(os, "register_at_fork", None)


@contextmanager
def importing() -> Iterator[None]:
    """Context for importing a library in the background.

    Raises
    ------
    ProgramEnds
        Inside, at the next module to be imported after the program has ended.
    """
    stop = _Stop(threading.get_ident())
    sys.meta_path.insert(0, stop)
    _importers.append(stop.thread)
    if _register is not None:
        os.register_at_fork = _register_at_fork  # type: ignore[assignment]
    try:
        yield
    finally:
        _importers.remove(stop.thread)
        if not _importers and getattr(os, "register_at_fork", None) is _register_at_fork:
            os.register_at_fork = _register  # type: ignore[assignment]
        sys.meta_path.remove(stop)


def _register_at_fork(**called: Callable[[], object]) -> None:
    """Register as ``os.register_at_fork`` does, and tell forks that wait for this import."""
    if _register is not None:
        _register(**called)
    if "before" in called and threading.get_ident() in _importers:
        for late in list(_forking.values()):
            late.append(called["before"])


class ProgramEnds(BaseException):
    """The program has ended: a library that is still loading is no longer needed."""


class _Stop:
    """Import finder that stops the imports of one thread once the program has ended."""

    def __init__(self, thread: int) -> None:
        self.thread = thread

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Return None, or raise if the main thread has ended."""
        if threading.get_ident() == self.thread and not threading.main_thread().is_alive():
            raise ProgramEnds


def _cpu_time(thread: threading.Thread) -> str | None:
    """Return the CPU time of a thread; None if it has ended or the system does not report it."""
    try:
        with open(f"/proc/self/task/{thread.native_id}/schedstat", encoding="ascii") as file:
            return file.read().split()[0]
    except (OSError, IndexError):
        return None


def _wait(patience: float = FORK_PATIENCE_SECONDS) -> None:
    for each in list(_all):
        each.wait(patience)


def _before_fork() -> None:
    late = _forking[threading.get_ident()] = []
    try:
        _wait()
    finally:
        del _forking[threading.get_ident()]
    for call in reversed(late):
        call()


def _forget() -> None:
    _forking.clear()
    _importers.clear()
    if getattr(os, "register_at_fork", None) is _register_at_fork:
        os.register_at_fork = _register  # type: ignore[assignment]
    for each in list(_all):
        each.forget()


atexit.register(_wait, END_PATIENCE_SECONDS)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_forget)
