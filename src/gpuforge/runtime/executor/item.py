"""One recorded item of a map: its graph, the sources of its inputs, the form of its result.

The body runs once and NumPy evaluates its graph, so the item's result is NumPy's. An operation that
may raise because of values is evaluated at its statement; the tapes before and after it are joined
again through the values that they share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuforge.runtime.array.graph import INPUT, NUMBER, Dtype, Entry, Graph, Shape, Tape
from gpuforge.runtime.array.operations.factorisation import PICK
from gpuforge.runtime.array.recorder import Evaluation
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.backends import Backend
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs
from gpuforge.runtime.evaluation.recording import record
from gpuforge.runtime.evaluation.replay import Leaf, Noted, leaf_of

_QUIET = ("view", "creation", "gather")
"""Classes of operations for which NumPy never warns."""


@dataclass(frozen=True)
class Item:
    """The graph of one item.

    Attributes
    ----------
    graph : graph of the item; its outputs are those that the leaves need
    shapes, dtypes : shape and dtype of each entry; a number has no dtype
    sources : place of an input to the index of its array argument
    constants : place of any other input to its value
    leaves, kind : form of the result: an array, or arrays in a tuple or list
    """

    graph: Graph
    shapes: tuple[Shape, ...]
    dtypes: tuple[Dtype | None, ...]
    sources: dict[int, int]
    constants: dict[int, Any]
    leaves: tuple[Leaf, ...]
    kind: type | None


class _Engine(BackendEngine):
    """NumPy engine that keeps every tape it evaluates."""

    def __init__(self, reference: Backend, programs: Programs) -> None:
        super().__init__(reference, reference, programs)
        self.tapes: list[tuple[Tape, list[int], list[Any]]] = []

    def run(self, tape: Tape, wanted: list[int], modes: dict[str, str]) -> list[Any]:
        several = {places[0] for row, places, _ in tape.entries if row is PICK}
        every = [
            place for place, (row, _, _) in enumerate(tape.entries)
            if row not in (INPUT, NUMBER) and place not in several
        ]  # fmt: skip
        # Also entries that no output needs: NumPy may warn about them.
        values = self._by_numpy(Graph(tuple(tape.entries), tuple(every)), tape, modes)
        self.tapes.append((tape, every, values))
        found = dict(zip(every, values, strict=True))
        return [found[place] for place in wanted]


class _Noted(Noted):
    """What a replay of a recorded item needs, with the values of its results."""

    def close(self, evaluations: list[Evaluation] | None) -> None:
        usable = self.is_plain and not self.written
        found = [(self._node(array), array) for array in self._results] if usable else []
        self.leaves = [(node.value, leaf_of(array, 0)) for node, array in found if node is not None]
        if len(self.leaves) < len(self._results):
            self.leaves.clear()
        super().close(None)


def record_item(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
    reference: Backend, programs: Programs, *, creates: bool,
) -> tuple[Any, Item | str]:  # fmt: skip
    """Run a function once on recorded arrays.

    Returns
    -------
    tuple
        Its result, and the item or the reason why there is none.

    Raises
    ------
    StartAgain
        If the function needs real NumPy arrays and must be called as written.
    Exception
        Whatever the function raises.
    """
    engine = _Engine(reference, programs)
    made = record(function, args, kwargs, engine, creates=creates, noting=_Noted)
    noted = made.noted
    assert isinstance(noted, _Noted)
    arrays = [value for value in (*args, *kwargs.values()) if type(value) is np.ndarray]
    if len(noted.sources) < len(arrays):
        return made.result, "one array is passed twice, which may not hold for other items"
    if made.kept or not noted.leaves:
        return made.result, "its result is not made of new arrays only, or it reads values"
    try:
        return made.result, _joined(engine, noted)
    except Unsupported as why:
        return made.result, str(why)


def _joined(engine: _Engine, noted: _Noted) -> Item:
    """Return the item whose graph is the concatenation of all tapes."""
    entries: list[Entry] = []
    nodes: list[tuple[Shape, Dtype | None]] = []
    inputs: dict[int, Any] = {}
    known: dict[int, int] = {}
    for tape, wanted, values in engine.tapes:
        given = iter(tape.inputs)
        here: list[int] = []
        for (operation, places, params), node in zip(tape.entries, tape.nodes, strict=True):
            value = next(given) if operation in (INPUT, NUMBER) else None
            if operation is INPUT and id(value) in known:
                here.append(known[id(value)])
                continue
            here.append(len(entries))
            if operation in (INPUT, NUMBER):
                inputs[len(entries)] = value
            if operation is INPUT:
                known[id(value)] = len(entries)
            entries.append((operation, tuple(here[p] for p in places), params))
            nodes.append((node.shape, node.dtype) if node else ((), None))
        known.update((id(v), here[place]) for place, v in zip(wanted, values, strict=True))
    if any(id(value) not in known for value, _ in noted.leaves):
        raise Unsupported("its result is not made of the arrays it computes")
    return _item(entries, nodes, inputs, known, noted)


def _needed(entries: list[Entry], outputs: list[int]) -> set[int]:
    """Return the places that outputs depend on, including their own."""
    needed = set(outputs)
    for place in range(len(entries) - 1, -1, -1):
        if place in needed:
            needed.update(entries[place][1])
    return needed


def _item(
    entries: list[Entry], nodes: list[tuple[Shape, Dtype | None]], inputs: dict[int, Any],
    known: dict[int, int], noted: _Noted,
) -> Item:  # fmt: skip
    outputs = [known[id(value)] for value, _ in noted.leaves]
    wanted = tuple(dict.fromkeys(outputs))
    if len(wanted) < len(outputs) or any(place in inputs for place in outputs):
        raise Unsupported("results that share their memory")
    needed = _needed(entries, outputs)
    if any(row.kind not in _QUIET and p not in needed for p, (row, _, _) in enumerate(entries)):
        raise Unsupported("it computes something its result does not need; NumPy may warn")
    sources = {
        place: noted.sources[id(value)] for place, value in inputs.items()
        if id(value) in noted.sources
    }  # fmt: skip
    constants = {
        place: value.copy() if type(value) is np.ndarray else value
        for place, value in inputs.items() if place not in sources
    }  # fmt: skip
    leaves = tuple(
        Leaf(wanted.index(place), leaf.scalar, leaf.chain, leaf.order)
        for place, (_, leaf) in zip(outputs, noted.leaves, strict=True)
    )
    return Item(
        Graph(tuple(entries), wanted), tuple(shape for shape, _ in nodes),
        tuple(dtype for _, dtype in nodes), sources, constants, leaves, noted.kind,
    )  # fmt: skip
