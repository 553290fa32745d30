"""Running one call on one backend: put, run, wait, get; and the trial that admits a backend.

Timings are wall seconds of the whole placed call, taken after a wait.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from types import TracebackType
from typing import Any

import numpy as np

from gpuforge.errors import ArgumentWritten
from gpuforge.runtime.backends import Backend, NotExact, libraries
from gpuforge.runtime.reference import Disagreement, Template, compare, restore
from gpuforge.runtime.structure import LEAF, Spec, flatten, rebuild

Leaves = tuple[Any, ...]
_PARTS = {"gpuforge", "array_api_compat", "jaxlib", "dpctl", "cupyx", "pytools"}
"""Packages besides the array libraries whose ``raise`` is not the user's own."""


@dataclass
class Program:
    """A user's function, ready to be called with the leaves of one signature on one backend.

    Attributes
    ----------
    copies : whether arguments are copied in, because the function may write into them
    written : places of the leaves that the function may write into, copied back
    unwatched : whether it is still to be seen which operations it compiles for these shapes
    """

    backend: Backend
    function: Callable[..., Any]
    spec: Spec
    copies: bool
    written: tuple[int, ...] = ()
    _result_spec: list[Spec] = field(default_factory=list)
    _compiled: Callable[..., Any] | None = None
    positional: bool = False
    unwatched: bool = False

    def __post_init__(self) -> None:
        args, kwargs = self.spec[1]
        self.positional = not kwargs[1] and all(inner == LEAF for inner in args[1])
        if self.backend.compiles:
            self._compiled = self.backend.program(self._flat)
            self.unwatched = True

    def call(self, leaves: Sequence[Any]) -> Any:
        """Return what the function makes of `leaves`, still in the backend's arrays."""
        if self._compiled is None:
            return self._direct(leaves)
        made = self._compiled(*leaves)
        return rebuild(self._result_spec[0], iter(made))

    def _direct(self, leaves: Sequence[Any]) -> Any:
        if self.positional:
            return self.function(*leaves)
        args, kwargs = rebuild(self.spec, iter(leaves))
        return self.function(*args, **kwargs)

    def _flat(self, *leaves: Any) -> tuple[Any, ...]:
        made: list[Any] = []
        spec = flatten(self._direct(leaves), made)
        self._result_spec[:] = [spec]
        return tuple(made)

    def put(self, leaves: Leaves) -> list[Any]:
        """Return `leaves` with each array on the device."""
        put, share = self.backend.put, not self.copies
        return [put(leaf, share=share) if type(leaf) is np.ndarray else leaf for leaf in leaves]

    def run(self, leaves: Leaves, template: Template) -> Any:
        """Return NumPy's kind of result of one call on the backend.

        Raises
        ------
        Disagreement
            If the result has another structure or dtype than `template`.
        ArgumentWritten
            If the function wrote into an argument that it does not name.
        NotExact
            If it uses other operations than it did for the shapes that were compared.
        """
        backend = self.backend
        if self.unwatched and (refused := _watch(self, leaves)):
            raise NotExact(refused)
        inputs = self.put(leaves)
        with backend.scope():
            made = self.call(inputs)
            result = restore(template, made, leaves, backend.is_array, backend.get)
        self._check_written(inputs)
        for place in self.written:
            leaves[place][...] = backend.get(inputs[place])
        return result

    def measure(self, leaves: Leaves, template: Template) -> tuple[Any, float, float]:
        """Return the result of one call, its seconds, and those of its transfers."""
        backend = self.backend
        start = perf_counter()
        inputs = self.put(leaves)
        with backend.scope():
            backend.wait(inputs)
            there = perf_counter()
            made = self.call(inputs)
            backend.wait(_arrays(made, backend))
            done = perf_counter()
            result = restore(template, made, leaves, backend.is_array, backend.get)
        end = perf_counter()
        self._check_written(inputs)
        return result, end - start, (there - start) + (end - done)

    def _check_written(self, inputs: list[Any]) -> None:
        if self.copies:
            return
        for place, value in enumerate(inputs):
            if self.backend.is_array(value) and self.backend.written(value):
                raise ArgumentWritten(
                    f"{self.function!r} wrote into argument array {place}, which it does not name",
                    hint="declare it: @gpuforge.offload(mutates=('name of the argument',))",
                )


@dataclass(frozen=True)
class Trial:
    """The outcome of comparing a backend's result with NumPy's.

    Attributes
    ----------
    refused : why the backend is no candidate; empty when it agreed
    seconds : wall seconds of a second, warm call; 0 when there was none
    transfer_seconds : of that call, what moving arrays took
    first_seconds : what the first call took beyond the second
    lost_seconds : what the trial took in all
    """

    refused: str
    seconds: float = 0.0
    transfer_seconds: float = 0.0
    first_seconds: float = 0.0
    lost_seconds: float = 0.0


def try_backend(
    program: Program,
    leaves: Leaves,
    template: Template,
    expected: Any,
    *,
    floor: float,
    exact: bool,
) -> Trial:
    """Run `program` besides NumPy and return whether it agrees with `expected`.

    Parameters
    ----------
    leaves
        The arguments as they were before NumPy ran.
    floor
        The share of the largest value that errors are measured against at least.
    exact
        Whether operations that may differ from NumPy's bar the backend.
    """
    start = perf_counter()
    try:
        refused = _watch(program, leaves) if exact else ""
        if refused:
            return Trial(refused, lost_seconds=perf_counter() - start)
        result, first, moved = program.measure(leaves, template)
        refused = compare(expected, result, floor)
        if refused:
            return Trial(refused, lost_seconds=perf_counter() - start)
        if program.backend.compiles or not exact:
            _, seconds, transfer = program.measure(leaves, template)
        else:  # watching it has run it once already
            seconds, transfer = first, moved
    except Disagreement as difference:
        return Trial(str(difference), lost_seconds=perf_counter() - start)
    except Exception as error:  # noqa: BLE001 - whatever a library raises bars it, with the reason
        return Trial(describe_error(error), lost_seconds=perf_counter() - start)
    return Trial("", seconds, transfer, max(0.0, first - seconds), perf_counter() - start)


def _watch(program: Program, leaves: Leaves) -> str:
    """Return why an operation that the call uses bars the backend."""
    backend = program.backend
    copies = [backend.put(v, share=False) if type(v) is np.ndarray else v for v in leaves]
    with backend.scope():
        uses = backend.watch(lambda *values: program._flat(*values), tuple(copies))
    undeclared = [
        place
        for place, value in enumerate(copies)
        if place not in program.written and backend.is_array(value) and backend.written(value)
    ]
    program.unwatched = False
    if undeclared:
        return "the function writes into an argument that it does not name in mutates"
    return uses.not_exact


def _arrays(value: Any, backend: Backend) -> list[Any]:
    leaves: list[Any] = []
    if flatten(value, leaves) == LEAF:
        return leaves if backend.is_array(value) else []
    return [leaf for leaf in leaves if backend.is_array(leaf)]


def describe_error(error: BaseException) -> str:
    """Return an exception in one line of at most 160 characters."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:160]


def raised_by_user(error: BaseException, backend: Backend) -> bool:
    """Return whether a ``raise`` statement (or ``assert``) in the user's own code raised `error`.

    Libraries raise from their own Python frames or from native code called by an ordinary
    instruction; only a raise instruction in a frame outside every library is the user's own.
    """
    innermost: TracebackType | None = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if innermost is None:
        return False
    frame = innermost.tb_frame
    home = str(frame.f_globals.get("__name__", ""))
    package = home.split(".")[0]
    if package in _PARTS | libraries() or home == type(backend).__module__:
        return False
    code = frame.f_code.co_code
    opcode = code[innermost.tb_lasti] if innermost.tb_lasti < len(code) else -1
    return opcode in (dis.opmap["RAISE_VARARGS"], dis.opmap["RERAISE"])
