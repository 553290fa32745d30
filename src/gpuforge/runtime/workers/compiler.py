"""Compiler processes, which compile graphs for this one and time what it has not imported.

Tracing and compiling a graph holds the interpreter's lock for some 30 ms, which blocks every thread
of the program; loading what another process compiled takes 5. A compiler process has the library
open, runs at the lowest priority, and ends with this process or its session. It is started through
an intermediate process that exits at once, so it is not a child of the program, which may wait for
any child.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any
from weakref import WeakSet

from gpuforge.errors import WorkerDied
from gpuforge.log import logger
from gpuforge.runtime import heap
from gpuforge.runtime.array.graph import Graph
from gpuforge.runtime.backends import Backend
from gpuforge.runtime.workers.channel import Channel, Host
from gpuforge.runtime.workers.description import Description

_log = logger("compiler")
_PROGRAM = """
import os, sys
if os.fork():
    os._exit(0)
os.nice(19)
sys.path[:] = {path!r}
from gpuforge.runtime.workers.serving import main
main({control}, {life}, {words}, {kept})
"""
STARTING_SECONDS, OPENING_SECONDS, ANSWER_SECONDS = 5.0, 1.0, 60.0
"""Time limits: for the interpreter to start; for a graph to wait until the library is open there;
for compiling it."""


class Compilers:
    """The compiler processes of one session, one per library. Thread-safe."""

    def __init__(self) -> None:
        self._all: dict[str, Compiler | None] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        _everyone.add(self)

    def begin(self, library: str) -> None:
        """Start the process of a library, once. If that fails, graphs are compiled here."""
        with self._lock:
            found = self._all.get(library)
            ended = found is not None and bool(found.away())
            if self._closed.is_set() or (library in self._all and not ended):
                return
            self._all[library] = None
        try:
            made = Compiler(library)
        except Exception as error:  # noqa: BLE001 - graphs are compiled here instead
            _log.info("%s is compiled in this process: %r", library, error)
            return
        with self._lock:
            if not self._closed.is_set():
                self._all[library] = made
                return
        made.close()

    def ask(self, backend: Backend, graph: Graph, like: Sequence[Any]) -> bytes | None:
        """Return a graph compiled for inputs `like` these, serialized by `Backend.stored`.

        None if it must be compiled here, because the process is not ready or cannot compile it.

        Raises
        ------
        TimeoutError
            If it takes too long.
        EOFError, OSError
            If the session ends meanwhile.
        """
        library = backend.name.split(":")[0]
        found = self._all.get(library)
        if found is None:
            return None
        try:
            return found.compiled(backend, graph, like)
        except TimeoutError:
            self._end(library)
            raise TimeoutError(f"not compiled after {ANSWER_SECONDS:.0f} s") from None
        except (EOFError, OSError) as error:
            if self._closed.is_set():
                raise
            _log.info(("%s is compiled here: its compiler process ended (%r)"), library, error)
            self._end(library)
            return None

    def is_interrupted(self, library: str) -> bool:
        """Return whether the process of a library was ended for a fork, or with the session."""
        return self._closed.is_set() or library not in self._all

    def find(self, library: str) -> Compiler | None:
        """Return the process of a library; None if there is none."""
        return self._all.get(library)

    def end_idle(self, seconds: float, kept: Collection[str] = ()) -> None:
        """End those that were idle for so long, but `kept`; a later `begin` starts them again."""
        for library, found in list(self._all.items()):
            idle = found is not None and not found.is_asked and found.idle_seconds > seconds
            if idle and library not in kept:
                self._end(library)
                with self._lock:
                    self._all.pop(library, None)

    def _end(self, library: str) -> None:
        with self._lock:
            found = self._all.get(library)
            self._all[library] = None
        if found is not None:
            found.close()

    def close(self) -> None:
        """End all of them for good."""
        with self._lock:
            self._closed.set()
        for library in list(self._all):
            self._end(library)

    def interrupt(self) -> None:
        """End those with a pending request: a fork waits for the requesting thread."""
        for library, found in list(self._all.items()):
            if found is not None and found.is_asked:
                self._end(library)
                with self._lock:
                    self._all.pop(library, None)

    def forget(self) -> None:
        """Drop them in a forked child: they belong to the parent."""
        self._lock = threading.Lock()
        self._closed.set()
        for one in self._all.values():
            if one is not None:
                one.forget()
        self._all = dict.fromkeys(self._all)


class Compiler:
    """A process that compiles for one library and runs its programs, one request at a time.

    Attributes
    ----------
    devices : descriptions of the library's devices; None while it is being opened
    sent : numbers of the graphs that the process has received
    answer_seconds : time limit for an answer to `ask`

    Raises
    ------
    OSError
        If it cannot be started.
    """

    def __init__(self, library: str) -> None:
        self.library = library
        self.devices: tuple[Description, ...] | None = None
        self.sent: set[int] = set()
        self.answer_seconds = ANSWER_SECONDS
        self._answered = monotonic()
        self._asking = threading.Lock()
        self._closed = threading.Event()
        if not sys.executable or getattr(sys, "frozen", False):
            raise OSError("there is no interpreter to start")
        if os.getpid() == 1:
            raise OSError("every process without a parent becomes a child of this one")
        ours, theirs = socket.socketpair()
        life, self._life = os.pipe()
        self._channel = Channel(ours)
        try:
            with theirs:
                _start(theirs.fileno(), life)
            self._channel.send(("open", library))
        except BaseException:
            self.close()
            raise
        finally:
            os.close(life)

    @property
    def is_asked(self) -> bool:
        """Whether a request is pending."""
        return self._asking.locked()

    @property
    def idle_seconds(self) -> float:
        """Time since the last answer, or since the process was started."""
        return monotonic() - self._answered

    def opened(self, seconds: float) -> bool:
        """Wait until the library is open there, at most so long; return whether it is.

        Raises
        ------
        EOFError, OSError
            If the process has ended.
        """
        with self._asking:
            try:
                return self._is_open(seconds)
            finally:
                self._closed_meanwhile()

    def compiled(self, backend: Backend, graph: Graph, like: Sequence[Any]) -> bytes | None:
        """Return a compiled graph; None while the library is being opened, or if it fails.

        Raises
        ------
        TimeoutError, EOFError, OSError
            If there is no answer.
        """
        with self._asking:
            if self._closed.is_set():
                raise EOFError
            try:
                return self._answer(backend, graph, like)
            finally:
                self._closed_meanwhile()

    def ask(
        self, message: Any, arrays: Sequence[Host], take: Callable[[tuple[Any, list[Host]]], Any],
        seconds: float = 0.0,
    ) -> Any:  # fmt: skip
        """Send a request, and return `take` of the answer.

        Raises
        ------
        WorkerDied
            If the process ends meanwhile, or does not answer within `seconds`, or else within
            `answer_seconds`.
        """
        with self._asking:
            try:
                if self._closed.is_set():
                    raise EOFError
                self._channel.send(message, arrays)
                found = take(self._channel.receive(seconds or self.answer_seconds))
            except (EOFError, OSError) as error:
                self._close_now()
                raise WorkerDied(f"the process with {self.library} ended: {error!r}") from None
            except BaseException:  # the answer would be taken for that of the next request
                self._close_now()
                raise
            self._answered = monotonic()
            self._closed_meanwhile()
            return found

    def away(self) -> str:
        """Return why it cannot be asked; empty if it can."""
        return "its process has ended" if self._closed.is_set() else ""

    def _is_open(self, seconds: float) -> bool:
        if self._closed.is_set():
            raise EOFError
        if self.devices is None and self._channel.ready(seconds):
            (self.devices, _, _), _ = self._channel.receive()
            self._answered = monotonic()
        return self.devices is not None

    def _answer(self, backend: Backend, graph: Graph, like: Sequence[Any]) -> bytes | None:
        if not self._is_open(OPENING_SECONDS):
            return None
        names = [one.name for one in self.devices or ()]
        if backend.name not in names:
            return None
        place = names.index(backend.name)
        self._channel.send(("compile", place, backend.stored_under, graph, like))
        (data, reason), _ = self._channel.receive(ANSWER_SECONDS)
        self._answered = monotonic()
        if data is None:
            _log.info("%s compiles a graph in this process: %s", self.library, reason)
        return data  # type: ignore[no-any-return]

    def _close_now(self) -> None:
        self.close()
        self._closed_meanwhile()

    def _closed_meanwhile(self) -> None:
        """Close the channel if the process was ended during a request."""
        if self._closed.is_set():
            self._channel.close()

    def close(self) -> None:
        """End the process at once; a pending request fails."""
        if self._closed.is_set():
            return
        self._closed.set()
        with suppress(OSError):  # the program may have closed every descriptor
            os.close(self._life)
        if self._asking.acquire(blocking=False):
            self._channel.close()
            self._asking.release()

    def forget(self) -> None:
        """Drop it in a forked child, which has no other threads."""
        self._asking = threading.Lock()
        self.close()


def _start(control: int, life: int) -> None:
    """Start a process of the lowest priority that answers on a socket while a pipe is open."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        program = _PROGRAM.format(
            path=[str(entry) for entry in sys.path], control=control, life=life, words=null,
            kept=heap.kept_bytes,
        )  # fmt: skip
        starting = subprocess.Popen(
            [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", program],  # type: ignore[attr-defined]
            stdin=null,
            stdout=null,
            stderr=null,
            pass_fds=(control, life, null),
            process_group=0,  # Ctrl-C is for the program alone
        )
        try:
            starting.wait(STARTING_SECONDS)
        except BaseException as error:
            starting.kill()
            starting.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise OSError("the interpreter does not start") from None
            raise
    finally:
        os.close(null)


_everyone: WeakSet[Compilers] = WeakSet()


def _interrupt() -> None:
    for one in list(_everyone):
        one.interrupt()


def _forget() -> None:
    for one in list(_everyone):
        one.forget()


if hasattr(os, "register_at_fork"):
    # Handlers before a fork run in reverse order: this one before the wait for background jobs.
    os.register_at_fork(before=_interrupt, after_in_child=_forget)
