"""The worker process that hosts one library's devices, restarted when it is lost."""

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
"""Time limit for importing and testing a library in a new process."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 600.0
"""A lost worker is restarted after the first pause, which doubles each time up to the second; a
worker that outlasts its pause resets it."""

Answer = tuple[Any, list[Host]]


class Home:
    """The worker process of one library. Thread-safe; one request is answered at a time.

    Parameters
    ----------
    library
        The name of its backend.
    memory_bytes
        Memory limit on top of what the open library uses; 0 for what is free then. Only if all its
        devices compute in host memory.
    crashed
        Called with the reason each time the worker is lost.

    Attributes
    ----------
    starts : number of processes started
    sent : ids of the graphs that the process has received
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
        """Start the process; `opened` returns its outcome once it is ready."""
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
        """Return the outcome of opening the library there; None while it is in progress."""
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
        """Return why it is unavailable now, else empty; restart it when its pause is over."""
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
        """Return whether a restarted process is ready, with the same devices as before."""
        known = [one.name for one in self._devices]
        if self._worker is None or self._take_in() is None:
            return False
        if self._ready and [one.name for one in self._devices] != known:
            self._lose("found different devices than before")
        return self._ready

    def ask(self, message: Any, arrays: Sequence[Host], take: Callable[[Answer], Any]) -> Any:
        """Send a request, and return `take` of the answer.

        Raises
        ------
        WorkerDied
            If the process dies meanwhile, or is not running.
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
        """Return the devices that failed to open, once the process reports; None before."""
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
        """Handle the end of the process."""
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
