"""Compile a graph in the background while the program continues on NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from time import thread_time
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuforge.log import logger
from gpuforge.runtime.array.graph import INPUT
from gpuforge.runtime.backends import Backend
from gpuforge.runtime.evaluation.background import Background
from gpuforge.runtime.evaluation.program import Program

if TYPE_CHECKING:
    from gpuforge.runtime.evaluation.engine import Programs

_log = logger("compilation")
MAX_INPUT_BYTES = 1 << 28
"""Larger programs are compiled in the foreground: a background job allocates such inputs again."""


class Compilation:
    """One compilation, running or finished.

    Attributes
    ----------
    done : whether it has finished
    seconds : CPU time of the compiling thread, once `done`
    failure : why compilation failed; empty if it succeeded
    """

    def __init__(
        self, background: Background, programs: Programs, backend: Backend, program: Program,
        inputs: list[Any],
    ) -> None:  # fmt: skip
        self.background, self.programs = background, programs
        self.backend, self.program = backend, program
        self.done = False
        self.seconds = 0.0
        self.failure = ""
        entries = [program.graph.entries[place] for place in program.inputs]
        self._like = [
            params if operation is INPUT else value
            for (operation, _, params), value in zip(entries, inputs, strict=True)
        ]

    def run(self) -> None:
        """Compile by making a first call over zeros."""
        start = thread_time()
        try:
            self._compile()
        except Exception as error:  # noqa: BLE001 - reported by `failure`
            self.failure = f"{type(error).__name__}: {error}"
            _log.info("%s: %s", self.backend.name, self.failure)
        self.seconds = thread_time() - start
        self.done = True

    def _compile(self) -> None:
        programs, program = self.programs, self.program
        data = None
        if programs.elsewhere is not None:
            data = programs.elsewhere.ask(self.backend, program.graph, self._like)
        if data is None or not self._restored(data):
            with self.background.leave_a_core():
                program.compiled = compile_like(programs, self.backend, program, self._like)

    def _restored(self, data: bytes) -> bool:
        """Load what another process compiled; return whether that succeeded."""
        try:
            self.program.compiled = self.backend.restored(data)
        except Exception as error:  # noqa: BLE001 - then it is compiled here
            _log.info(
                "%s: another process's program cannot be loaded: %r", self.backend.name, error
            )
            return False
        self.program.is_untried = True
        self.programs.store.write(self.backend, self.program.graph, data)
        return True


def compile_like(
    programs: Programs, backend: Backend, program: Program, like: Sequence[Any]
) -> Any:
    """Return a program compiled for inputs `like` these, after a first run over zeros.

    `like` holds (dtype, shape) for each array, and the numbers themselves.
    """
    inputs = [np.zeros(one[1], one[0]) if type(one) is tuple else one for one in like]
    with backend.scope():
        given = [backend.put(one) if type(one) is np.ndarray else one for one in inputs]
        made = programs.compile(backend, program, given)
        values, _, _ = made(*given)
        backend.wait(values)
    return made


def compile_in_background(
    runner: Background, programs: Programs, backend: Backend, program: Program, inputs: list[Any]
) -> Compilation | None:
    """Start to compile a program; return None if another job is running or it is too large."""
    if sum(getattr(value, "nbytes", 0) for value in inputs) > MAX_INPUT_BYTES:
        return None
    made = Compilation(runner, programs, backend, program, inputs)
    return made if runner.start(made.run, computes=False) else None
