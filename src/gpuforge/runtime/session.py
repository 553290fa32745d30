"""A session: the settings, the open backends and everything learned while it is in force."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from weakref import ref

from gpuforge import settings as settings_module
from gpuforge.errors import BackendUnavailable, UnknownName
from gpuforge.history import History, Timing
from gpuforge.log import logger, open_log
from gpuforge.runtime import contention
from gpuforge.runtime.account import Account
from gpuforge.runtime.backends import (
    Backend,
    check_device,
    device_of,
    installed_version,
    is_on,
    list_backends,
    matches,
    names,
)
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.fingerprint import machine_fingerprint
from gpuforge.runtime.peers import Peers
from gpuforge.runtime.placement import NUMPY, Candidate, Policy, Prior
from gpuforge.runtime.plan import Plan
from gpuforge.runtime.priors import Priors
from gpuforge.runtime.record import FunctionRecord, Options

if TYPE_CHECKING:
    from gpuforge.runtime.engine import Programs
    from gpuforge.runtime.opening import Failure

_log = logger("session")
_ORDER = ("cupy", "jax", "torch", "dpnp")
"""Which of libraries that promise the same is opened first: those that gain on most calls."""
ASSUMED_OPENING_SECONDS = 1.0
"""Import and self-test of a library that was never opened on this machine."""
FLUSH_SECONDS = 20.0
SWEEP_FUNCTIONS = 64


@dataclass
class Library:
    """One installed array library of a session.

    Attributes
    ----------
    loaded : whether the user's program had imported it when the session began
    version : as its package says, once that was asked
    named_only : whether it is used by those only who name it
    wanted_seconds : what it might have saved so far, at best
    price_seconds : what opening it is expected to take, once that was asked
    devices : its backends once it was opened
    failure : why it cannot be used; empty when it can or was not tried
    """

    name: str
    loaded: bool = False
    named_only: bool = False
    version: str | None = None
    wanted_seconds: float = 0.0
    price_seconds: float | None = None
    opened: bool = False
    opening_seconds: float = 0.0
    devices: tuple[Backend, ...] = ()
    failures: tuple[Failure, ...] = ()


class Session:
    """The state that placed calls share. Thread-safe; `lock` guards all that is learned."""

    def __init__(self, loaded: settings_module.Loaded) -> None:
        self.settings = loaded.settings
        self.loaded = loaded
        self.lock = threading.RLock()
        self.reference = NumpyBackend()
        self.functions: dict[int, FunctionRecord] = {}
        self._running: dict[int, int] = {}
        self._sweep_at = SWEEP_FUNCTIONS
        self.asked_for: set[str] = set()
        self.retired: dict[str, FunctionRecord] = {}
        self.notes: list[str] = list(loaded.problems)
        self.forked = False
        chosen = self.settings
        self.policy = Policy(chosen.explore_share, chosen.learn and not chosen.deterministic)
        folder = settings_module.cache_folder(chosen) if chosen.history else None
        self.history = History(folder, machine_fingerprint())
        self.priors = Priors(self.history)
        self.blas = contention.BlasLimit()
        self.peers = Peers()
        self.account = Account()
        self.plan = (
            Plan.open(chosen, folder, self.history.machine) if chosen.deterministic else None
        )
        self.libraries = self._list_libraries()
        self._flushed = perf_counter()

    def _list_libraries(self) -> dict[str, Library]:
        chosen = self.settings
        if chosen.device:
            check_device(chosen.device)
        wanted = (chosen.backend, *chosen.backends, *chosen.forbid)
        plugins = chosen.plugins or not self._known(wanted, names())
        self._check_names(wanted, names(plugins=plugins))
        return {
            entry.name: Library(entry.name, loaded=entry.loaded, named_only=entry.named_only)
            for entry in list_backends(plugins=plugins)
            if entry.found and entry.name != NUMPY and self._allowed(entry.name)
        }

    @staticmethod
    def _known(wanted: tuple[str, ...], known: tuple[str, ...]) -> bool:
        return all(name.split(":")[0] in known for name in wanted if name)

    def _check_names(self, wanted: tuple[str, ...], known: tuple[str, ...]) -> None:
        for name in wanted:
            if not self._known((name,), known):
                raise UnknownName.among("backend", name, known)

    def _allowed(self, library: str) -> bool:
        only = [name.split(":")[0] for name in self.settings.backends]
        return (not only or library in only) and library not in self.settings.forbid

    def usable(self, backend: Backend, device: str = "") -> bool:
        """Return whether the settings let `backend` be used at all."""
        chosen = self.settings
        place = device_of(backend.name)
        return not (
            (chosen.backends and not matches(backend.name, chosen.backends))
            or matches(backend.name, chosen.forbid)
            or (chosen.cpu_only and place != "cpu")
            or any(wanted and not is_on(backend.name, wanted) for wanted in (chosen.device, device))
            or (chosen.deterministic and not backend.deterministic)
            or (backend.dies_when_short and not self._named(backend.name.split(":")[0]))
        )

    def backends(self, device: str = "") -> list[Backend]:
        """Return the open backends besides NumPy that the settings allow.

        One that ends the process where memory is short is used only by those who name it.
        """
        if self.forked:
            return []
        devices = [b for library in self.libraries.values() for b in library.devices]
        return [backend for backend in devices if self.usable(backend, device)]

    @cached_property
    def programs(self) -> Programs:
        """The graphs made ready so far."""
        from gpuforge.runtime.engine import Programs

        return Programs()

    def backend(self, name: str) -> Backend | None:
        """Return an open backend by its full name; None where there is none."""
        return next((backend for backend in self.backends() if backend.name == name), None)

    def _named(self, library: str) -> bool:
        asked = (self.settings.backend, *self.settings.backends, *self.asked_for)
        return any(name.split(":")[0] == library for name in asked if name)

    def find(self, name: str) -> Backend:
        """Return the backend that `name` (``torch``, ``torch:cuda``) stands for, opening it.

        Raises
        ------
        UnknownName
            If no backend has that name.
        BackendUnavailable
            If it is not installed, does not work, is forbidden, or this process was forked.
        """
        library_name = name.split(":")[0]
        if library_name == NUMPY:
            return self.reference
        self.asked_for.add(library_name)
        if library_name not in self.libraries and library_name not in names():
            self._check_names((name,), names(plugins=True))
            self._add_plugin(library_name)
        if self.forked:
            raise BackendUnavailable(
                f"backend {name!r} cannot be used in a forked process: libraries hang there",
                hint="start processes by 'spawn'",
            )
        library = self.libraries.get(library_name)
        if library is None:
            raise BackendUnavailable(
                f"backend {name!r} is not installed or not allowed by the settings",
                hint=f"install it: pip install 'gpuforge[{library_name}]', or pass fallback=True",
            )
        self.open(library)
        for backend in library.devices:
            if matches(backend.name, [name]) and self.usable(backend):
                return backend
        reasons = [f"{failure.name}: {failure.reason}" for failure in library.failures]
        have = ", ".join(backend.name for backend in library.devices) or "none"
        raise BackendUnavailable(
            f"backend {name!r} cannot be used: {'; '.join(reasons) or f'open: {have}'}",
            hint="pin another backend, or pass fallback=True",
        )

    def _add_plugin(self, name: str) -> None:
        """Take in a backend of another package that was asked for by its name."""
        for entry in list_backends(plugins=True):
            if entry.name == name and entry.found and self._allowed(name):
                self.libraries[name] = Library(name, loaded=entry.loaded)

    def open(self, library: Library) -> None:
        """Import a library and test each of its devices, once; other calls go on meanwhile."""
        with self.lock:
            if library.opened or self.forked:
                return
            library.opened = True
        from gpuforge.runtime.opening import open_library

        opened = open_library(library.name)
        with self.lock:
            library.devices, library.failures = opened.devices, opened.failures
            library.opening_seconds = opened.seconds
            self.account.opening_seconds += opened.seconds
            for function in self.functions.values():  # chosen while there was nothing to choose
                function.let_go()
            self.history.keep_constant(f"opening:{library.name}", opened.seconds)
            devices = [backend.name for backend in opened.devices]
            known = f"devices:{library.name}@{self.version(library.name)}"
            self.history.keep_constant(known, devices)
            for failure in opened.failures:
                self.notes.append(f"{failure.name} is left out: {failure.reason}")

    def want(
        self, seconds: float, operations: frozenset[str], size: int,
        refused: Collection[str] = (), known: Mapping[str, float] = MappingProxyType({}),
    ) -> tuple[str, ...]:  # fmt: skip
        """Take in that a call which other backends might run took `seconds` on NumPy.

        A library that is not open yet is opened once it might have saved as much as opening costs,
        and as much as opening others has cost and not yet brought back: one at a time, the most
        promising first. Not by calls for which all its devices are among those `refused`. Returns
        the names of the backends that were opened.

        `known` is the share of such a call that libraries save, where other processes measured it.
        """
        if self.forked or not self.policy.learn:
            return ()
        opened = sum(library.opened for library in self.libraries.values())
        owed = max(0.0, self.account.lost_seconds)
        worth: dict[str, float] = {}
        for library in self.libraries.values():
            if self._is_no_choice(library) or (refused and self._none_left(library, refused)):
                continue
            share = known.get(library.name)
            guess = self.priors.saving(library.name, operations, size, seconds)
            if share is None:  # one that is known to gain goes before others
                share = 0.0 if any(known.values()) else guess / seconds
            saving = share * seconds
            library.wanted_seconds += saving / (1 + opened)
            if library.price_seconds is None:
                library.price_seconds = self._opening_seconds(library)
            if library.wanted_seconds >= library.price_seconds + owed:
                worth[library.name] = library.wanted_seconds / max(library.price_seconds, 1e-9)
        if not worth:
            return ()
        first = max(worth, key=lambda name: (worth[name], -_preference(name)))
        _log.info("opening %s", first)
        self.open(self.libraries[first])
        for library in self.libraries.values():
            library.wanted_seconds = 0.0
        return tuple(backend.name for backend in self.libraries[first].devices)

    def _is_no_choice(self, library: Library) -> bool:
        """Return whether a library is open already, or used by those only who name it."""
        return library.opened or (library.named_only and not self._named(library.name))

    def _none_left(self, library: Library, refused: Collection[str]) -> bool:
        """Return whether all devices that a library had when it was last opened are refused."""
        devices = self.history.constant(f"devices:{library.name}@{self.version(library.name)}")
        return isinstance(devices, list) and bool(devices) and set(devices) <= set(refused)

    def version(self, name: str) -> str:
        """Return the version of a backend's library, which is not imported for it."""
        library = self.libraries.get(name.split(":")[0])
        if library is None:
            return ""
        if library.version is None:
            library.version = installed_version(library.name)
        return library.version

    def _opening_seconds(self, library: Library) -> float:
        if library.loaded or library.name in sys.modules:
            return 0.05
        measured = self.history.constant(f"opening:{library.name}")
        return measured if isinstance(measured, float) else ASSUMED_OPENING_SECONDS

    def candidates(self, device: str = "") -> list[Candidate]:
        """Return NumPy and every open, allowed backend, as placement sees them."""
        others = [
            Candidate(
                backend.name, backend.floor_seconds, backend.compiles, backend.compile_seconds
            )
            for backend in self.backends(device)
        ]
        return [Candidate(NUMPY), *others]

    def prior(self, operations: frozenset[str]) -> Prior:
        """Return the calibrated ratios for a function that uses `operations`."""
        return self.priors.of(operations)

    def record(self, owner: object, function: Any, options: Options) -> FunctionRecord:
        """Return this session's record of an offloaded function, a new one at first.

        An owner that is gone leaves its counts under the function's name.
        """
        found = self.functions.get(id(owner))
        if found is not None and found.owner() is owner:
            return found
        with self.lock:
            found = self.functions.get(id(owner))  # another thread may have made it meanwhile
            if found is not None and found.owner() is owner:
                return found
            if found is not None:
                self._retire(self.functions.pop(id(owner)))
            if len(self.functions) >= self._sweep_at:
                self._sweep()
            made = self.functions[id(owner)] = FunctionRecord(function, options, ref(owner))
            made.stays = made.stays or str(self.history.constant(made.stays_key) or "")
            return made

    def _sweep(self) -> None:
        """Retire the records of functions that are gone."""
        gone = [key for key, record in self.functions.items() if record.owner() is None]
        for key in gone:
            self._retire(self.functions.pop(key))
        self._sweep_at = 2 * len(self.functions) + SWEEP_FUNCTIONS

    def _retire(self, record: FunctionRecord) -> None:
        record.let_go()
        kept = self.retired.setdefault(record.name, record)
        if kept is not record:
            kept.take_counts(record)
        record.kinds.clear()
        record.family.clear()

    def records(self) -> list[FunctionRecord]:
        """Return the records of all functions called in this session."""
        with self.lock:
            return [*self.functions.values(), *self.retired.values()]

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count the calling thread among those that have a call on its way."""
        thread = threading.get_ident()
        with self.lock:
            self._running[thread] = self._running.get(thread, 0) + 1
        try:
            yield
        finally:
            with self.lock:
                self._running[thread] -= 1
                if not self._running[thread]:
                    del self._running[thread]

    @property
    def crowded(self) -> bool:
        """Whether several threads have calls on their way, which disturb each other's times."""
        return len(self._running) > 1

    def flush(self, *, force: bool = False) -> None:
        """Write what was learned to the history, at most every `FLUSH_SECONDS` unless forced."""
        now = perf_counter()
        if not force and now - self._flushed < FLUSH_SECONDS:
            return
        with self.lock:
            self._flushed = now
            timings = list(self._unsaved())
        self.history.keep(timings)
        if self.plan is not None:
            self.plan.save()

    def _unsaved(self) -> Iterator[Timing]:
        if self.settings.memory_strategy == "eager":
            return  # its calls take longer than those of other sessions
        versions = {b.name: b.version for b in (self.reference, *self.backends())}
        for function in list(self.functions.values()):
            for record in function.kinds.values():
                for (signature, backend), count in record.fresh.items():
                    cell = record.kind.curve(backend).cell(signature)
                    if cell.seconds and backend in versions:
                        yield Timing(
                            function.digest, record.digest, signature,
                            f"{backend}@{versions[backend]}", record.sizes[signature],
                            tuple(cell.seconds), count,
                        )  # fmt: skip
                record.fresh.clear()

    def fork(self) -> None:
        """Go on in a forked child: NumPy only, fresh locks, no history."""
        self.lock = threading.RLock()
        self.forked = True
        self._running = {}
        self.history = History(None, self.history.machine)
        self.programs.clear()
        for function in self.functions.values():
            function.fork()
        note = "after a fork: NumPy only, other libraries hang there (start processes by 'spawn')"
        self.notes.append(note)
        _log.warning("%s", note)


def _preference(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


current: ContextVar[Session | None] = ContextVar("gpuforge_session", default=None)
_default: Session | None = None
_default_lock = threading.Lock()
_all: list[Session] = []


def current_session() -> Session:
    """Return the session in force; the default one is made from the settings on first use."""
    return current.get() or default_session()


def sessions() -> tuple[Session, ...]:
    """Return every session that is in force somewhere in this process."""
    return tuple(_all)


def default_session() -> Session:
    """Return the session that holds outside every ``with gpuforge.session(...)``."""
    global _default
    if _default is None:
        with _default_lock:
            if _default is None:
                loaded = settings_module.load()
                open_log(loaded.settings)
                _default = _register(Session(loaded))
    return _default


def _register(session: Session) -> Session:
    _all.append(session)
    return session


@contextlib.contextmanager
def session(*, strategy: str = "", **choices: Any) -> Iterator[Session]:
    """Hold other settings inside a ``with`` block; what is learned there stays with it.

    Parameters
    ----------
    strategy
        ``memory_strategy`` for short: ``"pooled"``, ``"lazy"`` or ``"eager"``.
    **choices
        Settings by name: ``backends=["numpy", "torch"]``, ``deterministic=True``, ...

    Raises
    ------
    UnknownName, InvalidSettings
        If a name or value means nothing.
    """
    if strategy:
        choices["memory_strategy"] = strategy
    made = _register(Session(settings_module.load(flags=choices)))
    token = current.set(made)
    try:
        yield made
    finally:
        current.reset(token)
        made.flush(force=True)
        _all.remove(made)


@atexit.register
def _flush_all() -> None:
    for each in _all:
        each.flush(force=True)


def _after_fork() -> None:
    global _default_lock
    _default_lock = threading.Lock()
    contention.BlasLimit.after_fork()
    for each in _all:
        each.fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
