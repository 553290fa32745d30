"""The main loop of a worker process: answer requests until the parent has ended."""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import os
import resource
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from gpuforge.runtime.workers.channel import Channel, Host

if TYPE_CHECKING:
    from gpuforge.runtime.backends import Backend
    from gpuforge.runtime.evaluation.engine import Programs

LOST_STATUS = 70
"""Exit status of a worker whose device is lost; it may work in a new process."""
Answer = tuple[Any, list[Host]]


def main(control: int, life: int, words: int, kept_memory: int = 0) -> None:
    """Answer requests until the parent closes the channel."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with(life)
    faulthandler.enable(words)
    with contextlib.suppress(OSError):  # only Linux has it, and containers may forbid it
        # If memory runs out, the kernel kills this process first.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if kept_memory:
        from gpuforge.runtime import heap

        heap.keep(kept_memory)
    channel = Channel(socket.socket(fileno=control))
    server = Server(channel)
    while True:
        try:
            (kind, *rest), arrays = channel.receive()
        except (EOFError, OSError):
            os._exit(0)
        channel.send(*getattr(server, kind)(*rest, arrays))
        del rest, arrays  # keep no arrays while waiting for a request


def _end_with(life: int) -> None:
    """Make the kernel end this process group when a pipe's other end is closed, even while busy."""
    fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(life, fcntl.F_GETFL)
    fcntl.fcntl(life, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    waiting = select.poll()
    waiting.register(life, select.POLLIN)
    if waiting.poll(0):  # it is closed already
        os._exit(0)


class Server:
    """Answers the requests of one parent: each method takes its parameters, then its arrays."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._devices: tuple[Backend, ...] = ()
        self._graphs: dict[int, Any] = {}
        self._programs: Programs | None = None
        self._pid = os.getpid()

    def limit(self, nbytes: int, arrays: list[Host]) -> Answer:
        """Limit the address space of this process to `nbytes` more than it has now."""
        del arrays
        try:
            pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
        except OSError:  # Linux alone limits, and says, what a process takes
            return None, []
        used = int(pages) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        wanted = used + nbytes
        resource.setrlimit(resource.RLIMIT_AS, (wanted if most < 0 else min(wanted, most), most))
        return None, []

    def call(self, content: bytes, arrays: list[Host]) -> Answer:
        """Call a pickled function.

        The answer ends with whether something here still refers to the arguments' memory, which the
        parent must then leave alone.
        """
        self._channel.send("begun")
        answer, buffers = _outcome(content, arrays)
        if os.getpid() != self._pid:  # a child that the function forked, and returned in
            os._exit(0)
        views = [ref(array) for array in arrays]
        arrays.clear()
        keeps = any(view() is not None for view in views)
        return (*answer, keeps), buffers

    def open(self, library: str, arrays: list[Host]) -> Answer:
        """Open a library, test its devices, and describe them."""
        from gpuforge.runtime.evaluation.engine import Programs
        from gpuforge.runtime.evaluation.opening import open_library
        from gpuforge.runtime.workers.description import described

        del arrays
        opened = open_library(library)
        self._devices, self._programs = opened.devices, Programs()
        return (
            tuple(map(described, opened.devices)),
            [(failure.name, failure.reason) for failure in opened.failures],
            opened.seconds,
        ), []

    def run(
        self, place: int, number: int, graph: Any, values: list[Any], checks_finite: bool,
        arrays: list[Host],
    ) -> Answer:  # fmt: skip
        """Run a graph on a device; `graph` is None if it was sent before."""
        backend = self._devices[place]
        if graph is not None:
            self._graphs[number] = graph
        found = self._graphs.get(number)
        if found is None:
            return ("unknown",), []
        given = iter(arrays)
        inputs = [next(given) if value is None else value for value in values]
        try:
            return self._ran(backend, found, inputs, checks_finite)
        except Exception as error:  # noqa: BLE001 - whatever a library raises, NumPy settles
            if backend.lost(error):
                sys.stderr.write(f"{backend.name} is lost: {error}\n")
                os._exit(LOST_STATUS)
            exhausted = backend.exhausted(error)
            text = " ".join(str(error).split())[:300]
            error.__traceback__ = None
            if exhausted:
                backend.release()
            return ("failed", type(error).__name__, text, exhausted), []

    def _ran(self, backend: Backend, graph: Any, inputs: list[Any], checks_finite: bool) -> Answer:
        assert self._programs is not None
        program = self._programs.of(backend, graph)
        program.checks_finite = checks_finite or backend.compiles
        start, began = perf_counter(), process_time()
        with backend.scope(), np.errstate(all="ignore"):
            given = [backend.put(one) if type(one) is np.ndarray else one for one in inputs]
            call: Any = program
            if backend.compiles:
                if program.compiled is None:
                    program.compiled = self._programs.compile(backend, program, given)
                call = program.compiled
            values, fired, finite = call(*given)
            if any(one is not False and bool(one) for one in fired):
                return ("settle",), []
            backend.wait(values)
            hosts = [np.asarray(backend.get(value)) for value in values]
            times = perf_counter() - start, process_time() - began
            known = [bool(one) for one in finite] if checks_finite else []
            return ("values", known, *times), hosts

    def prepare(
        self, place: int, graphs: list[tuple[Any, list[Any]]], arrays: list[Host]
    ) -> Answer:
        """Run graphs over zeros, twice; return how long the second runs took.

        None if one fails for zeros, as some of linear algebra does, or NumPy would have to settle.
        """
        del arrays
        total: float | None = 0.0
        for graph, like in graphs:
            inputs = [np.zeros(one[1], one[0]) if type(one) is tuple else one for one in like]
            try:
                for _ in range(2):
                    (kind, *rest), _ = self._ran(self._devices[place], graph, inputs, False)
            except Exception:  # noqa: BLE001 - the values of a real call may be fine
                kind, rest = "failed", []
            total = total + rest[1] if total is not None and kind == "values" else None
        return total, []

    def compile(
        self, place: int, stored_under: str, graph: Any, like: list[Any], arrays: list[Host]
    ) -> Answer:
        """Compile and serialize a graph for inputs like these; on failure, None and the reason."""
        del arrays
        from gpuforge.runtime.evaluation.compilation import compile_like

        backend = self._devices[place]
        assert self._programs is not None
        if backend.stored_under != stored_under:
            return (None, "the library has different settings there"), []
        try:
            program = self._programs.of(backend, graph)
            return (backend.stored(compile_like(self._programs, backend, program, like)), ""), []
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent meets it too
            return (None, f"{type(error).__name__}: {error}"), []
        finally:
            self._programs.clear()

    def release(self, arrays: list[Host]) -> Answer:
        """Release the library's cached memory."""
        del arrays
        for backend in self._devices:
            backend.release()
        return None, []


def _outcome(content: bytes, arrays: list[Host]) -> Answer:
    """Call a pickled function; return its outcome, and what to note on errors."""
    from gpuforge.runtime.workers.pickling import called, dumped, loaded

    notes: list[str] = []
    for array in arrays:
        array.flags.writeable = False
    try:
        where, sent, args, kwargs = loaded(content, arrays)
        where.enter()
        function = called(*sent)
    except BaseException as error:  # noqa: BLE001 - reported to the caller
        return ("unreadable", f"{type(error).__name__}: {error}", notes), []
    kind, value = "result", None
    try:
        value = function(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001 - it is the caller's
        kind, value, notes = "raised", error, _notes(error)
        error.__traceback__ = None  # its frames refer to the arguments
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the function may have closed or replaced it
            stream.flush()
    try:
        made, buffers = dumped(value, owned=True)  # arguments are read-only, results are not
    except BaseException as error:  # noqa: BLE001 - pickling runs code of the value's own
        what = f"{type(value).__name__}: {value}" if kind == "raised" else type(value).__name__
        verb, why = kind.replace("result", "returned"), f"{type(error).__name__}: {error}"
        return ("unsendable", (verb, f"{what} ({why})"), notes), []
    return (kind, made, notes), buffers


def _notes(error: BaseException) -> list[str]:
    """Return notes about where an exception was raised: its traceback is not sent."""
    notes = ["in a worker process:\n" + "".join(traceback.format_exception(error)).rstrip()]
    if isinstance(error, ValueError) and "read-only" in str(error):
        notes.append("in a worker process, arguments are read-only: write into a copy")
    return notes
