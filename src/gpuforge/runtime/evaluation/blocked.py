"""Run a graph with NumPy's functions, over blocks of large arrays, on several threads.

Many operations compute a row of their result from the same row of their inputs: those on elements,
reductions along other axes, sorts of rows, products of many small matrices (`rows`). Consecutive
ones make a *group* (`groups`), which computes all of them for one block of rows after the other.
What a block needs stays in the processor's caches, and each core takes its own blocks. The results
have NumPy's bits: every element is computed by the same function from the same operands, and every
sum adds the same elements in the same order. Only what NumPy leaves open may differ: the order of
equal elements, and which of 0.0 and -0.0 is the larger one; and complex products, whose operands
NumPy swaps if the right one is a temporary array of 256 KiB or more (its ``temp_elide.c``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from gpuforge.dataclass import dataclass, field
from gpuforge.runtime.array.bins import PIECE
from gpuforge.runtime.array.graph import Entry, Graph, Node, Shape, Tape
from gpuforge.runtime.array.loops import TAKE_OUT
from gpuforge.runtime.evaluation.columns import ByColumns, by_columns
from gpuforge.runtime.evaluation.counting import count_true, with_counts
from gpuforge.runtime.evaluation.destinations import find_destinations, part_to_fill
from gpuforge.runtime.evaluation.groups import Group, plan_groups
from gpuforge.runtime.evaluation.program import Program, is_inexact
from gpuforge.runtime.evaluation.rows import (
    COMBINING,
    WITH_OUT,
    Form,
    Total,
    bounds,
    params_of_block,
    sum_of_parts,
)
from gpuforge.runtime.lowering.contract import Lowering
from gpuforge.runtime.threads.parallel import in_parallel


class BlockedProgram(Program):
    """A program that divides large arrays into blocks.

    It needs the forms of all values: from the tape, or else from a first run, step by step. A run
    whose arrays look different is step by step, too.
    """

    def __init__(self, graph: Graph, lowering: Lowering, threads: int) -> None:
        super().__init__(graph, lowering)
        self.threads = threads
        self._usual = lowering.functions
        self._planned: _Planned | None = None

    def __call__(self, *given: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Return what `Program` does; a value that NumPy warns about counts as a guard."""
        with np.errstate(**self._raising()):  # type: ignore[arg-type]
            try:
                if self._planned is None:
                    made = self._first(given)
                elif self._planned.parts:
                    made = self._in_groups(given, self._planned)
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
        if tape.nodes and self._planned is None:
            self._planned = self._plan({i: _form(node) for i, node in enumerate(tape.nodes)})

    def _first(self, given: Sequence[Any]) -> list[Any]:
        """Run step by step to see the forms."""
        forms = dict(zip(self.inputs, map(_form, given), strict=True))
        made = self._by_steps(given, forms)
        self._planned = self._plan(forms)
        return made

    def _plan(self, forms: dict[int, Form]) -> _Planned:
        functions = {step[3]: step[0] for step in self.steps}
        entries, counted = with_counts(self.graph, functions, forms)
        overwriting = {
            place
            for place, function in functions.items()
            if function is not self._usual[self.graph.entries[place][0].name]
        }
        for place in functions.keys() - overwriting - counted.keys():
            found = by_columns(entries[place], functions[place], forms, place)
            functions[place] = found or functions[place]
        self.steps = tuple((functions[step[3]], *step[1:]) for step in self.steps)
        for place, conversion in counted.items():
            functions[place] = count_true
            del functions[conversion]
        graph = Graph(entries, self.graph.outputs)
        parts, drops = plan_groups(graph, list(functions), overwriting, forms)
        find_destinations(graph, parts, overwriting, self.roots, forms)
        return _Planned(entries, functions, forms, parts, drops)

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

    def _in_groups(self, given: Sequence[Any], planned: _Planned) -> list[Any]:
        values = self._start(given)
        for part, drop in zip(planned.parts, planned.drops, strict=True):
            if isinstance(part, Group):
                self._run(part, planned, values)
            elif values[part] is None:  # a group may have done a write already
                values[part] = planned.step(part, values)
            for old in drop:
                values[old] = None
        return [values[place] for place in self.graph.outputs]

    def _run(self, group: Group, planned: _Planned, values: list[Any]) -> None:
        """Compute a group for one block of rows after the other."""
        fits = _fits(group, values)
        run = _Run(group, planned, values, self.threads, self._raising()) if fits else None
        if run is None or run.count < 2:
            _run_whole(group, planned, values)
            return
        in_parallel(run.block, run.count, self.threads)
        for place, value in run.results():
            values[place] = value
        for place in run.parts_to_fill:
            write = group.writes[place]
            values[write] = values[planned.entries[write][1][0]]


@dataclass
class _Planned:
    """What a program runs in groups.

    Attributes
    ----------
    entries : those of the graph, with counts of masks
    functions : by places of the steps
    forms : by places of all values
    parts, drops : steps and groups in order, and the values to drop after each
    divisions : what `_Run.ends` and `depth` are, by the first step of a group and `flat`
    """

    entries: tuple[Entry, ...]
    functions: dict[int, Callable[..., Any]]
    forms: dict[int, Form]
    parts: list[int | Group]
    drops: list[tuple[int, ...]]
    divisions: dict[tuple[int, bool], tuple[list[int], int]] = field(default_factory=dict)

    def step(self, place: int, values: Sequence[Any]) -> Any:
        """Return the value of a step on whole arrays."""
        _, places, params = self.entries[place]
        return self.functions[place](*[values[p] for p in places], *params)


def _run_whole(group: Group, planned: _Planned, values: list[Any]) -> None:
    for place, drop in zip(group.steps, group.drops, strict=True):
        values[place] = planned.step(place, values)
        for old in drop:
            if old in group.steps and old not in group.made:
                values[old] = None


class _Run:
    """One run of a group: its blocks, and what becomes of their results.

    Attributes
    ----------
    parts_to_fill : parts of other arrays where values are needed, by the places of these
    flat : whether blocks are of elements instead of rows
    ends : where blocks end, after a 0
    depth : how often NumPy halves the numbers that it sums to get these blocks
    count : number of blocks; fewer than two if the group has to run on whole arrays
    """

    def __init__(
        self, group: Group, planned: _Planned, values: list[Any], threads: int,
        modes: dict[str, str],
    ) -> None:  # fmt: skip
        self.group, self.planned, self.threads, self.modes = group, planned, threads, modes
        self.entries, self.forms = planned.entries, planned.forms
        flags = [values[place].flags for place in group.taken]
        self.flat = group.elements > 0 and all(one.c_contiguous and one.aligned for one in flags)
        self.parts_to_fill = self._find_parts_to_fill(values)
        self.ends, self.depth = self._division()
        self.count = len(self.ends) - 1
        if self.count < 2:
            return
        self.whole = {place: self._single(values[place]) for place in group.whole}
        self.taken = {place: self._lines(values[place]) for place in group.taken}
        self.made = {place: self._destination(place) for place in group.made}
        self.rows_made = {place: self._lines(array) for place, array in self.made.items()}
        self.parts: dict[int, list[Any]] = {place: [None] * self.count for place in group.totals}
        self.lock = threading.Lock()

    def _find_parts_to_fill(self, values: Sequence[Any]) -> dict[int, Any]:
        """Return the parts of other arrays that the group fills, by the places of its values."""
        found: dict[int, Any] = {}
        for place, write in self.group.writes.items():
            entry = self.entries[write]
            view = part_to_fill(values[entry[1][0]], entry, self.forms[place])
            if view is not None:
                found[place] = view
        if self.flat and not all(one.flags.c_contiguous for one in found.values()):
            if self.group.sums_in_halves or self.group.rows < self.threads:
                return {}
            self.flat = False
        return found

    def _destination(self, place: int) -> Any:
        view = self.parts_to_fill.get(place)
        return np.empty(*self.forms[place]) if view is None else view

    def _division(self) -> tuple[list[int], int]:
        """Return `ends` and `depth`, which are the same in each run."""
        known, key = self.planned.divisions, (self.group.steps[0], self.flat)
        if key not in known:
            known[key] = self._divide()
        return known[key]

    def _divide(self) -> tuple[list[int], int]:
        group = self.group
        length = group.elements if self.flat else group.rows
        if group.is_in_order:
            return [*range(0, length, PIECE), length], 0
        blocks = group.blocks(self.threads, length)
        if group.sums_in_halves:
            if not self.flat or blocks < 2:
                return [], 0
            depth = (blocks - 1).bit_length()
            summed = (p for p, total in group.totals.items() if total is Total.IN_HALVES)
            return [0, *bounds(0, length, depth, self.forms[next(summed)].dtype)], depth
        return [length * number // max(blocks, 1) for number in range(blocks + 1)], 0

    def _lines(self, array: Any) -> Any:
        return array.reshape(-1) if self.flat else array

    def _single(self, value: Any) -> Any:
        """Return what each block needs as a whole; in blocks of elements, it is one element."""
        return value.reshape(()) if self.flat and isinstance(value, np.ndarray) else value

    def block(self, number: int) -> None:
        """Compute all steps for one block."""
        begin, end = self.ends[number : number + 2]
        local = dict(self.whole)
        for place, array in self.taken.items():
            local[place] = array[begin:end]
        with np.errstate(**self.modes):  # type: ignore[arg-type]
            for place, drop in zip(self.group.steps, self.group.drops, strict=True):
                if place in self.parts:
                    self._sum_up(place, local, number)
                else:
                    out = self.rows_made[place][begin:end] if place in self.made else None
                    local[place] = self._compute(place, local, out, end - begin)
                for old in drop:
                    del local[old]

    def _compute(self, place: int, local: dict[int, Any], out: Any, length: int) -> Any:
        """Return the value of a step for one block, in `out` if it is needed outside.

        Or in the memory of an operand; not if that is one element, which NumPy adds to or
        multiplies by other loops.
        """
        entry, function = self.entries[place], self.planned.functions[place]
        taken, params = [local[p] for p in entry[1]], params_of_block(entry, length)
        if place in self.group.reused and local[self.group.reused[place]].size > 1:
            out = local[self.group.reused[place]]
        if out is None:
            return function(*taken, *params)
        if out.size == 1 and place in self.group.writes:
            out[...] = function(*taken, *params)
            return out
        takes_out = isinstance(function, np.ufunc | ByColumns) or function in TAKE_OUT
        if takes_out or entry[0].name in WITH_OUT:
            return function(*taken, *params, out=out)
        out[...] = function(*taken, *params)
        return out

    def _sum_up(self, place: int, local: dict[int, Any], number: int) -> None:
        """Reduce the rows of one block, and keep the result."""
        operation, places, params = self.entries[place]
        parts, function = self.parts[place], self.planned.functions[place]
        part = function(*[local[p] for p in places], *((None, False) if self.flat else params))
        if self.group.totals[place] is not Total.IN_ANY_ORDER:
            parts[number] = part
            return
        with self.lock:
            parts[0] = part if parts[0] is None else COMBINING[operation.name](parts[0], part)

    def results(self) -> list[tuple[int, Any]]:
        """Return what the group made, by places."""
        found: list[tuple[int, Any]] = list(self.made.items())
        for place, parts in self.parts.items():
            form, total = self.forms[place], parts[0]
            if self.group.totals[place] is Total.IN_HALVES:
                total = sum_of_parts(parts, self.group.elements, self.depth, form.dtype)
            if self.group.totals[place] is Total.IN_ORDER:
                total = reduce(np.add, parts)
            if form.shape:
                total = np.asarray(total).reshape(form.shape)
            else:  # a sum of two numpy.longlong is a numpy.int64
                total = form.dtype.type(total)
            found.append((place, total))
        return found


def _form(value: Any) -> Form:
    if isinstance(value, Node | np.ndarray | np.generic):
        return Form(value.shape, value.dtype)
    return Form((), None)


def _has_form(value: Any, form: Form) -> bool:
    """Return whether `_form` gives this form, sooner."""
    if type(value) is np.ndarray:
        return bool(value.shape == form.shape and value.dtype == form.dtype)
    return _form(value) == form


def _fits(group: Group, values: Sequence[Any]) -> bool:
    """Return whether the values from outside look as planned, and blocks keep NumPy's order."""
    given = (*group.taken.items(), *group.whole.items())
    return (
        all(_has_form(values[place], form) for place, form in given)
        and all(_is_ordered(values[place], 0) for place in group.by_rows)
        and all(_is_ordered(values[place], 2) for place in group.matrices)
        and all(values[place].flags.c_contiguous for place in group.contiguous)
    )


def _is_ordered(value: Any, last: int) -> bool:
    """Return whether elements lie in the order of an array's axes, as results in C order do.

    The `last` axes may be in another order.
    """
    if not isinstance(value, np.ndarray) or value.ndim < 2 or value.flags.c_contiguous:
        return True
    return _are_ordered(value.strides, value.shape, last)


@lru_cache(maxsize=1024)
def _are_ordered(strides: tuple[int, ...], shape: Shape, last: int) -> bool:
    pairs = list(zip(strides, shape, strict=True))[: len(shape) - last]
    steps = [stride for stride, length in pairs if length > 1]
    return steps == sorted(steps, reverse=True) and min(steps, default=1) > 0
