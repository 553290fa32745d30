"""Replay a call: run its known graph without running the user's Python.

If a function depends on its arguments alone (`dependence`), and a recorded call of it was one graph
evaluated at its end, the next call of the same signature runs that graph. A call with anything
unusual is recorded instead, which is safe because the body has not run yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuforge.dataclass import dataclass
from gpuforge.runtime.array.array import Array, node_of
from gpuforge.runtime.array.graph import INPUT, Lines, Node, Tape
from gpuforge.runtime.array.recorder import Host, Recorder
from gpuforge.runtime.array.storage import Step, follow
from gpuforge.runtime.function.dependence import Dependence

if TYPE_CHECKING:
    from gpuforge.runtime.evaluation.engine import BackendEngine
    from gpuforge.runtime.evaluation.program import Program

MAX_CONSTANT_BYTES = 1 << 16
"""Limit for an array that the body creates, which a replay has to keep."""


@dataclass(frozen=True)
class Leaf:
    """One array or scalar of a result.

    Attributes
    ----------
    output : index among the outputs of the program
    scalar : whether NumPy returns a scalar here
    chain : view steps from the output to it
    whole : whether the output must be in C order
    """

    output: int
    scalar: bool
    chain: tuple[Step, ...]
    whole: bool


class Form:
    """How a result is built from a graph's outputs: a leaf, or a tuple or list of leaves."""

    def __init__(self, leaves: tuple[Leaf, ...], kind: type | None) -> None:
        self.leaves, self.kind = leaves, kind

    def made(self, hosts: list[Host]) -> Any:
        """Return a new result."""
        made = [_leaf(leaf, hosts[leaf.output]) for leaf in self.leaves]
        return made[0] if self.kind is None else self.kind(made)


def _leaf(leaf: Leaf, host: Host) -> Any:
    if leaf.scalar:
        return host[()]
    if not host.flags.writeable or isinstance(host.base, np.ndarray):
        host = host.copy(order="K")
    if leaf.whole and not host.flags.c_contiguous:
        host = host.copy(order="C")
    return follow(host, leaf.chain) if leaf.chain else host


class Noted:
    """What a replay needs of a recorded call, collected before the call is evaluated.

    Attributes
    ----------
    inputs : input values of its graph
    form : how its result is built from the graph's outputs; None if it cannot be replayed
    lines : source lines of the graph's entries
    """

    def __init__(self, recorder: Recorder, result: Any) -> None:
        self._tape: Tape = recorder.tape
        self.inputs: list[Any] = []
        self.lines: Lines = {}
        self.form: Form | None = None
        kind = type(result)
        self.kind = kind if kind in (tuple, list) else None
        self._results = list(result) if self.kind else [result]
        self.sources = {id(array._storage.original.host): place
                        for place, array in enumerate(recorder.arguments)}  # fmt: skip
        self._plain = not (
            recorder.reads
            or recorder.exports
            or recorder.fallbacks
            or any(array._storage.version for array in recorder.arguments)
            or any(type(one) is not Array for one in self._results)
        )

    def close(self, program: Program | None) -> None:
        """Finish with the program that evaluated it, and release the recorded arrays."""
        if self._plain and program is not None and len(program.inputs) == len(self._tape.inputs):
            self.form = self._form(program.graph.outputs)
            self.inputs, self.lines = self._tape.inputs, self._tape.lines
        self._results.clear()
        del self._tape

    def _form(self, wanted: tuple[int, ...]) -> Form | None:
        leaves, seen = [], set()
        for array in self._results:
            node = self._node(array)
            if node is None or node.index not in wanted or node.index in seen:
                return None
            seen.add(node.index)
            leaves.append(leaf_of(array, wanted.index(node.index)))
        return Form(tuple(leaves), self.kind)

    @staticmethod
    def _node(array: Array) -> Node | None:
        """Return the node of a result's memory; None if that is an argument's memory."""
        storage = array._storage
        if storage is None:
            return node_of(array)
        return None if storage.source is not None else storage.node


def leaf_of(array: Array, output: int) -> Leaf:
    """Return how an array is built from an output."""
    whole = array._storage is not None or not array._recorder.turned
    return Leaf(output, array._scalar, array._chain, whole)


class Replay:
    """Replays calls of one signature of one function on one backend.

    Attributes
    ----------
    given : for each program input, (index of an argument, None) or (None, constant)
    """

    def __init__(
        self, engine: BackendEngine, program: Program, form: Form, dependence: Dependence,
        given: tuple[tuple[int | None, Any], ...], statics: tuple[tuple[int, Any], ...],
        modes: Mapping[str, Any], lines: Lines,
    ) -> None:  # fmt: skip
        self.lines = lines
        self.engine, self.program, self.form = engine, program, form
        self.dependence, self.given, self.statics, self.modes = dependence, given, statics, modes

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result, or None if this call must be recorded."""
        values = (*args, *kwargs.values()) if kwargs else args
        for place, known in self.statics:
            if values[place] != known:
                return None
        if np.geterr() != self.modes or not self.dependence.holds():
            return None
        inputs = [known if place is None else values[place] for place, known in self.given]
        hosts = self.engine.rerun(self.program, inputs, self.modes, self.lines)
        return None if hosts is None else self.form.made(hosts)


def replay_of(
    noted: Noted, engine: BackendEngine, dependence: Dependence, args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Replay | None:  # fmt: skip
    """Return the replay of a recorded call; None if it cannot be replayed.

    It cannot if what the function depends on was different during the call than when it was read:
    it may change back.
    """
    program = engine.latest
    outcome = engine.outcome
    if noted.form is None or program is None or outcome.programs != 1 or outcome.settled:
        return None
    if not dependence.holds():
        return None
    statics = _statics((*args, *kwargs.values()))
    if statics is None:
        return None
    arrays = [place for place, value in enumerate((*args, *kwargs.values()))
              if type(value) is np.ndarray]  # fmt: skip
    if len(noted.sources) < len(arrays):  # an array was passed twice; the next call may pass two
        return None
    given: list[tuple[int | None, Any]] = []
    for place, value in zip(program.inputs, noted.inputs, strict=True):
        source = noted.sources.get(id(value))
        if source is not None:
            given.append((arrays[source], None))
            continue
        is_array = program.graph.entries[place][0] is INPUT
        if is_array and (type(value) is not np.ndarray or value.nbytes > MAX_CONSTANT_BYTES):
            return None
        given.append((None, value.copy() if is_array else value))
    modes, lines = np.geterr(), noted.lines
    return Replay(engine, program, noted.form, dependence, tuple(given), statics, modes, lines)


def _statics(values: tuple[Any, ...]) -> tuple[tuple[int, Any], ...] | None:
    """Return the floats among the arguments by index; None if the call cannot be replayed.

    Integers, text and None are part of the key of the cached decision.
    """
    found = []
    for place, value in enumerate(values):
        kind = type(value)
        if kind is float:
            if not value or value != value:  # zeros have a sign, NaN equals nothing
                return None
            found.append((place, value))
        elif kind not in (np.ndarray, int, bool, str, type(None)):
            return None
    return tuple(found)
