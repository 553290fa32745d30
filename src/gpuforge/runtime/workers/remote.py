"""A backend whose library is open in a worker process, to which whole graphs are sent.

To the engine it is a normal backend whose arrays are NumPy's. NumPy settles failures, and deaths of
the process, as for any backend; the user's Python does not run again.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from gpuforge.errors import WorkerDied
from gpuforge.runtime.array.graph import Graph
from gpuforge.runtime.backends import Array, Backend, Failure, Opened
from gpuforge.runtime.evaluation.opening import test_backend
from gpuforge.runtime.evaluation.program import Program
from gpuforge.runtime.workers.compiler import Compiler
from gpuforge.runtime.workers.description import Description
from gpuforge.runtime.workers.home import Answer, Home

SUFFIX = ":worker"
"""Suffix of the names of backends in worker processes."""
_numbers = count()


class LibraryFailed(Exception):
    """An exception raised by a library in a worker process.

    Attributes
    ----------
    exhausted : whether memory ran out there
    """

    def __init__(self, kind: str, text: str, exhausted: bool) -> None:
        super().__init__(f"{kind}: {text}")
        self.exhausted = exhausted


class RemoteBackend(Backend):
    """One device of a library that is open in a worker process."""

    on_host = True

    def __init__(self, home: Home | Compiler, place: int, facts: Description) -> None:
        self.home, self.place = home, place
        self.name = f"{facts.name}:cpu{SUFFIX}" if ":" not in facts.name else facts.name + SUFFIX
        self.version = facts.version
        self.compiles, self.compile_seconds = facts.compiles, facts.compile_seconds
        self.lowering = facts.lowering()
        self._deterministic = facts.deterministic

    @property
    def deterministic(self) -> bool:
        return self._deterministic

    def put(self, array: Array) -> Array:
        return array

    def get(self, array: Array) -> Array:
        return array

    def wait(self, value: Any) -> None:
        """Do nothing: the work is done when the worker answers."""

    def exhausted(self, error: BaseException) -> bool:
        return isinstance(error, WorkerDied) or getattr(error, "exhausted", False)

    def release(self) -> None:
        if not self.home.away():
            self.home.ask(("release",), (), lambda answer: None)

    def lost(self, error: BaseException) -> bool:
        return False  # a lost device ends the worker, which is then replaced

    def away(self) -> str:
        return self.home.away()

    def plan(self, graph: Graph) -> RemoteProgram:
        return RemoteProgram(self, graph)


class RemoteProgram(Program):
    """Computes the outputs of one graph in a worker.

    Attributes
    ----------
    seconds, cpu_seconds : wall and processor time that the last run took there
    """

    def __init__(self, backend: RemoteBackend, graph: Graph) -> None:
        super().__init__(graph, None)
        self.seconds = self.cpu_seconds = 0.0
        self._home, self._place = backend.home, backend.place
        self._number = next(_numbers)

    def __call__(self, *given: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the outputs, the guards' results, and whether the outputs are finite.

        Raises
        ------
        LibraryFailed, WorkerDied
            If the library raises there, or the process dies.
        """
        arrays = [one for one in given if type(one) is np.ndarray]
        values = [None if type(one) is np.ndarray else one for one in given]
        kind, *rest = self._ask(values, arrays, known=self._number in self._home.sent)
        if kind == "unknown":
            kind, *rest = self._ask(values, arrays, known=False)
        if kind == "failed":
            raise LibraryFailed(*rest)
        if kind == "settle":
            return [], [True], []
        finite, self.seconds, self.cpu_seconds, hosts = rest
        return hosts, [], finite

    def _ask(self, values: list[Any], arrays: list[Array], *, known: bool) -> Any:
        graph = None if known else self.graph
        request = ("run", self._place, self._number, graph, values, self.checks_finite)
        found = self._home.ask(request, arrays, _copied)
        self._home.sent.add(self._number)
        return found


def _copied(answer: Answer) -> Any:
    """Return an answer with copied arrays: the next answer overwrites the shared memory."""
    content, arrays = answer
    if content[0] != "values":
        return content
    return (*content, [np.array(array, order="K") for array in arrays])


def open_remote(home: Home, *, wait: bool = False) -> Opened | None:
    """Return the devices of a library in a worker, tested through the channel.

    None while it is being opened, unless `wait` is set.
    """
    opened = home.opened(RemoteBackend, wait=wait)
    if opened is None:
        return None
    reasons = {backend: test_backend(backend) for backend in opened.devices}
    failures = [Failure(backend.name, reason) for backend, reason in reasons.items() if reason]
    good = tuple(backend for backend, reason in reasons.items() if not reason)
    return Opened(good, (*opened.failures, *failures), opened.seconds)
