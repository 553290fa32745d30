"""Where the devices of one library live: a worker process that is started anew when it is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from gpuforge.detect.free_memory import read_free_memory
from gpuforge.errors import WorkerDied
from gpuforge.log import logger
from gpuforge.runtime.backends import Backend, Failure, Opened, device_of
from gpuforge.runtime.workers.channel import Host
from gpuforge.runtime.workers.description import Description
from gpuforge.runtime.workers.process import Lost, Worker

_log = logger("workers")
START_SECONDS = 120.0
"""What a library may take to be imported and tested in a new process."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 600.0
"""A worker that was lost is started again after the first, each time twice as long, at most the
second; one that lasts longer than its pause begins with the first again."""

Answer = tuple[Any, list[Host]]


class Home:
    """The worker process of one library. Thread-safe; one request is answered at a time.

    Parameters
    ----------
    library
        The name of its backend.
    memory_bytes
        What it may take besides what the library takes once open; 0: what is free then. Only where
        all its devices compute in the memory of the host.
    crashed
        Told why, each time it is lost.

    Attributes
    ----------
    starts : how often a process was started
    sent : numbers of the graphs that the process has
    """

    def __init__(self, library: str, memory_bytes: int, crashed: Callable[[str], None]) -> None:
        self.library, self.memory_bytes = library, memory_bytes
        self.starts = 0
        self.sent: set[int] = set()
        self._crashed = crashed
        self._lock = threading.RLock()
        self._worker: Worker | None = None
        self._ready = self._closed = False
        self._began = self._due = 0.0
        self._pause = FIRST_PAUSE_SECONDS
        self._ending = ""
        self._on_host = True
        self._devices: tuple[Description, ...] = ()

    def begin(self) -> None:
        """Start the process; `opened` tells when it is ready."""
        with self._lock:
            self._worker, self._ready, self._began = Worker(quiet=True), False, monotonic()
            self.starts += 1
            self.sent.clear()
            try:
                self._worker.send(("open", self.library))
            except Lost as lost:
                self._lose(str(lost))

    def opened(
        self, make: Callable[[Home, int, Description], Backend], *, wait: bool = False
    ) -> Opened | None:
        """Return the outcome of opening the library there; None while that goes on."""
        with self._lock:
            failures: Sequence[Failure] = ()
            if self._worker is not None and not self._ready:
                if wait:
                    self._worker.channel.ready(START_SECONDS)
                found = self._take_in()
                if found is None:
                    return None
                failures = found
            if not self._ready:
                name = f"{self.library}:worker"
                return Opened((), (Failure(name, self._ending),), monotonic() - self._began)
            devices = tuple(make(self, place, one) for place, one in enumerate(self._devices))
            return Opened(devices, tuple(failures), monotonic() - self._began)

    def away(self) -> str:
        """Return why it cannot be asked now; empty if it can. Starts it again when it is time."""
        if self._ready:
            return ""
        with self._lock:
            if self._closed:
                return "its worker process was closed with its session"
            if self._worker is None:
                if monotonic() < self._due:
                    return f"its worker process {self._ending}; it is not used for a while"
                self.begin()
            if self._is_back():
                return ""
            return f"its worker process {self._ending}; it is being started again"

    def _is_back(self) -> bool:
        """Return whether a process that was started again is ready, with the devices it had."""
        known = [one.name for one in self._devices]
        if self._worker is None or self._take_in() is None:
            return False
        if self._ready and [one.name for one in self._devices] != known:
            self._lose("found different devices than before")
        return self._ready

    def ask(self, message: Any, arrays: Sequence[Host], take: Callable[[Answer], Any]) -> Any:
        """Ask the process, and return what `take` makes of its answer.

        Raises
        ------
        WorkerDied
            If it dies meanwhile, or is not there.
        """
        with self._lock:
            if not self._ready or self._worker is None:
                raise self._died(None, f"is unavailable: {self.away()}")
            try:
                self._worker.send(message, arrays)
                return take(self._worker.receive(watched=self._on_host))
            except Lost as lost:
                self._lose(str(lost))
                raise self._died(lost.status, self._ending) from None
            finally:
                self._ready = self._worker is not None and self._worker.alive
                if not self._ready and self._worker is not None:  # interrupted, and killed for it
                    self._worker, self._due, self._ending = None, 0.0, "was interrupted"

    def close(self) -> None:
        """End the process for good."""
        with self._lock:
            self._closed, self._ready = True, False
            if self._worker is not None:
                self._worker.kill()
                self._worker = None

    def _take_in(self) -> Sequence[Failure] | None:
        """Return what could not be opened, once the process has said so; None before."""
        assert self._worker is not None
        if not self._worker.channel.ready():
            if monotonic() - self._began < START_SECONDS:
                return None
            self._lose(f"was not ready after {START_SECONDS:.0f} s")
            return ()
        try:
            (devices, failures, _), _ = self._worker.receive()
            self._devices = devices
            self._ready = bool(devices)
            self._on_host = all(device_of(one.name) == "cpu" for one in devices)
            if devices and self._on_host:
                memory = read_free_memory()
                nbytes = self.memory_bytes or (memory.free_bytes if memory else 0)
                if nbytes:
                    self._worker.ask(("limit", nbytes))
        except Lost as lost:
            self._lose(f"{lost} while the library was opened")
            return ()
        if not devices:
            self._worker.kill()
            self._worker, self._ending = None, "found no device that works"
        return [Failure(f"{name}:worker", reason) for name, reason in failures]

    def _lose(self, ending: str) -> None:
        """Take in that the process has ended."""
        lasted = monotonic() - self._began
        if lasted > self._pause + START_SECONDS:
            self._pause = FIRST_PAUSE_SECONDS
        self._ending = ending
        self._due = monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        if self._worker is not None:
            self._worker.kill()
        self._worker, self._ready = None, False
        _log.warning("the worker process of %s %s", self.library, self._ending)
        self._crashed(self._ending)

    def _died(self, status: int | None, text: str) -> WorkerDied:
        made = WorkerDied(f"the worker process of {self.library} {text}")
        made.status, made.backend = status, self.library
        return made
