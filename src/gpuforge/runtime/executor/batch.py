"""Batches of one kind of item: the item's graph with a leading axis, placed like any other call.

Each batch size is a signature of a function of its own, so backends are chosen, tried, compared and
refused by the same rules as for calls. If NumPy would warn about an item, or raise, the batch
raises, and the items are called one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from gpuforge.runtime.array.batching import batched, bytes_of
from gpuforge.runtime.array.graph import Graph, Tape
from gpuforge.runtime.array.storage import follow, in_order
from gpuforge.runtime.evaluation.program import Program, shared_outputs
from gpuforge.runtime.evaluation.replay import Leaf
from gpuforge.runtime.execution import pipeline
from gpuforge.runtime.execution.call import Call, open_call
from gpuforge.runtime.execution.decision import decide
from gpuforge.runtime.executor.chunk import Column
from gpuforge.runtime.executor.item import Item
from gpuforge.runtime.function.signature import Signature
from gpuforge.runtime.placement.policy import NUMPY
from gpuforge.runtime.record import FunctionRecord
from gpuforge.runtime.session import Session

ROWS_BYTES = 1 << 20
"""Results are views of one block of memory up to this size, which bounds the memory that one kept
result holds. Rows of larger blocks are copied."""
KEPT_SIZES = 64
SCRATCH_BYTES = 1 << 22
"""Scratch memory kept for the next batch: page faults in fresh memory cost more than filling it."""
Host = np.ndarray[Any, Any]


@dataclass
class Size:
    """The batched graph for one batch size, ready for NumPy.

    Attributes
    ----------
    inputs : for each input, the place of an input of the item or a constant
    shared : for each output, whether it may share memory with another one
    left : batches to run on NumPy before the next decision
    held : batches run since the last decision
    scratch : memory for stacking items, reused by the next batch
    """

    graph: Graph
    inputs: list[Any]
    program: Program
    shared: list[bool]
    signature: Signature
    left: int = 0
    held: int = 0
    scratch: list[list[Host | None]] = field(default_factory=list)


@dataclass(frozen=True)
class Made:
    """The results of one batch.

    Attributes
    ----------
    where : the backend that computed them
    seconds : wall time of stacking the items, computing and splitting the results
    exhausted : whether memory ran out there and NumPy took over
    """

    results: list[Any]
    where: str
    seconds: float
    exhausted: bool = False


class Batch:
    """One kind of item of one function.

    Attributes
    ----------
    bytes_each : upper bound for the memory of an item: the sum over all its steps
    live_bytes : approximate peak memory of an item
    """

    def __init__(self, session: Session, runs: FunctionRecord, item: Item, key: Any) -> None:
        self.session, self.runs, self.item, self._key = session, runs, item, key
        self._sizes: dict[Any, Size] = {}
        self._lowering = session.reference.lowering
        entries = bytes_of(item.shapes, item.dtypes)
        self.bytes_each = max(1, sum(entries))
        ends = [entries[place] for place in (*item.sources, *item.graph.outputs)]
        self.live_bytes = max(1, sum(ends) + max(entries))

    def run(self, columns: Sequence[Column], size: int, modes: dict[str, Any]) -> Made:
        """Return the results of `size` items.

        Raises
        ------
        Unsupported
            If an operation cannot be batched.
        Exception
            What NumPy raises for one of the items, or FloatingPointError if it would warn.
        """
        alike = tuple(_is_one(column) for column in columns)
        made = self._sizes.get((size, alike))
        if made is None:
            if len(self._sizes) >= KEPT_SIZES:
                self._sizes.clear()
            made = self._sizes[size, alike] = self._made(size, alike, columns)
        start = perf_counter()
        try:
            before_it = made.scratch.pop()
        except IndexError:  # none yet, or in use by another thread
            before_it = [None] * len(columns)
        given = [
            column[0] if one else _stacked(column, block)
            for one, column, block in zip(alike, columns, before_it, strict=True)
        ]
        sources, constants = self.item.sources, self.item.constants
        inputs = [
            place if type(place) is not int
            else given[sources[place]] if place in sources
            else constants[place]
            for place in made.inputs
        ]  # fmt: skip
        before = perf_counter()
        if made.left > 0:
            made.left -= 1
            made.held += 1
            blocks, where, exhausted = self._on_numpy(made, inputs, modes), NUMPY, False
            took = perf_counter() - before
        else:
            blocks, where, took, exhausted = self._considered(made, inputs, modes)
        computed = perf_counter()
        if where == NUMPY and made.signature.nbytes <= SCRATCH_BYTES and not made.scratch:
            made.scratch.append(
                [
                    block if type(column) is list and not one else None
                    for one, column, block in zip(alike, columns, given, strict=True)
                ]
            )
        results = self._results(blocks)
        seconds = before - start + took + perf_counter() - computed
        return Made(results, where, seconds, exhausted)

    def _made(self, size: int, alike: tuple[bool, ...], columns: Sequence[Column]) -> Size:
        item = self.item
        stacked = {place for place, source in item.sources.items() if not alike[source]}
        graph, inputs = batched(item.graph, item.shapes, item.dtypes, stacked, size)
        program = Program(graph, self._lowering)
        program.checks_finite = False
        elements = sum(c[0].size * (1 if one else size) for one, c in zip(alike, columns,
                                                                         strict=True))  # fmt: skip
        nbytes = sum(c[0].nbytes * (1 if one else size) for one, c in zip(alike, columns,
                                                                         strict=True))  # fmt: skip
        kind = ("map", self._key, alike)
        text = f"{size} items of {self._key}"
        signature = Signature(kind, (*kind, size), elements, nbytes, text)
        return Size(graph, inputs, program, shared_outputs(graph, self._lowering), signature)

    def _on_numpy(self, made: Size, inputs: list[Any], modes: dict[str, Any]) -> list[Host]:
        with np.errstate(**modes):
            values, _, _ = made.program(*inputs)
        return [
            np.array(value) if shared else np.asarray(value)
            for value, shared in zip(values, made.shared, strict=True)
        ]

    def _considered(
        self, made: Size, inputs: list[Any], modes: dict[str, Any]
    ) -> tuple[list[Host], str, float, bool]:
        """Run a batch where placement decides, and learn from it."""
        session = self.session
        call = open_call(session, self.runs, made.signature, (), {}, made.held)
        made.held = 0
        with session.running:
            decision = decide(call)
            name = decision.trial or decision.backend
            backend = session.backend(name) if name != NUMPY else None
            if backend is not None:
                engine = pipeline.engine_for(call, backend, comparing=bool(decision.trial))
                return self._there(call, decision, engine, made, inputs, modes)
            first = not call.record.kind.curve(NUMPY).cells
            start = perf_counter()
            blocks = self._on_numpy(made, inputs, modes)
            seconds = perf_counter() - start
            pipeline.learn(call, NUMPY, seconds, first=first)
            made.left = pipeline.calls_to_hold(call, decision, seconds)
        return blocks, NUMPY, seconds, False

    def _there(
        self, call: Call, decision: Any, engine: Any, made: Size, inputs: list[Any],
        modes: dict[str, Any],
    ) -> tuple[list[Host], str, float, bool]:  # fmt: skip
        tape = Tape()
        tape.entries, tape.inputs = list(made.graph.entries), inputs
        name = engine.backend.name
        start = perf_counter()
        values = engine.run(tape, list(made.graph.outputs), modes)
        blocks = [engine.get(value) for value in values]
        outcome = engine.outcome
        seconds = perf_counter() - start
        pipeline.learn_recorded(call, decision, name, seconds, outcome, True)
        pipeline.release_memory(self.session, engine.backend)
        refused = call.record.kind.curve(name).refused
        where = NUMPY if decision.trial or refused or outcome.settled else name
        return blocks, where, seconds, outcome.exhausted

    def _results(self, blocks: list[Host]) -> list[Any]:
        leaves = [_rows(blocks[leaf.output], leaf) for leaf in self.item.leaves]
        kind = self.item.kind
        if kind is None:
            return leaves[0]
        both = zip(*leaves, strict=True)
        return list(both) if kind is tuple else list(map(list, both))


def _is_one(column: Column) -> bool:
    """Return whether all items have the same array object in a column."""
    if type(column) is np.ndarray or len(column) < 2:
        return False
    first = column[0]
    return column[1] is first and all(one is first for one in column)


def _stacked(column: Column, block: Host | None) -> Host:
    """Stack items into one block of memory, reusing `block` if given."""
    if type(column) is np.ndarray:
        return column
    shape = column[0].shape
    if not shape:
        return np.array(column)
    flat = None if block is None else block.reshape(-1, *shape[1:])
    return np.concatenate(column, out=flat).reshape(len(column), *shape)


def _rows(block: Host, leaf: Leaf) -> list[Any]:
    """Return each item's result: a NumPy scalar, or an array that overlaps no other."""
    if leaf.scalar:
        return list(block)
    if block.ndim == 1:
        return [np.array(value) for value in block]
    owned = block.nbytes <= ROWS_BYTES and block.flags.writeable
    if (first := block[0]) is not in_order(first, leaf.order):
        rows = [in_order(row, leaf.order) for row in block]
    else:
        rows = list(block) if owned else [row.copy(order="K") for row in block]
    return [follow(row, leaf.chain) for row in rows] if leaf.chain else rows
