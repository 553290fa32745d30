"""Open libraries in the background: imported one by one in a thread, or in worker processes.

Only one thread imports, since imports hold the interpreter's lock; workers start at once. A library
that was never opened on this machine may first be tried in a separate process, where a hang or
crash costs the program nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import partial
from time import perf_counter
from typing import IO, TYPE_CHECKING

from gpuforge import trace
from gpuforge.log import logger
from gpuforge.runtime.backends import about
from gpuforge.runtime.demand import OPENING_FELT
from gpuforge.runtime.evaluation.background import Background
from gpuforge.runtime.kept import Kept
from gpuforge.runtime.libraries import Libraries, Library
from gpuforge.runtime.prelude import prelude
from gpuforge.runtime.threads import contention
from gpuforge.settings import Settings

if TYPE_CHECKING:
    from gpuforge.runtime.backends import Backend, Opened
    from gpuforge.runtime.evaluation.program_store import ProgramStore
    from gpuforge.runtime.workers.home import Home

_log = logger("startup")
TRIAL_SECONDS = 60.0
"""Time limit for a library that is tried in a separate process."""
COMPILE_SECONDS = 0.1
"""What compiling a small program is expected to take where that was never measured."""


def _nothing(_: object) -> None:
    pass


class Opening:
    """The opening of one library.

    Attributes
    ----------
    by : who requested it
    felt : the share of its time that is charged to calls
    tried : whether it is tried in a separate process first
    state : ``waiting``, ``tested in a separate process``, ``importing``, ``ready``, ``open``,
        ``failed``
    began_seconds : start time since the process began; None if the system does not report it
    elapsed_seconds : time from its turn until it was ready
    held_seconds : CPU time of the importing thread, which may have held Python's lock
    waited_seconds : time that calls, and `wait` of a warm-up, waited for it
    start_compiler : called with its name at its turn, in the importing thread
    """

    def __init__(self, library: Library, by: str, *, felt: float, tried: bool = False) -> None:
        from gpuforge.runtime.startup.record import since_start

        self.library, self.by, self.felt, self.tried = library, by, felt, tried
        self.state, self.failure = "waiting", ""
        self.began_seconds = since_start()
        self.elapsed_seconds = self.held_seconds = self.waited_seconds = 0.0
        self.home: Home | None = None
        self.start_compiler: Callable[[str], None] = _nothing
        self._opened: Opened | None = None
        self._done = threading.Event()
        self._start = perf_counter()

    def run(self, background: Background, store: ProgramStore) -> None:
        """Import it in this thread of `background`."""
        from gpuforge.installation import loaded
        from gpuforge.runtime.backends import Failure, Opened
        from gpuforge.runtime.evaluation.opening import load_library
        from gpuforge.runtime.startup.ahead import read_ahead

        self._start = perf_counter()
        ahead: IO[bytes] | None = None
        name = self.library.name
        try:
            reason = ""
            if self.tried:
                self.state = "tested in a separate process"
                with background.elsewhere():
                    reason = try_out(name)
            elif not loaded(library := about(name)[0]):
                ahead = read_ahead(library)
            self.state = "importing"
            if not reason:
                self.start_compiler(name)
            made = Opened((), (Failure(name, reason),)) if reason else load_library(name, store)
            self.end(made, made.seconds)
        except Exception as error:  # noqa: BLE001 - another package's module may fail in any way
            self.end(Opened((), (Failure(name, f"{type(error).__name__}: {error}"),)), 0.0)
        finally:
            if ahead is not None:
                with suppress(OSError):  # the program may have closed every descriptor
                    ahead.close()

    def end(self, made: Opened, held_seconds: float) -> None:
        """Record the outcome."""
        self.elapsed_seconds = perf_counter() - self._start
        self._opened, self.held_seconds = made, held_seconds
        self.failure = "; ".join(
            one.reason if one.name == self.library.name else f"{one.name}: {one.reason}"
            for one in made.failures
        )
        self.state = "ready" if made.devices else "failed"
        if self.state == "failed" and not self.failure:
            self.failure = "it found no device"
        self._done.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is ready; return whether it is."""
        start = perf_counter()
        try:
            if self.home is None:
                return self._done.wait(seconds)
            ends = start + seconds if seconds is not None else None
            while self.outcome(wait=ends is None) is None:
                if ends is None or perf_counter() >= ends:
                    return False
                threading.Event().wait(0.01)  # a worker's socket is polled
            return True
        finally:
            self.waited_seconds += perf_counter() - start

    def outcome(self, *, wait: bool = False) -> Opened | None:
        """Return the outcome; None while it is in progress."""
        if self.home is not None and not self._done.is_set():
            from gpuforge.runtime.workers.remote import open_remote

            made = open_remote(self.home, wait=wait)
            if made is not None:
                self.end(made, 0.0)
        return self._opened if self._done.is_set() else None


class Openings:
    """Opens the libraries of one session: at once, in the background, or in workers.

    Parameters
    ----------
    lock
        The session's lock, held while the devices of a library are added.
    store
        Returns where compiled programs are stored.

    Attributes
    ----------
    all : every opening so far
    arrived : called with the lock held when the devices of a library can be used
    start_compiler : see `Opening`
    """

    def __init__(
        self, chosen: Settings, libraries: Libraries, kept: Kept, background: Background,
        notes: list[str], lock: AbstractContextManager[object], store: Callable[[], ProgramStore],
    ) -> None:  # fmt: skip
        self._store = store
        self._chosen, self._libraries, self._kept = chosen, libraries, kept
        self._background, self._notes, self._learned = background, notes, lock
        self.all: list[Opening] = []
        self.arrived: Callable[[Opening], None] = _nothing
        self.start_compiler: Callable[[str], None] = _nothing
        self._homes: list[Home] = []
        self._under_way: list[Opening] = []
        self._queue: deque[Opening] = deque()
        self._lock = threading.Lock()
        self._working = False
        self._forked = prelude.forked
        if kept.has("lost:"):
            for name in [name for name in libraries if kept.constant(self._lost_key(name))]:
                libraries.isolate(name)

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def open(self, library: Library, by: str = "a call that requests it") -> None:
        """Import a library and test its devices, once; other threads' calls continue meanwhile."""
        if library.opened or self._forked:
            self._open(library, by)
            return
        with trace.within("open", trace.OVERHEAD, backend=library.name):
            self._open(library, by)

    def _open(self, library: Library, by: str) -> None:
        self.collect()
        on_its_way = self._hurry(library)
        with self._learned:
            begins = not library.opened and not self._forked
            library.opened = library.opened or begins
        if begins and (library.isolated or self):
            on_its_way = Opening(library, by, felt=1.0)
            self._begin(on_its_way)
            self._hurry(library)
        elif begins:
            self._open_here(library, by)
        if on_its_way is not None:
            on_its_way.wait()
            self.collect()

    def _open_here(self, library: Library, by: str) -> None:
        from gpuforge.runtime.evaluation.opening import open_library

        one = Opening(library, by, felt=1.0)
        self.all.append(one)
        opened = open_library(library.name, self._store())
        one.end(opened, opened.seconds)
        one.waited_seconds = one.elapsed_seconds
        self._take_in(one, opened)

    def open_in_background(
        self, libraries: Iterable[Library], by: str, *, asked: bool = False
    ) -> None:
        """Start to open libraries in the background, one by one; `collect` adds the results.

        If the user `asked` for them, the account is not charged, and libraries that were never
        opened here are tried in a separate process first.
        """
        from gpuforge.installation import loaded

        for library in libraries:
            with self._learned:
                if library.opened or self._forked:
                    continue
                library.opened = True
            never = self._kept.constant(self._devices_key(library)) is None
            there = library.loaded or loaded(library.name)
            felt = 0.0 if asked else OPENING_FELT
            one = Opening(library, by, felt=felt, tried=asked and never and not there)
            one.start_compiler = self.start_compiler
            self._begin(one)

    def _begin(self, one: Opening) -> None:
        """Start to open a library, or queue it."""
        if one.library.isolated:
            one.home = self._home(one.library)
            one.state = "importing"
            one.home.begin()
        with self._lock:
            self.all.append(one)
            self._under_way.append(one)
            if one.home is None:
                self._queue.append(one)
        self.go_on()

    def _home(self, library: Library) -> Home:
        """Return the worker process of a library, not started yet."""
        from gpuforge.runtime.workers.home import Home

        home = Home(library.name, self._chosen.worker_memory, partial(self._lost, library))
        self._homes.append(home)
        return home

    def go_on(self) -> None:
        """Start the importing thread, if it is needed and no other background job runs."""
        with self._lock:
            if self._queue and not self._working:
                self._working = self._background.start(self._work, imports=True)

    def _hurry(self, library: Library) -> Opening | None:
        """Move a library to the front of the queue; return its opening if it is in progress."""
        with self._lock:
            one = next((one for one in self._under_way if one.library is library), None)
            if one is not None and one in self._queue:
                self._queue.remove(one)
                self._queue.appendleft(one)
        self.go_on()
        return one

    def collect(self) -> None:
        """Add the libraries that were opened in the background."""
        if self._under_way:
            for one, opened in self._finished():
                self._take_in(one, opened)

    def _finished(self) -> list[tuple[Opening, Opened]]:
        """Return the finished openings, each once, for the calling thread to add."""
        if self._queue and not self._working:
            self.go_on()
        with self._lock:
            found = [(one, one.outcome()) for one in self._under_way]
            done = [(one, made) for one, made in found if made is not None]
            for one, _ in done:
                self._under_way.remove(one)
        for one, made in done:
            if one.home is None and made.devices:
                contention.tame(one.library.name)
        return done

    def _take_in(self, one: Opening, opened: Opened) -> None:
        """Add the devices of a library."""
        library = one.library
        with self._learned:
            one.state = "open" if opened.devices else "failed"
            self._libraries.take_in(library, opened.devices)
            for backend in opened.devices:
                self._note_compile_seconds(backend)
            library.failures = opened.failures
            library.opening_seconds = opened.seconds
            self.arrived(one)
            self._kept.keep(f"opening:{library.label}", opened.seconds, later=True)
            self.note_devices(library, [backend.name for backend in opened.devices])
            for failure in opened.failures:
                self._notes.append(f"{failure.name} is not used: {failure.reason}")

    def _note_compile_seconds(self, backend: Backend) -> None:
        """Remember what compiling takes, or recall it if the first program was stored."""
        key = f"compiling:{backend.name}@{backend.version}"
        if backend.compile_seconds:
            self._kept.keep(key, backend.compile_seconds, later=True)
        elif backend.compiles:
            known = self._kept.constant(key)
            backend.compile_seconds = known if isinstance(known, float) else COMPILE_SECONDS

    def note_devices(self, library: Library, names: list[str]) -> None:
        """Remember which devices a version of a library has."""
        self._kept.keep(self._devices_key(library), names, later=True)

    def lose(self, name: str, reason: str) -> None:
        """Move a library that this process can no longer use to a worker."""
        with self._learned:
            library = self._libraries.get(name.split(":")[0])
            if library is None or not library.devices:
                return
            self._lost(library, reason)
            self._libraries.take_in(library, ())
            self._libraries.isolate(library.name)

    def _lost(self, library: Library, reason: str) -> None:
        """Remember that a library's process died, or that this process lost it."""
        self._kept.keep(self._lost_key(library.name), reason)
        self._notes.append(f"{library.label} was lost: {reason}")

    def _lost_key(self, name: str) -> str:
        """Return the history's key for how a version of a library was lost here."""
        return f"lost:{name}@{self._libraries.version(name)}"

    def _devices_key(self, library: Library) -> str:
        return f"devices:{library.label}@{self._libraries.version(library.name)}"

    def stop(self) -> None:
        """Start nothing more."""
        with self._lock:
            self._queue.clear()

    def close(self) -> None:
        """End the workers."""
        for home in self._homes:
            home.close()

    def fork(self, lock: AbstractContextManager[object]) -> None:
        """Continue in a forked child, where no thread imports: drop half-imported libraries."""
        self._forked, self._learned = True, lock
        imported = [one.library.name for one in self._under_way if one.state == "importing"]
        self._lock, self._working = threading.Lock(), False
        self._under_way.clear()
        self._queue.clear()
        for name in imported:
            _forget_import(about(name)[0].partition(".")[0])

    def _work(self) -> None:
        while (one := self._next()) is not None:
            one.run(self._background, self._store())

    def _next(self) -> Opening | None:
        with self._lock:
            self._working = bool(self._queue) and threading.main_thread().is_alive()
            return self._queue.popleft() if self._working else None


def try_out(name: str) -> str:
    """Open a library in a separate process; return why that failed, empty if it did not."""
    if os.name != "posix":
        return ""
    from gpuforge.runtime.workers.process import Lost, Worker

    worker = Worker(quiet=True)
    try:
        worker.send(("open", name))
        (devices, failures, _), _ = worker.receive(TRIAL_SECONDS)
    except TimeoutError:
        return f"it was not ready after {TRIAL_SECONDS:.0f} s in a separate process"
    except Lost as lost:
        return f"the process that tested it {lost}"
    finally:
        worker.kill()
    return "" if devices or not failures else str(failures[0][1])


def _forget_import(root: str) -> None:
    """Undo a partial import by a thread that is gone, so that it can be repeated."""
    from gpuforge.runtime.startup.importlib_bootstrap import machinery

    for name in [name for name in sys.modules if name.partition(".")[0] == root]:
        if getattr(getattr(sys.modules[name], "__spec__", None), "_initializing", False):
            _log.info("%s was only partly imported before the fork", name)
            del sys.modules[name]
    for name in [name for name in machinery._module_locks if name.partition(".")[0] == root]:
        del machinery._module_locks[name]
