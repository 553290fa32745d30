"""Processes that compile for this one.

To trace and compile a graph holds the interpreter's lock for some 30 ms, for which every thread of
the program waits; to load what another process compiled takes 5. Such a process has the library
open like this one, runs when nothing else wants its core, and ends with this one or with its
session. It is no child: a program that waits for any child does not meet it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

from gpuforge.log import logger
from gpuforge.runtime.array.graph import Graph
from gpuforge.runtime.backends import Backend
from gpuforge.runtime.workers.channel import Channel

_log = logger("compiler")
_PROGRAM = """
import os, sys
if os.fork():
    os._exit(0)
os.nice(19)
sys.path[:] = {path!r}
from gpuforge.runtime.workers.serving import main
main({control}, {life}, {words})
"""
OPENING_SECONDS, ANSWER_SECONDS = 1.0, 60.0
"""How long a graph waits for the library to be opened there; what compiling it may take at most."""


class Compilers:
    """The processes that compile for one session, one for each library. Thread-safe."""

    def __init__(self) -> None:
        self._all: dict[str, Compiler | None] = {}
        self._lock = threading.Lock()
        self._closed = False
        _everyone.add(self)

    def begin(self, library: str) -> None:
        """Start the process of a library, once."""
        with self._lock:
            if self._closed or library in self._all:
                return
            try:
                self._all[library] = Compiler(library)
            except OSError as error:  # this process may have no more
                _log.info("%s is compiled here: %s", library, error)
                self._all[library] = None

    def compiled(self, backend: Backend, graph: Graph, like: Sequence[Any]) -> bytes | None:
        """Return a graph compiled for inputs `like` these, as `Backend.stored` has it.

        None where it is to be compiled here: the process is not ready, or cannot.
        """
        library = backend.name.split(":")[0]
        found = self._all.get(library)
        if found is None:
            return None
        try:
            return found.compiled(backend, graph, like)
        except TimeoutError:  # it would take as long here
            self._end(library)
            raise TimeoutError(f"not compiled after {ANSWER_SECONDS:.0f} s") from None
        except (EOFError, OSError) as error:
            if self._closed:
                raise
            _log.info("%s is compiled here: its process is gone (%r)", library, error)
            self._end(library)
            return None

    def _end(self, library: str) -> None:
        with self._lock:
            found = self._all.get(library)
            self._all[library] = None
        if found is not None:
            found.close()

    def close(self) -> None:
        """End them all for good."""
        with self._lock:
            self._closed = True
        for library in list(self._all):
            self._end(library)

    def forget(self) -> None:
        """Let go of them in a forked child: they are its parent's."""
        self._lock = threading.Lock()
        self._closed = True
        for one in self._all.values():
            if one is not None:
                one.forget()
        self._all = dict.fromkeys(self._all)


class Compiler:
    """A process that compiles for one library: asked by one thread at a time."""

    def __init__(self, library: str) -> None:
        self.library = library
        self._places: dict[str, int] | None = None
        self._asking = threading.Lock()
        self._closed = False
        ours, theirs = socket.socketpair()
        life, self._life = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        program = _PROGRAM.format(path=sys.path, control=theirs.fileno(), life=life, words=null)
        try:
            starting = subprocess.Popen(
                [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", program],  # type: ignore[attr-defined]
                stdin=null,
                stdout=null,
                stderr=null,
                pass_fds=(theirs.fileno(), life, null),
                process_group=0,  # Ctrl-C is for the program alone
            )
        except BaseException:
            os.close(self._life)
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(life)
            os.close(null)
        starting.wait()
        self._channel = Channel(ours)
        self._channel.send(("open", library))

    def compiled(self, backend: Backend, graph: Graph, like: Sequence[Any]) -> bytes | None:
        """Return a compiled graph; None while the library is being opened, and where it fails.

        Raises
        ------
        TimeoutError, EOFError, OSError
            If there is no answer.
        """
        with self._asking:
            try:
                return self._asked(backend, graph, like)
            finally:
                if self._closed:
                    self._channel.close()

    def _asked(self, backend: Backend, graph: Graph, like: Sequence[Any]) -> bytes | None:
        if self._places is None:
            if not self._channel.ready(OPENING_SECONDS):
                return None
            (devices, _, _), _ = self._channel.receive()
            self._places = {one.name: place for place, one in enumerate(devices)}
        place = self._places.get(backend.name)
        if place is None:
            return None
        self._channel.send(("compile", place, backend.stored_under, graph, like))
        (data, reason), _ = self._channel.receive(ANSWER_SECONDS)
        if data is None:
            _log.info("%s compiles a graph here: %s", self.library, reason)
        return data  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the process, whatever it does: who waits for its answer is told."""
        if self._closed:
            return
        self._closed = True
        os.close(self._life)
        if self._asking.acquire(blocking=False):
            self._channel.close()
            self._asking.release()

    def forget(self) -> None:
        """Let go of it in a forked child, where no other thread asks."""
        self._asking = threading.Lock()
        self.close()


_everyone: WeakSet[Compilers] = WeakSet()


def _forget() -> None:
    for one in list(_everyone):
        one.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
