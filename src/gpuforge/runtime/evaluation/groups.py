"""Plan which consecutive operations of a graph are computed together, block by block.

A value that is needed as a whole is complete before the step that needs it. Its *level* is the
number of groups that have to be complete before it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from gpuforge.dataclass import dataclass, field
from gpuforge.runtime.array.graph import INPUT, NUMBER, Entry, Graph
from gpuforge.runtime.array.rules import count
from gpuforge.runtime.evaluation.rows import (
    BINNED,
    VIEWS,
    Form,
    Forms,
    Total,
    is_strided,
    rows_needed,
    total_of,
    totalled,
    work_of,
)

BLOCK_BYTES = 1 << 20
"""Size of a block of the largest array in a group.

Source: 12 functions of ``benchmarks/functions.py`` on two cores, in blocks of 0.06 to 2 MiB: 1 MiB
was the best or within a tenth of it for each. In smaller ones, threads often wait for the
interpreter's lock.
"""
LEAST_BYTES = 1 << 20
"""A group with less work than additions of so many bytes is not divided.

Source: 25 functions of ``benchmarks/functions.py`` on arrays of 0.24 to 2.4 MB, on two cores of an
AMD EPYC of family 25. With 0.25 MiB, some take twice as long: a thread has to wake up.
"""
MOST_WAITING_BYTES = 1 << 26
"""Steps outside of groups may make arrays of so many bytes in all before groups are completed.

A group takes steps from anywhere in the graph, so that arrays from outside of it wait until it is
complete. Those of a loop's turns would all wait: forty arrays of 8 MB where NumPy has two.
"""
SHARES = 2
"""Blocks for each thread if they are not for the caches: one thread may be slower than another."""
_TAKE_ROWS = frozenset(["elementwise", "view"])
"""Classes of operations whose results do not depend on what lies between the elements of a row."""
_OF_MATRICES = frozenset(["contraction"])
"""Those that make results in C order whatever the order of a matrix's elements."""


@dataclass
class Group:
    """Operations that are computed together, block by block.

    Attributes
    ----------
    rows : length of the first axis
    steps : places of the operations, in order
    taken : places of values from outside that are divided into blocks, with their forms
    whole : places of values from outside that each block needs as a whole, with their forms
    by_rows : those of both whose elements must lie in the order of their axes
    matrices : likewise, but the last two axes may be in any order
    contiguous : those of both whose elements must also lie without gaps
    totals : places of reductions over the rows, which are complete after the last block
    made : places of other values that are needed outside
    drops : for each step, the places of its block's values that are not needed after it
    writes : by places in `made`, the write that puts the value where it is needed (`destinations`)
    reused : by places of steps, the operand of the same block whose memory the result may take
    row_bytes, row_work : bytes of a row of the largest array, and the most of such bytes times the
        operation's work for each
    elements : elements of each array if all have one shape, so that blocks need not be of whole
        rows; else 0
    """

    rows: int
    steps: list[int] = field(default_factory=list)
    taken: dict[int, Form] = field(default_factory=dict)
    whole: dict[int, Form] = field(default_factory=dict)
    by_rows: set[int] = field(default_factory=set)
    matrices: set[int] = field(default_factory=set)
    contiguous: set[int] = field(default_factory=set)
    totals: dict[int, Total] = field(default_factory=dict)
    made: list[int] = field(default_factory=list)
    drops: list[tuple[int, ...]] = field(default_factory=list)
    writes: dict[int, int] = field(default_factory=dict)
    reused: dict[int, int] = field(default_factory=dict)
    row_bytes: int = 0
    row_work: int = 0
    elements: int = 0

    @property
    def sums_in_halves(self) -> bool:
        """Return whether blocks must be the parts that NumPy sums."""
        return Total.IN_HALVES in self.totals.values()

    @property
    def is_in_order(self) -> bool:
        """Return whether blocks must be the pieces that NumPy adds one after the other."""
        return Total.IN_ORDER in self.totals.values()

    @property
    def is_worth_it(self) -> bool:
        """Return whether there is enough work for several threads."""
        return self.rows * self.row_work >= LEAST_BYTES

    def blocks(self, threads: int, length: int) -> int:
        """Return the number of blocks of `length` rows: a multiple of the number of threads."""
        wanted = -(-self.rows * self.row_bytes // BLOCK_BYTES)
        if len(self.steps) == 1:  # nothing is computed from what is still in the caches
            wanted = min(wanted, SHARES * threads)
        return min(length, max(1, -(-wanted // threads)) * threads)


Plan = tuple[list["int | Group"], list[tuple[int, ...]]]
"""Steps and groups in order, and the values to drop after each."""


def plan_groups(graph: Graph, steps: Sequence[int], overwriting: Set[int], forms: Forms) -> Plan:
    """Return which steps run in groups; no parts if none does.

    A step that is `overwriting` its first input runs after every earlier step, which may use that.
    """
    found = _Grouping(graph, forms)
    for place in steps:
        found.add(place, alone=place in overwriting)
    for group in list(found.groups.values()):
        found.settle(group)
    if not found.member:
        return [], []
    return found.plan(steps)


Key = tuple[int, int, int]
"""level, rows, and the place of a sum that has a group of its own; else 0"""
_SINGLE, _GROUP, _AFTERWARDS = range(3)
"""Within a level: steps outside of groups, then groups, then what needs a group's results."""


class _Grouping:
    """Steps with their levels, and the groups that they belong to."""

    def __init__(self, graph: Graph, forms: Forms) -> None:
        self.graph, self.forms = graph, forms
        self.levels: dict[int, int] = {}
        self.groups: dict[Key, Group] = {}
        self.member: dict[int, Group] = {}
        self.strided: set[int] = set()
        self.apart: set[int] = set()
        self.needed: dict[int, Set[int]] = {}
        self.least_level = self.waiting_bytes = 0

    def add(self, place: int, *, alone: bool) -> None:
        """Add a step to the group of its level and its number of rows, if its rows allow that."""
        entry = self.graph.entries[place]
        total = None if alone else total_of(entry, self.forms, place)
        needed = None if alone else rows_needed(entry, self.forms, place)
        if total is not None:
            needed = totalled(entry)
        own = place if total is Total.IN_ORDER else 0
        rows = self._rows(place if total is None else entry[1][0]) if needed is not None else 0
        level = self.least_level
        for one in entry[1]:
            joins = needed is not None and one in needed and self._passes(one, entry, rows)
            joins = joins and not own
            level = max(level, self.levels.get(one, 0) + (one in self.member and not joins))
        if alone:
            level = max((n + (one in self.member) for one, n in self.levels.items()), default=0)
        while needed is not None and self._clashes((level, rows, own), entry, needed):
            level += 1
        self.levels[place] = level
        if needed is not None:
            key = (level, rows, own)
            group = self.member[place] = self.groups.setdefault(key, Group(rows))
            self._include(group, place, needed, total)
        elif entry[0].name not in VIEWS:
            self._wait(self.forms[place])

    def _wait(self, form: Form) -> None:
        """Note what a step outside of groups makes; complete all groups if too much waits."""
        if form.dtype is not None:
            self.waiting_bytes += count(form.shape) * form.dtype.itemsize
        if self.waiting_bytes > MOST_WAITING_BYTES:
            self.waiting_bytes, self.least_level = 0, max(self.levels.values()) + 1

    def _rows(self, place: int) -> int:
        return self.forms[place].shape[0] if self.forms[place].shape else 0

    def _passes(self, one: int, entry: Entry, rows: int) -> bool:
        """Return whether a step can use a group's values of a block before the group is complete.

        NumPy's order of additions, and the layout of some results, depend on where elements lie.
        """
        group = self.member.get(one)
        fits = group is not None and group.rows == rows and one not in group.totals
        return fits and (one not in self.strided or entry[0].kind in _TAKE_ROWS)

    def _clashes(self, key: Key, entry: Entry, needed: Set[int]) -> bool:
        """Return whether a step needs rows of what its group needs as a whole, or the reverse."""
        group = self.groups.get(key)
        if group is None:
            return False
        return any(one in (group.whole if one in needed else group.taken) for one in entry[1])

    def _include(self, group: Group, place: int, needed: Set[int], total: Total | None) -> None:
        entry = self.graph.entries[place]
        group.steps.append(place)
        if total is not None:
            group.totals[place] = total
        if is_strided(entry, self.forms, place):
            self.strided.add(place)
        self.needed[place] = needed
        self._give(group, place)

    def _give(self, group: Group, place: int) -> None:
        """Note what a step of a group takes from outside."""
        entry, needed = self.graph.entries[place], self.needed[place]
        for one in entry[1]:
            if self.member.get(one) is group and one not in group.totals:
                continue
            if one in needed:
                group.taken[one] = self.forms[one]
            else:
                group.whole[one] = self.forms[one]
            layouts = group.matrices if entry[0].kind in _OF_MATRICES else group.by_rows
            layouts.add(one)
            if self.forms[one].shape and entry[0].kind not in _TAKE_ROWS | _OF_MATRICES:
                group.contiguous.add(one)
        for one in needed if place in group.totals else (place, *needed):
            form = self.forms[one]
            size = count(form.shape[1:]) * form.dtype.itemsize
            group.row_bytes = max(group.row_bytes, size)
            group.row_work = max(group.row_work, size * work_of(entry))

    def settle(self, group: Group) -> None:
        """Decide whether a group may run in blocks of elements; leave out groups not worth it."""
        if all(self._is_flat(group, place) for place in group.steps):
            group.elements = count(self._shape(group, group.steps[0]))
        if group.sums_in_halves:
            self._set_apart(group)
        if not group.is_worth_it:
            for place in group.steps:
                del self.member[place]

    def _shape(self, group: Group, place: int) -> tuple[int, ...]:
        source = self.graph.entries[place][1][0] if place in group.totals else place
        return self.forms[source].shape

    def _is_flat(self, group: Group, place: int) -> bool:
        """Return whether each element of a step needs only the same element of its inputs."""
        operation, places, _ = self.graph.entries[place]
        shape = self._shape(group, group.steps[0])
        if self._shape(group, place) != shape:
            return False
        if place in group.totals:
            return operation.name not in BINNED and count(self.forms[place].shape) == 1
        given = [self.forms[one].shape for one in places]
        same = all(one == shape or (count(one) == 1 and len(one) <= len(shape)) for one in given)
        return operation.kind == "elementwise" and same

    def _set_apart(self, group: Group) -> None:
        """Give each sum whose parts the blocks cannot be a group of its own, after this one.

        The parts are not of whole rows, and those of complex numbers are others.
        """
        sums = [place for place, total in group.totals.items() if total is Total.IN_HALVES]
        kinds = {place: self.forms[place].dtype.kind for place in sums}
        apart = [p for p in sums if not group.elements or kinds[p] != kinds[sums[0]]]
        for place in apart:
            del group.totals[place]
            group.steps.remove(place)
            level = self.levels[place]
            made = self.member[place] = self.groups[level, group.rows, place] = Group(group.rows)
            source = self.graph.entries[place][1][0]
            self._include(made, place, {source}, Total.IN_HALVES)
            made.elements = count(self.forms[source].shape)
            self.apart.add(place)
            if not made.is_worth_it:
                del self.member[place]

    # -- the order ------------------------------------------------------------------------------

    def plan(self, steps: Sequence[int]) -> Plan:
        """Return all parts in order, and what to drop after each."""
        again = self._find_made()
        later = again | self.apart
        order: list[tuple[int, int, int, int | Group]] = [
            (self.levels[place], _AFTERWARDS if place in later else _SINGLE, place, place)
            for place in steps
            if place not in self.member or place in again
        ]
        for (level, *_), group in self.groups.items():
            first = group.steps[0] if group.steps else -1
            if self.member.get(first) is group:
                stage = _AFTERWARDS if first in self.apart else _GROUP
                order.append((level, stage, first, group))
        order.sort(key=lambda part: part[:3])
        parts = [part[3] for part in order]
        for part in parts:
            if isinstance(part, Group):
                self._give_again(part)
                part.drops = self._drops_within(part)
        return parts, self._drops(parts)

    def _give_again(self, group: Group) -> None:
        """Forget what only steps that have left the group took from outside."""
        for taken in (group.taken, group.whole, group.by_rows, group.matrices, group.contiguous):
            taken.clear()
        for place in group.steps:
            self._give(group, place)

    def _find_made(self) -> set[int]:
        """Find the values of groups that are needed outside; views are made there once more.

        Returns these views. Steps that nothing in a group needs any more are left out of it.
        """
        outside = set(self.graph.outputs)
        inside: set[int] = set()
        again: set[int] = set()
        for place in range(len(self.graph.entries) - 1, -1, -1):
            entry, group = self.graph.entries[place], self.member.get(place)
            if group is None:
                if place in self.levels:
                    outside.update(entry[1])
                continue
            if place in outside and place not in group.totals:
                if entry[0].name in VIEWS:
                    again.add(place)
                    outside.update(entry[1])
                else:
                    group.made.append(place)
            if place in inside or place in group.totals or place in group.made:
                mine = {one for one in entry[1] if self.member.get(one) is group}
                mine -= group.totals.keys()
                inside.update(mine)
                outside.update(set(entry[1]) - mine)
            else:
                group.steps.remove(place)
                del self.member[place]
        return again

    def _drops_within(self, group: Group) -> list[tuple[int, ...]]:
        """Find the values of a block to drop after each step of a group."""
        last: dict[int, int] = {}
        for place in group.steps:
            if place not in group.totals:
                last[place] = place
            last.update(dict.fromkeys(self.graph.entries[place][1], place))
        drops: dict[int, list[int]] = {place: [] for place in group.steps}
        for one, place in last.items():
            drops[place].append(one)
        return [tuple(drops[place]) for place in group.steps]

    def _drops(self, parts: Sequence[int | Group]) -> list[tuple[int, ...]]:
        """Find the values to drop after each part."""
        last = dict.fromkeys(self.graph.outputs, len(parts))
        for number in range(len(parts) - 1, -1, -1):
            part = parts[number]
            group = part if isinstance(part, Group) else None
            for place in group.steps if group else [part]:
                for one in self.graph.entries[place][1]:  # type: ignore[index]
                    last.setdefault(one, number)
            for place in (*group.totals, *group.made) if group else ():
                last.setdefault(place, number)
        kinds = (INPUT, NUMBER)
        drops: list[list[int]] = [[] for _ in parts]
        for place, number in last.items():
            if number < len(parts) and self.graph.entries[place][0] not in kinds:
                drops[number].append(place)
        return [tuple(found) for found in drops]
