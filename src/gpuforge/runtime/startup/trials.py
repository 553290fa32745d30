"""Processes beside the program: those that compile for it, and the one that tries a library."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from gpuforge.runtime.backends import about, compiles
from gpuforge.runtime.evaluation.background import Background
from gpuforge.runtime.libraries import Libraries, Library
from gpuforge.runtime.placement.priors import may_have_gpu
from gpuforge.runtime.record import KindRecord
from gpuforge.runtime.threads import WITHOUT_BLAS, contention

if TYPE_CHECKING:
    from gpuforge.runtime.array.graph import Graph
    from gpuforge.runtime.evaluation.engine import Programs
    from gpuforge.runtime.workers.compiler import Compilers
    from gpuforge.runtime.workers.trial import Trial

IDLE_SECONDS = 60.0
"""The process of a library that is not open here is ended after so long without a trial."""


class Trials:
    """The compiler processes of one session, and its trial of a library in one of them.

    Attributes
    ----------
    current : the trial under way, or one whose signature is no longer called; None if there is none
    background : the thread that waits for the process
    programs : returns the programs that a compiler process compiles for
    note_devices : is told the names of a library's devices once a trial found them
    """

    def __init__(
        self, libraries: Libraries, *, wanted: bool, programs: Callable[[], Programs],
        note_devices: Callable[[Library, list[str]], object],
    ) -> None:  # fmt: skip
        self.current: Trial | None = None
        self.background = Background(interrupt=self._interrupt, name=WITHOUT_BLAS)
        self.programs, self.note_devices = programs, note_devices
        self._libraries, self._wanted = libraries, wanted
        self._compilers: Compilers | None = None
        self._lock = threading.Lock()

    @cached_property
    def may_start(self) -> bool:
        """Whether processes may use a core beside the program.

        Not on a machine that may have a GPU, whose memory the library would reserve twice.
        """
        # Process 1 would become the parent; a frozen program has no interpreter to start.
        able = os.name == "posix" and os.getpid() != 1 and bool(sys.executable)
        able = able and not getattr(sys, "frozen", False)
        return self._wanted and able and contention.allowed_cores() > 1 and not may_have_gpu()

    def compile_elsewhere(self, name: str) -> None:
        """Start a compiler process for a library, if there may be one and the library compiles."""
        if compiles(name) and self.may_start:
            self._beside().begin(name)

    def _beside(self) -> Compilers:
        with self._lock:
            if self._compilers is None:
                from gpuforge.runtime.workers.compiler import Compilers

                self.programs().elsewhere = self._compilers = Compilers()
            return self._compilers

    def may_try(self, library: Library) -> bool:
        """Return whether a library can be tried in a process of its own before it is opened."""
        from gpuforge.installation import loaded

        there = library.loaded or loaded(about(library.name)[0])
        own_way = library.is_numpy or library.isolated or library.untriable
        own_way = own_way or library is not self._libraries.get(library.name)
        return not (there or own_way) and self.may_start

    def begin(
        self, library: Library, record: KindRecord, key: str, numpy_seconds: float, device: str
    ) -> None:
        """Begin to try a library on calls of one signature, in a process of its own."""
        allowed = partial(self._libraries.allows, device=device)

        def run() -> None:
            from gpuforge.runtime.workers.trial import Trial

            made = Trial(self._beside(), library, record, key, numpy_seconds, allowed)
            self.current = made
            made.open()

        self.background.start(run, computes=False)

    def prepare(self, trial: Trial, graphs: dict[Graph, list[Any]]) -> None:
        """Have the graphs of a recorded call compiled, for inputs like these."""
        from gpuforge.runtime.workers.trial import PREPARING

        trial.state = PREPARING
        if not self.background.start(partial(trial.prepare, graphs), computes=False):
            self.end(trial)

    def of(self, record: KindRecord, key: str) -> Trial | None:
        """Return the trial under way if it is one of calls of this signature."""
        trial = self.current
        return trial if trial is not None and trial.is_of(record, key) else None

    def end(self, trial: Trial) -> None:
        """End a trial. A library that could not be tried is opened without a trial next time."""
        if self.current is trial:
            self.current = None
        if trial.failure:
            trial.library.untriable = True
        elif trial.devices:
            self.note_devices(trial.library, trial.devices)

    @property
    def are_over(self) -> bool:
        """Whether none is under way."""
        trial = self.current  # another thread may end it meanwhile
        return not self.background.is_busy and (trial is None or trial.is_over)

    def give_up(self) -> bool:
        """End a trial that failed, or whose signature is no longer called; return `are_over`."""
        trial, over = self.current, self.are_over
        if over and trial is not None:
            self.end(trial)
        return over

    def end_idle(self) -> None:
        """End the processes that were idle for long, but those that compile for this one."""
        if self._compilers is not None and self.are_over:
            self._compilers.end_idle(IDLE_SECONDS, list(self._compiled_for()))

    def _compiled_for(self) -> Iterable[str]:
        return (one.name for one in self._libraries.values() if one.opened and compiles(one.name))

    def _interrupt(self) -> None:
        """End the process that a trial waits for."""
        if self._compilers is not None:
            self._compilers.interrupt()

    def close(self) -> None:
        """End the processes, and with them what waits for their answers."""
        if self._compilers is not None:
            self._compilers.close()

    def fork(self) -> None:
        """Forget the trial in a forked child, where no other thread runs."""
        self.current, self._lock = None, threading.Lock()
