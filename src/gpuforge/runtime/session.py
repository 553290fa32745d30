"""A session: the settings in force, the open backends and everything learned under them."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gpuforge import published, trace
from gpuforge import settings as settings_module
from gpuforge.ending import stay_interrupted
from gpuforge.errors import BackendUnavailable
from gpuforge.history import History, Timing
from gpuforge.log import logger, open_log
from gpuforge.runtime import heap
from gpuforge.runtime.backends import Backend, matches
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.calibration.fingerprint import cpu_features, machine_fingerprint
from gpuforge.runtime.context import current
from gpuforge.runtime.demand import Demand, Wanted
from gpuforge.runtime.evaluation.background import (
    END_PATIENCE_SECONDS,
    FORK_PATIENCE_SECONDS,
    Background,
)
from gpuforge.runtime.function.reading import LOOP
from gpuforge.runtime.kept import Kept
from gpuforge.runtime.libraries import Libraries, Library
from gpuforge.runtime.placement.account import Account
from gpuforge.runtime.placement.peers import Peer, Peers
from gpuforge.runtime.placement.policy import NUMPY, SHARE_FELT, Candidate, Policy, arrive
from gpuforge.runtime.placement.priors import Priors, classify
from gpuforge.runtime.prelude import prelude
from gpuforge.runtime.record import FunctionRecord, Functions, KindRecord
from gpuforge.runtime.startup.opening import Opening, Openings
from gpuforge.runtime.startup.trials import Trials
from gpuforge.runtime.threads import contention

if TYPE_CHECKING:
    from gpuforge.runtime.evaluation.engine import Programs
    from gpuforge.runtime.placement.plan import Plan

_log = logger("session")
FLUSH_SECONDS = 20.0
_ON_NUMPY = Candidate(NUMPY)
FORKED = "NumPy only, because other libraries hang after a fork (use the start method 'spawn')"


class Running(list[int]):
    """The threads of the calls in progress; the thread that enters it is there once more."""

    def __enter__(self) -> None:
        self.append(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        self.remove(threading.get_ident())


class Session:
    """The state that placed calls share. Thread-safe; `lock` guards everything learned."""

    def __init__(self, loaded: settings_module.Loaded) -> None:
        self.settings = loaded.settings
        self.lock = threading.RLock()
        self.reference = NumpyBackend()
        self.running = Running()
        self.notes: list[str] = list(loaded.problems)
        self.forked = prelude.forked
        if self.forked:
            self.notes.append(FORKED)
        chosen = self.settings
        self.policy = Policy(learn=chosen.learn and not chosen.deterministic)
        folder = settings_module.cache_folder(chosen) if chosen.history else None
        self.history = History(folder, machine_fingerprint())
        self.kept = Kept(self.history)
        self.functions = Functions(
            self.kept, self.lock, tell_apart=chosen.deterministic,
            may_wait=self.policy.learn and not chosen.backend,
        )  # fmt: skip
        self.priors = Priors(self.history)
        heap.keep(chosen.kept_memory)
        self.blas = contention.BlasLimit()
        self.peers = Peers()
        began = perf_counter()
        self.account = Account(elapsed=lambda: perf_counter() - began)
        same_bits = chosen.deterministic  # the number of BLAS threads changes the last bits
        self.background = Background(
            contextlib.nullcontext if same_bits else self.blas.leave_a_core
        )
        self.warms = chosen.warmup and not self.forked
        self.plan: Plan | None = None
        if chosen.deterministic:
            from gpuforge.runtime.placement.plan import Plan

            self.plan = Plan.open(chosen, folder, self.history.machine)
        self.libraries = Libraries(chosen)
        self.libraries.measured = self.priors.measured
        self.demand = Demand(self.libraries, self.priors, self.account, self.kept)
        self.openings = Openings(
            chosen, self.libraries, self.kept, self.background, self.notes, self.lock,
            lambda: self.programs.store,
        )  # fmt: skip
        self.trials = Trials(
            self.libraries,
            wanted=chosen.compiler_process and self.policy.learn,
            programs=lambda: self.programs,
            note_devices=self.openings.note_devices,
        )
        self.openings.arrived = self._arrived
        self.openings.start_compiler = self.trials.compile_elsewhere
        self.demand.may_try = self.trials.may_try
        self._flushed = perf_counter()
        self._closing = False

    def backends(self, device: str = "", isolate: bool | None = None) -> list[Backend]:
        """Return the open backends, NumPy excluded, that may be used now; none in a forked child.

        `isolate` selects those in worker processes if True, those in this process if False.
        """
        return [] if self.forked else self.libraries.backends(device, isolate)

    @property
    def may_open(self) -> bool:
        """Whether a library may still be opened if calls take long enough."""
        closed = (not self.libraries.is_no_choice(one) for one in self.libraries.values())
        return bool(self.openings) or any(closed)

    def allowance(self) -> float:
        """Return the seconds that exploration may still cost."""
        share = self.settings.explore_share
        return self.account.allowance(share) if share else 0.0

    @property
    def in_the_red(self) -> bool:
        """Whether exploration stops until gains have paid back the losses."""
        return self.account.in_the_red and self.allowance() <= 0

    @cached_property
    def programs(self) -> Programs:
        """The programs prepared from graphs so far."""
        from gpuforge.runtime.evaluation.engine import Programs
        from gpuforge.runtime.evaluation.program_store import ProgramStore

        folder = self.history.path.parent if self.history.path and self.policy.learn else None
        return Programs(ProgramStore(folder, f"{self.history.machine} {cpu_features()}"))

    def backend(self, name: str) -> Backend | None:
        """Return the open backend with this full name, or None."""
        for backend in self.backends():
            if backend.name == name:
                return backend
        every = [] if self.forked else self.libraries.every()
        return next((backend for backend in every if backend.name == name), None)

    def find(self, name: str, isolate: bool | None = None, device: str = "") -> Backend:
        """Return the backend for a `name` (``torch``, ``torch:cuda``), opening it if needed.

        `isolate` selects one in a worker process if True, one in this process if False; `device`,
        one on such a device.

        Raises
        ------
        UnknownName
            If no backend has that name.
        BackendUnavailable
            If it is not installed, does not work or is not allowed, or this process was forked.
        """
        library_name = name.split(":")[0]
        isolate = name.endswith(":worker") or isolate
        if library_name == NUMPY and not isolate:
            return self.reference
        library = self.libraries.form(library_name, isolate)
        if self.forked:
            raise BackendUnavailable(
                f"backend {name!r} cannot be used in a forked process: its library would hang",
                hint="use the multiprocessing start method 'spawn'",
            )
        if library is None:
            from gpuforge.installation import install_command

            raise BackendUnavailable(
                f"backend {name!r} is not installed or not allowed by the settings",
                hint=f"run '{install_command(library_name)}', or pass fallback=True",
            )
        self.openings.open(library)
        for backend in library.devices:
            if matches(backend.name, [name]) and self.libraries.usable(backend, device):
                return backend
        reasons = [f"{failure.name}: {failure.reason}" for failure in library.failures]
        have = ", ".join(backend.name for backend in library.devices) or "none"
        reasons += [f"it has no device {device!r}, only {have}"] if device else []
        raise BackendUnavailable(
            f"backend {name!r} cannot be used: {'; '.join(reasons) or f'open: {have}'}",
            hint="pin another backend, or pass fallback=True",
        )

    def _arrived(self, one: Opening) -> None:
        """Offer the devices of a newly opened library to all functions, and charge its opening."""
        self.account.opening_seconds += one.felt * one.library.opening_seconds
        names = {backend.name for backend in one.library.devices}
        for function in self.functions.values():
            function.drop_decisions()  # chosen before there was an alternative
            for candidate in self.candidates(function.options.device, function.options.isolate):
                if candidate.name in names:
                    for record in function.kinds.values():
                        self.equip(function, record)
                        arrive(record.kind, candidate, record.sizes)

    def want(
        self, call: Wanted,
        refused: Collection[str] = (), known: Mapping[str, float] = MappingProxyType({}),
        isolate: bool | None = None,
    ) -> Library | None:  # fmt: skip
        """Account for calls on NumPy; return a library that is now worth opening, if any.

        `refused` devices are no candidates; `known` maps libraries to measured savings per call.
        """
        if self.forked or not self.policy.learn or self.openings or self._closing:
            return None
        if not self.trials.give_up():
            return None
        library = self.demand.want(call, refused, known, isolate)
        return None if self.background.is_busy else library

    def candidates(self, device: str = "", isolate: bool | None = None) -> list[Candidate]:
        """Return NumPy and every open backend that is allowed, as candidates for placement."""
        others = [
            Candidate(
                backend.name,
                backend.floor_seconds,
                backend.compiles,
                SHARE_FELT * backend.compile_seconds,
                backend.compiles and self.background.is_busy,
            )
            for backend in ([] if self.forked else self.libraries.backends(device, isolate))
        ]
        return [_ON_NUMPY, *others]

    def equip(self, function: FunctionRecord, record: KindRecord) -> None:
        """Give a kind of call the prior of its class of operations, and its peers."""
        record.kind.prior = self.priors.of(function.operations, record.bytes_each)
        record.kind.peer = Peer(self.peers, classify(function.operations), id(function))
        if LOOP in function.operations and not record.kind.first_recording_seconds:
            from gpuforge.runtime.evaluation.pace import TELLING_SECONDS

            record.kind.first_recording_seconds = TELLING_SECONDS

    @property
    def crowded(self) -> bool:
        """Whether several threads have calls in progress, which distort each other's timings."""
        return len(set(self.running)) > 1

    def flush(self, *, force: bool = False) -> None:
        """Write what was learned to the history, at most once per `FLUSH_SECONDS` unless forced."""
        now = perf_counter()
        if not force and now - self._flushed < FLUSH_SECONDS:
            return
        self.trials.end_idle()
        with self.lock:
            self._flushed = now
            timings = list(self._unsaved())
        self.history.keep(timings)
        if force and self.policy.learn and not self.forked:
            kinds = [
                kept.kind for function in self.functions.every() for kept in function.kinds.values()
            ]
            self.demand.keep_savings(kinds)
        self.kept.write()
        if self.plan is not None:
            self.plan.save()

    def _unsaved(self) -> Iterator[Timing]:
        if self.settings.memory_strategy == "eager":
            return  # these calls take longer than those of other sessions
        versions = {b.name: b.version for b in (self.reference, *self.libraries.every())}
        versions |= self.libraries.tried
        for function in list(self.functions.values()):
            for record in function.kinds.values():
                for (signature, backend), count in record.unsaved.items():
                    cell = record.kind.curve(backend).cell(signature)
                    if cell.seconds and backend in versions:
                        yield Timing(
                            function.digest, record.digest, signature,
                            f"{backend}@{versions[backend]}", record.sizes[signature],
                            tuple(cell.seconds), count,
                        )  # fmt: skip
                record.unsaved.clear()

    def close(self) -> None:
        """Wait for background work, save what was learned, end the workers."""
        ends = not threading.main_thread().is_alive()
        self.openings.stop()
        self._closing = True
        self.trials.close()  # the background thread may be waiting for an answer
        self.trials.background.wait()
        self.background.wait(END_PATIENCE_SECONDS if ends else FORK_PATIENCE_SECONDS)
        self.trials.close()  # an import that finished meanwhile may have started more
        with self.history.held_open():  # `warming.keep` writes to the same file
            self.flush(force=True)
            if self.openings.all:
                from gpuforge.runtime.startup import warming

                warming.keep(self)
        self.openings.close()

    def fork(self) -> None:
        """Continue in a forked child: NumPy only, fresh locks, no history."""
        self.lock = threading.RLock()
        self.forked = True
        self.running = Running()
        self.openings.fork(self.lock)
        self.trials.fork()
        self.warms = False
        self.history = self.kept.history = History(None, self.history.machine)
        self.programs.clear()
        with published.unseen():  # the calls counted here were the parent's
            self.functions.fork(self.lock)
        self.notes.append(FORKED)
        _log.warning("%s", FORKED)


_default: Session | None = None
_default_lock = threading.Lock()
_all: list[Session] = []


@trace.when_switched
def _drop_decisions() -> None:
    """Drop the cached decisions: traced and untraced calls take different paths."""
    for session in _all:
        session.functions.drop_decisions()


def current_session() -> Session:
    """Return the session in force; the default one is created from the settings on first use."""
    return current.get() or default_session()


def sessions() -> tuple[Session, ...]:
    """Return every open session of this process."""
    return tuple(_all)


def default_session() -> Session:
    """Return the session in force outside any ``with gpuforge.session(...)`` block."""
    global _default
    if not prelude.over:
        prelude.end()
    if _default is None:
        with _default_lock:
            if _default is None:
                loaded = settings_module.load()
                open_log(loaded.settings)
                _default = _register(Session(loaded))
    return _default


def _count_held() -> None:
    for each in sessions():
        for function in each.functions.every():
            function.count_held()


published.count_held = _count_held


def _peaks(names: Iterable[str], measure: bool) -> dict[str, Any]:
    from gpuforge.runtime.calibration import peaks

    session = current_session()
    open_ones: dict[str, Backend | None] = {NUMPY: session.reference}
    for name in names:
        found = (each.backend(name) for each in (session, *_all))
        open_ones.setdefault(name, next((one for one in found if one is not None), None))
    return peaks.known(session.history, open_ones, measure=measure)


trace.peaks = _peaks


def _register(session: Session) -> Session:
    _all.append(session)
    return session


@contextlib.contextmanager
def session(*, strategy: str = "", **choices: Any) -> Iterator[Session]:
    """Use other settings inside a ``with`` block; what is learned there stays in that session.

    Parameters
    ----------
    strategy
        Short for ``memory_strategy``: ``"pooled"``, ``"lazy"`` or ``"eager"``.
    **choices
        Settings by name: ``backends=["numpy", "torch"]``, ``deterministic=True``, ...

    Raises
    ------
    UnknownName, InvalidSettings
        If a setting does not exist or a value is invalid.
    """
    if strategy:
        choices["memory_strategy"] = strategy
    prelude.end()
    made = _register(Session(settings_module.load(flags=choices)))
    token = current.set(made)
    try:
        yield made
    finally:
        current.reset(token)
        made.close()
        _all.remove(made)


@atexit.register
def close_all() -> None:
    """Save what the sessions learned, and end their workers."""
    for each in _all:
        each.close()
    stay_interrupted()


def _after_fork() -> None:
    global _default_lock
    _default_lock = threading.Lock()
    contention.BlasLimit.after_fork()
    for each in _all:
        each.fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
