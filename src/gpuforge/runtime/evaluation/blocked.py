"""Run a graph with NumPy's functions, over blocks of large arrays, on several threads.

Many operations compute a row of their result from the same row of their inputs: those on elements,
and reductions along other axes. Consecutive ones make a *group*, which computes all of them for one
block of rows after the other. What a block needs stays in the processor's caches, and each core
takes its own blocks. The results are NumPy's to the last bit: every element is computed by the same
function from the same operands, and every sum adds the same elements in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gpuforge.dataclass import dataclass, field
from gpuforge.runtime.array.graph import INPUT, NUMBER, Entry, Graph, Node, Shape, Tape
from gpuforge.runtime.array.loops import TAKE_OUT
from gpuforge.runtime.evaluation.program import Program, is_inexact
from gpuforge.runtime.lowering.contract import Lowering
from gpuforge.runtime.threads.parallel import in_parallel

BLOCK_BYTES = 1 << 20
"""Size of a block of the largest array in a group.

Source: 12 functions of ``benchmarks/functions.py`` on two cores, in blocks of 0.06 to 2 MiB: 1 MiB
was the best or within a tenth of it for each. In smaller ones, threads often wait for the
interpreter's lock.
"""
LEAST_BYTES = 1 << 18
"""A group whose largest array is smaller is not divided."""
_REDUCTIONS = frozenset("sum prod max min any all".split())
_POSITIONS = frozenset(["argmax", "argmin"])


class Form(NamedTuple):
    """What a value of a graph looks like; numbers have no dtype."""

    shape: Shape
    dtype: Any


@dataclass
class Group:
    """Operations that are computed together, block by block.

    Attributes
    ----------
    steps : places of the operations, in order
    rows : length of the first axis
    taken : places of values from outside that are divided into blocks, with their forms
    whole : places of values from outside that each block needs as a whole, with their forms
    summed : those of `taken` along which rows are reduced
    made : places of values that are needed outside
    drops : for each step, the places of its block's values that are not needed after it
    row_bytes : bytes of a row of the largest array
    """

    rows: int
    steps: list[int] = field(default_factory=list)
    taken: dict[int, Form] = field(default_factory=dict)
    whole: dict[int, Form] = field(default_factory=dict)
    summed: set[int] = field(default_factory=set)
    made: list[int] = field(default_factory=list)
    drops: list[tuple[int, ...]] = field(default_factory=list)
    row_bytes: int = 0

    def blocks(self, threads: int) -> int:
        """Return the number of blocks: a multiple of the number of threads."""
        wanted = -(-self.rows * self.row_bytes // BLOCK_BYTES)
        return min(self.rows, max(1, -(-wanted // threads)) * threads)


class BlockedProgram(Program):
    """A program that divides large arrays into blocks.

    It needs the forms of all values: from the tape, or else from a first run, step by step. A run
    whose arrays look different is step by step, too.
    """

    def __init__(self, graph: Graph, lowering: Lowering, threads: int) -> None:
        super().__init__(graph, lowering)
        self.threads = threads
        self._usual = lowering.functions
        self._functions = {step[3]: step[0] for step in self.steps}
        self._forms: dict[int, Form] = {}
        self._order: list[int | Group] = []
        self._drops: list[tuple[int, ...]] = []

    def __call__(self, *given: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Return what `Program` does; a value that NumPy warns about counts as a guard."""
        with np.errstate(**self._raising()):  # type: ignore[arg-type]
            try:
                if not self._forms:
                    made = self._first(given)
                elif self._order:
                    made = self._in_groups(given)
                else:
                    made = self._by_steps(given)
            except FloatingPointError:
                return [], [True], []
        if self.modes or not self.checks_finite:
            return made, [], [True for value in made if is_inexact(value)]
        return made, [], [self.finite(value) for value in made if is_inexact(value)]

    def _raising(self) -> dict[str, str]:
        """Return NumPy's modes for a run in which every warning shall end it."""
        modes = self.modes or dict.fromkeys(np.geterr(), "ignore")
        return {kind: "ignore" if mode == "ignore" else "raise" for kind, mode in modes.items()}

    def see(self, tape: Tape) -> None:
        if tape.nodes and not self._forms:
            self._plan({i: _form(node) for i, node in enumerate(tape.nodes)})

    def _first(self, given: Sequence[Any]) -> list[Any]:
        """Run step by step to see the forms."""
        forms = dict(zip(self.inputs, map(_form, given), strict=True))
        made = self._by_steps(given, forms)
        self._plan(forms)
        return made

    def _plan(self, forms: dict[int, Form]) -> None:
        steps, usual = list(self._functions), self._usual
        entries = self.graph.entries
        overwriting = {p for p in steps if self._functions[p] is not usual[entries[p][0].name]}
        self._order, self._drops = _plan_groups(self.graph, steps, overwriting, forms)
        self._forms = forms

    def _by_steps(self, given: Sequence[Any], forms: dict[int, Form] | None = None) -> list[Any]:
        """Run step by step; add the form of each result to `forms`."""
        values = self._start(given)
        for function, places, params, place, _, _, drop in self.steps:
            values[place] = function(*[values[p] for p in places], *params)
            if forms is not None:
                forms[place] = _form(values[place])
            for old in drop:
                values[old] = None
        return [values[place] for place in self.graph.outputs]

    def _start(self, given: Sequence[Any]) -> list[Any]:
        values: list[Any] = [None] * len(self.graph.entries)
        for place, value in zip(self.inputs, given, strict=True):
            values[place] = value
        return values

    def _in_groups(self, given: Sequence[Any]) -> list[Any]:
        values = self._start(given)
        for part, drop in zip(self._order, self._drops, strict=True):
            if isinstance(part, Group):
                self._run(part, values)
            else:
                values[part] = self._step(part, values)
            for old in drop:
                values[old] = None
        return [values[place] for place in self.graph.outputs]

    def _step(self, place: int, values: Sequence[Any]) -> Any:
        _, places, params = self.graph.entries[place]
        return self._functions[place](*[values[p] for p in places], *params)

    def _run(self, group: Group, values: list[Any]) -> None:
        """Compute a group for one block of rows after the other."""
        blocks = group.blocks(self.threads)
        if blocks < 2 or not _fits(group, values):
            for place, drop in zip(group.steps, group.drops, strict=True):
                values[place] = self._step(place, values)
                for old in drop:
                    if old in group.steps and old not in group.made:
                        values[old] = None
            return
        made = {p: np.empty(self._forms[p].shape, self._forms[p].dtype) for p in group.made}
        modes = self._raising()

        def block(number: int) -> None:
            begin, end = (group.rows * n // blocks for n in (number, number + 1))
            local: dict[int, Any] = {place: values[place] for place in group.whole}
            for place in group.taken:
                local[place] = values[place][begin:end]
            with np.errstate(**modes):  # type: ignore[arg-type]
                for place, drop in zip(group.steps, group.drops, strict=True):
                    out = made[place][begin:end] if place in made else None
                    local[place] = self._compute(place, local, out)
                    for old in drop:
                        del local[old]

        in_parallel(block, blocks, self.threads)
        for place, value in made.items():
            values[place] = value

    def _compute(self, place: int, local: dict[int, Any], out: Any) -> Any:
        """Return the value of a step for one block, in `out` if it is needed outside."""
        _, places, params = self.graph.entries[place]
        function, taken = self._functions[place], [local[p] for p in places]
        if out is None:
            return function(*taken, *params)
        if isinstance(function, np.ufunc) or function in TAKE_OUT:
            return function(*taken, *params, out=out)
        out[...] = function(*taken, *params)
        return out


def _form(value: Any) -> Form:
    if isinstance(value, Node | np.ndarray | np.generic):
        return Form(value.shape, value.dtype)
    return Form((), None)


def _fits(group: Group, values: Sequence[Any]) -> bool:
    """Return whether the values from outside look as planned, and blocks keep NumPy's order."""
    for place, form in (*group.taken.items(), *group.whole.items()):
        value = values[place]
        if _form(value) != form or not (len(form.shape) < 2 or _is_by_rows(value)):
            return False
    return all(values[place].flags.c_contiguous for place in group.summed)


def _is_by_rows(array: Any) -> bool:
    """Return whether each row of an array comes after the one before, as results in C order do."""
    if array.flags.c_contiguous:
        return True
    pairs = zip(array.strides, array.shape, strict=True)
    strides = [stride for stride, length in pairs if length > 1]
    return strides == sorted(strides, reverse=True) and min(strides, default=1) > 0


def _plan_groups(
    graph: Graph, steps: Sequence[int], overwriting: Set[int], forms: dict[int, Form]
) -> tuple[list[int | Group], list[tuple[int, ...]]]:
    """Return steps and groups in order, and the values to drop after each; no steps if no group.

    A step belongs to the group of its level and its number of rows. The level of a value is the
    number of times that a value of a group was needed as a whole on the way to it. A step that is
    `overwriting` its first input runs after every earlier step, which may use that.
    """
    levels: dict[int, int] = {}
    groups: dict[tuple[int, int], Group] = {}
    member: dict[int, Group] = {}
    for place in steps:
        entry = graph.entries[place]
        rowwise = _rowwise(entry, forms, place)
        rows = forms[place].shape[0] if rowwise is not None else 0
        level = 0
        for one in entry[1]:
            joins = rowwise is not None and one in rowwise
            found = member.get(one)
            passes = found is None or (joins and found.rows == rows)
            level = max(level, levels.get(one, 0) + (not passes))
        if place in overwriting:
            level = max((n + (one in member) for one, n in levels.items()), default=0)
        levels[place] = level
        if rowwise is not None:
            group = member[place] = groups.setdefault((level, rows), Group(rows))
            _add(group, place, entry, rowwise, forms, member)
    for group in [group for group in groups.values() if not _is_worth_it(group)]:
        for place in group.steps:
            del member[place]
    if not member:
        return [], []
    order = sorted((levels[place], 0, place) for place in steps if place not in member)
    order += [
        (level, 1, group.steps[0])
        for (level, _), group in groups.items()
        if group.steps[0] in member
    ]
    order.sort()
    parts: list[int | Group] = [member[place] if kind else place for _, kind, place in order]
    return parts, _drops(graph, parts, member)


def _rowwise(entry: Entry, forms: dict[int, Form], place: int) -> set[int] | None:
    """Return the inputs of which a row of a step's result needs only the same row.

    None if the step needs more than that, or more than blocks of rows can give it in NumPy's order.
    """
    operation, places, params = entry
    form = forms[place]
    if not form.shape or form.shape[0] < 2 or operation.raises:
        return None
    if operation.kind == "elementwise":
        rank = len(form.shape)
        return {one for one in places if _has_rows(forms[one].shape, rank, form.shape[0])}
    if operation.name in _REDUCTIONS | _POSITIONS:
        given = forms[places[0]]
        axes = (params[0],) if operation.name in _POSITIONS else params[0]
        within = axes is not None and all(
            axis is not None and axis % len(given.shape) for axis in axes
        )
        return {places[0]} if within else None
    return None


def _has_rows(shape: Shape, rank: int, rows: int) -> bool:
    return len(shape) == rank and shape[0] == rows


def _add(
    group: Group, place: int, entry: Entry, rowwise: set[int], forms: dict[int, Form],
    member: dict[int, Group],
) -> None:  # fmt: skip
    """Add a step to a group."""
    group.steps.append(place)
    for one in entry[1]:
        if member.get(one) is group:
            continue
        if one in rowwise:
            group.taken[one] = forms[one]
        else:
            group.whole[one] = forms[one]
        if entry[0].kind == "reduction":
            group.summed.add(one)
    for one in (place, *rowwise):
        size = prod(forms[one].shape[1:]) * forms[one].dtype.itemsize
        group.row_bytes = max(group.row_bytes, size)


def _is_worth_it(group: Group) -> bool:
    return group.rows * group.row_bytes >= LEAST_BYTES


def _drops(
    graph: Graph, parts: Sequence[int | Group], member: dict[int, Group]
) -> list[tuple[int, ...]]:
    """Find the values of groups that are needed outside, and those to drop after each part."""
    last = dict.fromkeys(graph.outputs, len(parts))
    for number in range(len(parts) - 1, -1, -1):
        part = parts[number]
        for place in part.steps if isinstance(part, Group) else [part]:
            for one in graph.entries[place][1]:
                if member.get(one, part) is not part or one not in member:
                    last.setdefault(one, number)
    for place, group in member.items():
        if place in last:
            group.made.append(place)
    for part in parts:
        if isinstance(part, Group):
            part.drops = _drops_within(graph, part)
    given = {i for i, entry in enumerate(graph.entries) if entry[0] in (INPUT, NUMBER)}
    drops: list[list[int]] = [[] for _ in parts]
    for place, number in last.items():
        if number < len(parts) and place not in given:
            drops[number].append(place)
    return [tuple(found) for found in drops]


def _drops_within(graph: Graph, group: Group) -> list[tuple[int, ...]]:
    """Find the values of a block to drop after each step of a group."""
    last: dict[int, int] = {}
    for place in group.steps:
        last[place] = place
        last.update(dict.fromkeys(graph.entries[place][1], place))
    drops: dict[int, list[int]] = {place: [] for place in group.steps}
    for one, place in last.items():
        drops[place].append(one)
    return [tuple(drops[place]) for place in group.steps]
