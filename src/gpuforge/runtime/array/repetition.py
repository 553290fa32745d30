"""Fold the turns of a loop: tapes that compute the same become one entry of a graph.

A loop that records many operations fills one tape after the other. A library that compiles would
start its program for each of them; a loop within one program takes a tenth of that. Tapes that
follow each other, compute the same and are connected in the same way become a `Repetition` of the
fewest operations that repeat within them. What repeats at the end of the tape before and at the
beginning of the tape after them belongs to it, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuforge.runtime.array.graph import (
    INPUT,
    NUMBER,
    PICK,
    REPEAT,
    Dtype,
    Entry,
    Graph,
    Node,
    Operation,
    Repetition,
    Tape,
)
from gpuforge.runtime.array.index import PLACE, SPAN
from gpuforge.runtime.array.turns import HEADS, Kind, Turn, moved

LEAST_TURNS = 3
"""Fewer equal turns are evaluated one by one."""
SMALL_BYTES = 256
"""Arrays up to this size may be others in each turn, such as NumPy's scalars."""
_PLACES = np.dtype(np.int64)
"""Dtype of numbers in an index."""
_SAME, _EACH = "same", "each"


class Part(NamedTuple):
    """Turns to be evaluated together.

    Attributes
    ----------
    tape, wanted : what the engine runs
    nodes : the nodes of its outputs
    operations : number of operations that it stands for
    """

    tape: Tape
    wanted: list[int]
    nodes: list[Node]
    operations: int


def folded(turns: list[Turn], alive: set[int]) -> list[Part]:
    """Return what is to be evaluated for turns, in order.

    `alive` holds the ids of the nodes that something else still refers to.
    """
    latest = {id(value): at for at, turn in enumerate(turns) for value in turn.inputs}

    def is_passed_on(at: int) -> bool:
        """Return whether only the next turn uses the outputs of this one."""
        mine = set(map(id, turns[at].nodes))
        return mine.isdisjoint(alive) and all(latest.get(one, 0) <= at + 1 for one in mine)

    made: list[Turn | Part] = []
    at = 0
    while at < len(turns):
        end = _end_of_run(turns, at, is_passed_on)
        loop = None
        if end - at >= LEAST_TURNS:
            run, rest = turns[at:end], turns[end] if end < len(turns) else None
            before = made[-1] if made and is_passed_on(at - 1) else None
            rest = rest if rest and is_passed_on(end - 1) else None
            loop = _loop(run, before if isinstance(before, Turn) else None, rest)
        if loop is None:
            made += turns[at:end]
        else:
            head, part, tail = loop
            if head is not None:
                made[-1:] = [head] if head.places else []
            made.append(part)
            if tail is not None:
                turns[end] = tail
        at = end
    return [one if isinstance(one, Part) else _alone(one) for one in made]


def _end_of_run(turns: list[Turn], first: int, is_passed_on: Any) -> int:
    """Return where the turns end that compute the same as the first one, each from the last."""
    end, wires = first + 1, None
    while end < len(turns) and is_passed_on(end - 1) and turns[end].is_like(turns[first]):
        wires = wires or _wires(turns[first], turns[end])
        if not _continues(turns[end - 1], turns[end], wires):
            break
        end += 1
    return end


def _alone(turn: Turn) -> Part:
    return Part(turn.tape(), turn.wanted, turn.nodes, len(turn.places))


def _wires(one: Turn, two: Turn) -> list[int]:
    """Return for each input of a turn which output of the turn before it is; -1 for others."""
    outputs = {id(node): at for at, node in enumerate(one.nodes)}
    return [outputs.get(id(value), -1) for value in two.inputs]


def _continues(one: Turn, two: Turn, wires: list[int]) -> bool:
    """Return whether the second turn gets its inputs from the first in the given way."""
    return all(
        value is one.nodes[output]
        if output >= 0
        else value is before or (_is_small(value) and _is_small(before))
        for before, value, output in zip(one.inputs, two.inputs, wires, strict=True)
    )


def _is_small(value: Any) -> bool:
    """Return whether a value is a number, or a small array of NumPy."""
    if type(value) is np.ndarray:
        return value.nbytes <= SMALL_BYTES
    return type(value) in (int, float, bool, complex)


class _Step(NamedTuple):
    """One operation of a turn, in terms that are the same where a loop repeats it.

    Attributes
    ----------
    operation, params : as in its entry
    kind : dtype and shape of its result
    uses : its inputs: how many operations ago it was computed, also in the turn before; or an array
        that stays the same, by identity; or the entry of a number or small array, which may not
    """

    operation: Operation
    params: tuple[Any, ...]
    kind: Kind
    uses: tuple[Any, ...]


def _steps(turn: Turn, before: Turn | None) -> list[_Step]:
    """Return the operations of a turn that follows another one."""
    at, slots = turn.computed, turn.slots
    ago = {}
    if before is not None:
        number = len(before.places)
        ago = {id(node): number - before.computed[place]
               for place, node in zip(before.wanted, before.nodes, strict=True)}  # fmt: skip
    made: list[_Step] = []
    for place, now in at.items():
        operation, places, params = turn.entries[place]
        uses: list[Any] = []
        for one in places:
            if one in at:
                uses.append(now - at[one])
                continue
            value = turn.inputs[slots[one]]
            if id(value) in ago:
                uses.append(now + ago[id(value)])
            else:
                uses.append((_EACH, turn.entries[one]) if _is_small(value) else (_SAME, id(value)))
        made.append(_Step(operation, params, turn.kinds[place], tuple(uses)))
    return made


def _loop(
    run: list[Turn], before: Turn | None, after: Turn | None
) -> tuple[Turn | None, Part, Turn | None] | None:
    """Return equal turns as a loop, and what it leaves of the turns before and after them.

    None if what changes in them cannot be given as arrays.
    """
    steps = _steps(run[1], run[0])
    lengths = [length for length in range(1, len(steps)) if len(steps) % length == 0]
    for length in (*lengths, len(steps)):
        if steps[length:] != steps[: len(steps) - length]:
            continue
        body = steps[:length]
        head, begin = _divide_before(before, run[0], body) if before else (None, None)
        end, tail = _divide_after(run[-1], after, body) if after else (None, None)
        for pieces in ([begin, *run, end], run):
            part = _Loop([one for one in pieces if one is not None], body).part()
            if part is not None:
                return (head, part, tail) if pieces is not run else (None, part, None)
    return None


def _divide_before(turn: Turn, first: Turn, body: list[_Step]) -> tuple[Turn | None, Turn | None]:
    """Return a turn without the times of a loop that it ends with, and these; else None."""
    length, steps = len(body), _steps(turn, None)
    if _steps(first, turn)[:length] != body:
        return None, None  # the loop starts again at the first turn
    times = 0
    while (times + 2) * length <= len(steps):  # the first of them needs the values before it
        end = len(steps) - times * length
        if steps[end - length : end] != body:
            break
        times += 1
    if not times:
        return None, None
    return turn.split(len(steps) - times * length)


def _divide_after(last: Turn, turn: Turn, body: list[_Step]) -> tuple[Turn | None, Turn | None]:
    """Return the times of a loop that a turn begins with, and the rest of it; else None."""
    length, steps = len(body), _steps(turn, last)
    times = 0
    while (times + 1) * length < len(steps):
        if steps[times * length : (times + 1) * length] != body:
            break
        times += 1
    if not times:
        return None, None
    end, tail = turn.split(times * length)
    mine = set(map(id, last.nodes))
    return (end, tail) if mine.isdisjoint(map(id, tail.inputs)) else (None, None)


class _Loop:
    """The times of a loop, each of the same operations, in the turns that hold them.

    Inputs have the same places in the graph of the loop's body as in the tape around it.
    """

    def __init__(self, turns: list[Turn], body: list[_Step]) -> None:
        self.turns, self.body, self.length = turns, body, len(body)
        self.entries: list[Entry] = []
        self.around = Tape()
        self.each: list[int] = []
        self.given: dict[Any, int] = {}

    def part(self) -> Part | None:
        """Return what evaluates the turns; None if they are no such loop."""
        last = self.turns[-1]
        begin = len(last.places) - self.length
        ends = [last.computed[place] - begin for place in last.wanted]
        if min(ends, default=0) < 0 or not self._pass_on():
            return None
        taken = [self._taken(at) for at in range(self.length)]
        base = len(self.entries)
        for step, one in zip(self.body, taken, strict=True):
            if one is None:
                return None
            uses, params = one
            places = tuple(base - 1 - use if use < 0 else use for use in uses)
            self.entries.append((step.operation, places, params))
        return self._made(base, ends)

    def _times(self, at: int) -> Iterator[tuple[Turn, int]]:
        """Yield where each time's operation `at` is: its turn, and its place there."""
        for turn in self.turns:
            for now in range(at, len(turn.places), self.length):
                yield turn, turn.places[now]

    def _pass_on(self) -> bool:
        """Make the inputs that are results of the time before; return whether that is possible."""
        for at, step in enumerate(self.body):
            turn, place = next(self._times(at))
            for number, use in enumerate(step.uses):
                if type(use) is not int or use <= at:
                    continue
                source = at - use + self.length
                if source < 0:
                    return False  # it is from before the time before
                given = turn.entries[place][1][number]
                entry = INPUT, (), self.body[source].kind or ()
                if given not in turn.slots or turn.entries[given] != entry:
                    return False  # it has another shape before the first time
                value = turn.inputs[turn.slots[given]]
                made = self._input(source, entry, value)
                if self.around.inputs[made] is not value:
                    return False  # two arrays become one after the first time
        return True

    def _taken(self, at: int) -> tuple[list[int], tuple[Any, ...]] | None:
        """Return the places of an operation's inputs, and its parameters; None if it has none.

        Results of the same time are given as -1 - operation: their places are not known yet.
        """
        step = self.body[at]
        made: list[int] = []
        for number, use in enumerate(step.uses):
            if type(use) is int:
                made.append(-1 - (at - use) if use <= at else self.given[at - use + self.length])
                continue
            column = self._column(at, number, use)
            if column is None:
                return None
            made.append(column)
        if step.operation.name in HEADS:
            return self._indexed(at, made)
        return made, step.params

    def _column(self, at: int, number: int, use: tuple[str, Any]) -> int | None:
        """Return the place of an input from outside; None if it cannot be given."""
        values, entry = [], None
        for turn, place in self._times(at):
            one = turn.entries[place][1][number]
            entry = entry or turn.entries[one]
            values.append(turn.inputs[turn.slots[one]])
        assert entry is not None
        if use[0] is _SAME or _is_one(values):
            key = use if use[0] is _SAME else (entry, _exactly(values[0]))
            return self._input(key, entry, values[0])
        dtype = self._dtype_of_numbers(at, number) if entry[0] is NUMBER else values[0].dtype
        return None if dtype is None else self._stacked(entry, values, dtype)

    def _dtype_of_numbers(self, at: int, number: int) -> Dtype | None:
        """Return the dtype in which an operation takes a Python number; None if it is not known."""
        step = self.body[at]
        if step.operation.name in HEADS and number >= HEADS[step.operation.name]:
            return _PLACES
        turn, place = next(self._times(at))
        kinds = [turn.kinds[one] for one in turn.entries[place][1]]
        del kinds[number]
        dtypes = {kind[0] for kind in kinds if kind is not None}
        is_known = len(dtypes) == 1 and None not in kinds and step.operation.kind == "elementwise"
        return dtypes.pop() if is_known else None

    def _stacked(self, entry: Entry, values: list[Any], dtype: Dtype) -> int | None:
        """Return the place of an input with another value each time."""
        try:
            stacked = np.array(values, dtype)
        except (OverflowError, TypeError):
            return None
        key = entry, stacked.tobytes(), dtype
        if key not in self.given:
            place = self._input(key, entry, stacked)
            self.around.entries[place] = (INPUT, (), (dtype, stacked.shape))
            self.each.append(place)
        return self.given[key]

    def _indexed(self, at: int, made: list[int]) -> tuple[list[int], tuple[Any, ...]]:
        """Return the inputs and parameters of an index, in which only what moves has a start."""
        step = self.body[at]
        head = HEADS[step.operation.name]
        places: list[int] = made[:head]
        pattern: list[Any] = []
        numbers, slices = iter(made[head:]), 0
        for part in step.params[-1]:
            if part == PLACE:
                places.append(next(numbers))
            elif type(part) is tuple and part[0] == SPAN:
                starts = [turn.starts[place][slices] for turn, place in self._times(at)]
                slices += 1
                if len(set(starts)) > 1:
                    found = self._stacked((NUMBER, (), (int,)), starts, _PLACES)
                    assert found is not None
                    places.append(found)
                else:
                    part = moved((part,), (starts[0],))[0]
            pattern.append(part)
        return places, (*step.params[:-1], tuple(pattern))

    def _input(self, key: Any, entry: Entry, value: Any) -> int:
        """Return the place of an input, adding it unless there is one with that key."""
        if key not in self.given:
            self.given[key] = len(self.entries)
            self.entries.append(entry)
            self.around.entries.append(entry)
            self.around.inputs.append(value)
            self.around.origins.append(None)
        return self.given[key]

    def _made(self, base: int, ends: list[int]) -> Part:
        """Return the loop, whose operations begin at place `base` of its body."""
        passed = [at for at in self.given if type(at) is int]
        outputs = list(dict.fromkeys([*ends, *passed]))
        graph = Graph(tuple(self.entries), tuple(base + at for at in outputs))
        carried = tuple((self.given[at], outputs.index(at)) for at in passed)
        count = sum(len(turn.places) for turn in self.turns) // self.length
        repetition = Repetition(graph, count, carried, tuple(self.each))
        around, last = self.around, self.turns[-1]
        around.entries.append((REPEAT, tuple(range(base)), (repetition,)))
        around.entries += [(PICK, (base,), (outputs.index(at),)) for at in ends]
        if last.lines:
            around.lines[base] = next(iter(last.lines.values()))
        wanted = list(range(base + 1, base + 1 + len(ends)))
        return Part(around, wanted, last.nodes, count * self.length)


def _is_one(values: Sequence[Any]) -> bool:
    """Return whether numbers or arrays are all the same, down to the sign of zeros."""
    first = _exactly(values[0])
    return all(value is values[0] or _exactly(value) == first for value in values)


def _exactly(value: Any) -> bytes | str:
    """Return what tells a number or an array from others of its dtype and shape."""
    return value.tobytes() if type(value) is np.ndarray else repr(value)
