"""Full tapes that wait to be evaluated, since the turns of a loop may be evaluated together."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

from gpuforge.runtime.array.graph import (
    INPUT,
    NUMBER,
    Dtype,
    Entry,
    Lines,
    Node,
    Shape,
    Tape,
)
from gpuforge.runtime.array.index import SPAN

Kind = tuple[Dtype, Shape] | None
HEADS = {"getitem": 1, "setitem": 2}
"""Operations with an index: how many inputs come before its numbers."""


class Turn:
    """A full tape that waits to be evaluated.

    Equal turns share what they compute, so that a long loop does not fill the memory.

    Attributes
    ----------
    entries : the tape's, with indices whose slices may start anywhere
    kinds : dtype and shape of each entry's value; None for numbers
    starts : for each entry with such slices, where they start
    inputs : the values of its inputs; those that wait themselves are given as nodes
    wanted, nodes : places of its outputs, and their nodes
    lines : as on the tape
    """

    def __init__(
        self, entries: list[Entry], kinds: list[Kind], starts: dict[int, tuple[int, ...]],
        inputs: list[Any], wanted: list[int], nodes: list[Any], lines: Lines,
    ) -> None:  # fmt: skip
        self.entries, self.kinds, self.starts, self.inputs = entries, kinds, starts, inputs
        self.wanted, self.nodes, self.lines = wanted, nodes, lines

    @classmethod
    def of(cls, tape: Tape, wanted: list[int], before: Turn | None) -> Turn:
        """Return the turn of a tape that follows another turn."""
        entries, starts = list(tape.entries), {}
        for place, (operation, places, params) in enumerate(entries):
            if operation.name in HEADS:
                pattern, found = _spans(params[-1])
                if found:
                    starts[place] = found
                    entries[place] = operation, places, (*params[:-1], pattern)
        nodes = [tape.nodes[place] for place in wanted]
        if before is not None and entries == before.entries and wanted == before.wanted:
            entries, kinds, wanted = before.entries, before.kinds, before.wanted
        else:
            kinds = [None if node is None else (node.dtype, node.shape) for node in tape.nodes]
        return cls(entries, kinds, starts, tape.inputs, wanted, nodes, tape.lines)

    @cached_property
    def places(self) -> list[int]:
        """Places of the operations."""
        return [at for at, entry in enumerate(self.entries) if entry[0] not in (INPUT, NUMBER)]

    @cached_property
    def computed(self) -> dict[int, int]:
        """Place of an operation to its number among them."""
        return {place: at for at, place in enumerate(self.places)}

    @cached_property
    def slots(self) -> dict[int, int]:
        """Place of an input to its number among them."""
        given = [at for at, entry in enumerate(self.entries) if entry[0] in (INPUT, NUMBER)]
        return {place: slot for slot, place in enumerate(given)}

    def is_like(self, other: Turn) -> bool:
        """Return whether it computes the same as another turn, from other inputs."""
        return self.entries is other.entries and self.wanted is other.wanted

    def tape(self) -> Tape:
        """Return it as a tape to be evaluated."""
        made = Tape()
        made.inputs, made.lines = self.inputs, self.lines
        made.origins = [None] * len(self.inputs)
        made.entries = list(self.entries)
        for place, starts in self.starts.items():
            operation, places, params = self.entries[place]
            made.entries[place] = operation, places, (*params[:-1], moved(params[-1], starts))
        return made

    def split(self, number: int) -> tuple[Turn, Turn]:
        """Return a turn of the first `number` operations, and one of the others."""
        border, late = self.places[number], self.places[number:]
        nodes = dict(zip(self.wanted, self.nodes, strict=True))
        taken = dict.fromkeys(one for at in late for one in self.entries[at][1] if one < border)
        passed = {at: nodes.get(at) or self._node(at) for at in taken if at in self.computed}
        early = {at: node for at, node in nodes.items() if at < border} | passed
        head = self._cut(self.places[:number], {}, early)
        tail = self._cut(late, passed, {at: one for at, one in nodes.items() if at >= border})
        return head, tail

    def _node(self, place: int) -> Node:
        kind = self.kinds[place]
        assert kind is not None
        return Node(kind[1], kind[0], None, -1)

    def _cut(self, computed: list[int], passed: dict[int, Node], ends: dict[int, Node]) -> Turn:
        """Return a turn of some operations; `passed` are inputs that others compute."""
        used = {one for at in computed for one in self.entries[at][1]}
        chosen = sorted(used.union(computed))
        new = {place: at for at, place in enumerate(chosen)}
        entries: list[Entry] = []
        inputs: list[Any] = []
        for place in chosen:
            operation, places, params = self.entries[place]
            if place in passed:
                entries.append((INPUT, (), self.kinds[place] or ()))
                inputs.append(passed[place])
                continue
            entries.append((operation, tuple(new[one] for one in places), params))
            if place in self.slots:
                inputs.append(self.inputs[self.slots[place]])
        return Turn(
            entries,
            [self.kinds[place] for place in chosen],
            {new[place]: starts for place, starts in self.starts.items() if place in computed},
            inputs, [new[at] for at in ends], [*ends.values()],
            {new[place]: line for place, line in self.lines.items() if place in new},
        )  # fmt: skip


def moved(pattern: tuple[Any, ...], starts: tuple[int, ...]) -> tuple[Any, ...]:
    """Return a pattern whose slices start at the given places."""
    numbers = iter(starts)
    return tuple(_moved(next(numbers), *part[1:]) if part[0] == SPAN else part for part in pattern)


def _moved(start: int, length: int, step: int) -> tuple[int, int, int]:
    return (start, start + (length - 1) * step + 1, step) if length else (0, 0, 1)


@lru_cache(maxsize=4096)
def _spans(pattern: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Return a pattern without the starts of its slices, and these."""
    made: list[Any] = []
    starts: list[int] = []
    for part in pattern:
        if type(part) is tuple and part[1] is not None and part[2] > 0:
            start, stop, step = part
            made.append((SPAN, len(range(start, stop, step)), step))
            starts.append(start)
        else:
            made.append(part)
    return tuple(made), tuple(starts)


def resolve(tape: Tape) -> None:
    """Put the values of nodes that waited into the inputs of a tape."""
    for at, value in enumerate(tape.inputs):
        if type(value) is Node:
            tape.inputs[at] = value.host if value.value is None else value.value
            tape.origins[at] = value.made
