"""Replay a call: run its known graphs without running the user's Python.

If a function depends on its arguments alone (`dependence`), and a recorded call of it read no
values, the next call of the same signature with the same numbers runs the same graphs, one after
the other. A call with anything unusual is recorded instead, which is safe because the body has not
run yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuforge.dataclass import dataclass, replace
from gpuforge.runtime.array.array import Array, node_of, order_of
from gpuforge.runtime.array.graph import INPUT, REPEAT, Lines, Node, Output
from gpuforge.runtime.array.recorder import Evaluation, Host, Recorder
from gpuforge.runtime.array.storage import Step, follow, in_order
from gpuforge.runtime.function.dependence import Dependence

if TYPE_CHECKING:
    from gpuforge.runtime.evaluation.engine import BackendEngine
    from gpuforge.runtime.evaluation.program import Program

MAX_CONSTANT_BYTES = 1 << 16
"""Limit for an array that the body creates, which a replay has to keep."""
MAX_NUMBERS_BYTES = 1 << 21
"""Limit for the numbers of all turns of a loop, such as its counter."""


@dataclass(frozen=True)
class Leaf:
    """One array or scalar of a result.

    Attributes
    ----------
    output : index among the values that the result is built from
    scalar : whether NumPy returns a scalar here
    chain : view steps from the output to it
    order : of the output in memory, as `in_order` takes it
    """

    output: int
    scalar: bool
    chain: tuple[Step, ...]
    order: Any


@dataclass(frozen=True)
class Given:
    """An argument in a result, or a view of one.

    Attributes
    ----------
    place : place of the argument among all of them
    chain : view steps from the argument to what is returned
    """

    place: int
    chain: tuple[Step, ...]


class Form:
    """How a result is built: from a leaf, from a tuple or list of leaves, or as None."""

    def __init__(self, leaves: tuple[Leaf | Given, ...], kind: type | None) -> None:
        self.leaves, self.kind = leaves, kind

    def made(self, hosts: list[Host], values: Sequence[Any]) -> Any:
        """Return a new result from evaluated values and the arguments of the call."""
        if self.kind is NoneType:
            return None
        made = [
            _leaf(leaf, hosts[leaf.output]) if isinstance(leaf, Leaf)
            else follow(values[leaf.place], leaf.chain) for leaf in self.leaves
        ]  # fmt: skip
        return made[0] if self.kind is None else self.kind(made)


def _leaf(leaf: Leaf, host: Host) -> Any:
    if leaf.scalar:
        return host[()]
    if 0 in host.strides or not host.flags.writeable or isinstance(host.base, np.ndarray):
        host = host.copy(order="K")
    host = in_order(host, leaf.order)
    return follow(host, leaf.chain) if leaf.chain else host


class Noted:
    """What a replay needs of a recorded call, collected before the call is evaluated.

    Attributes
    ----------
    is_plain : whether it read no values, and returns nothing or arrays only
    written : the arguments that it wrote into, by index among its arrays, with their memory
    evaluations : its graphs, in the order in which they were evaluated
    wanted : the outputs that its result and the written arguments are made from
    writes : (index of an argument among its arrays, index of its final value in `wanted`)
    form : how its result is built; None if it cannot be replayed
    """

    def __init__(self, recorder: Recorder, result: Any) -> None:
        self.evaluations: list[Evaluation] = []
        self.wanted: list[Output] = []
        self.writes: list[tuple[int, int]] = []
        self.form: Form | None = None
        kind = type(result)
        self.kind = kind if kind in (tuple, list, NoneType) else None
        self._results = list(result or ()) if self.kind else [result]
        storages = [array._storage for array in recorder.arguments]
        self.written = [(place, one) for place, one in enumerate(storages) if one.version]
        self._places = {id(storage): place for place, storage in enumerate(storages)}
        self.sources = {id(array._storage.original.host): place
                        for place, array in enumerate(recorder.arguments)}  # fmt: skip
        self.is_plain = not (
            recorder.reads
            or recorder.exports
            or recorder.fallbacks
            or any(type(one) is not Array for one in self._results)
        )

    def close(self, evaluations: list[Evaluation] | None) -> None:
        """Finish when everything is evaluated, and release the recorded arrays."""
        if self.is_plain and evaluations and all(one.program for one in evaluations):
            self.evaluations, self.form = evaluations, self._form()
        self._results.clear()
        self.written.clear()

    def _form(self) -> Form | None:
        leaves: list[Leaf | Given] = []
        if len({id(array) for array in self._results}) < len(self._results):
            return None  # one object twice
        for array in self._results:
            node = self._node(array)
            if node is None:
                leaves.append(Given(self._places[id(array._storage)], array._chain))
                continue
            if node.made is None or node.made in self.wanted:
                return None
            leaves.append(leaf_of(array, len(self.wanted)))
            self.wanted.append(node.made)
        for place, storage in self.written:
            made = storage.node.made
            if made is None:  # it is another argument's value, or a constant
                return None
            if made not in self.wanted:
                self.wanted.append(made)
            self.writes.append((place, self.wanted.index(made)))
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
    return Leaf(output, array._scalar, array._chain, order_of(array))


@dataclass(frozen=True)
class Link:
    """One graph of a replay.

    The values of a replay are the arguments of the call, then the outputs of each graph.

    Attributes
    ----------
    given : for each input of the program, (place of a value, None) or (None, constant)
    drop : places of the values that are not needed after it
    lines : source lines of the graph's entries
    """

    program: Program
    given: tuple[tuple[int | None, Any], ...]
    drop: tuple[int, ...]
    lines: Lines


class Replay:
    """Replays calls of one signature of one function on one backend.

    Attributes
    ----------
    links : the graphs, in order
    wanted : places of the values that the result and the written arguments are made from
    writes : (place of an argument, index of its final value in `wanted`)
    statics : arguments that must be the same as in the recorded call, by place
    """

    def __init__(
        self, engine: BackendEngine, links: list[Link], wanted: list[int],
        writes: list[tuple[int, int]], form: Form, dependence: Dependence,
        statics: tuple[tuple[int, Any], ...], modes: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.engine, self.links, self.wanted, self.form = engine, links, wanted, form
        self.writes = writes
        self.dependence, self.statics, self.modes = dependence, statics, modes

    def fits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether the numbers among the arguments are those of the recorded call."""
        values = (*args, *kwargs.values()) if kwargs else args
        return all(values[place] == known for place, known in self.statics)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
        """Return the result, alone in a tuple; None if this call must be recorded."""
        values = (*args, *kwargs.values()) if kwargs else args
        if self.statics and not self.fits(args, kwargs):
            return None
        if np.geterr() != self.modes or not self.dependence.holds():
            return None
        if not all(values[place].flags.writeable for place, _ in self.writes):
            return None
        hosts = self.engine.rerun(self.links, list(values), self.wanted, self.modes)
        if hosts is None:  # nothing has been written yet
            return None
        for place, index in self.writes:
            np.copyto(values[place], hosts[index])
        return (self.form.made(hosts, values),)


def replay_of(
    noted: Noted, engine: BackendEngine, dependence: Dependence, args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Replay | None:  # fmt: skip
    """Return the replay of a recorded call; None if it cannot be replayed.

    It cannot if what the function depends on was different during the call than when it was read:
    it may change back.
    """
    outcome = engine.outcome
    if noted.form is None or outcome.programs != len(noted.evaluations) or outcome.settled:
        return None
    if not dependence.holds():
        return None
    statics = _statics((*range(len(args)), *kwargs), (*args, *kwargs.values()), dependence.unused)
    if statics is None:
        return None
    arrays = [place for place, value in enumerate((*args, *kwargs.values()))
              if type(value) is np.ndarray]  # fmt: skip
    if len(noted.sources) < len(arrays):  # an array was passed twice; the next call may pass two
        return None
    first = [len(args) + len(kwargs)]
    for one in noted.evaluations:
        first.append(first[-1] + len(one.program.graph.outputs))
    links = _links(noted, arrays, first)
    if links is None:
        return None
    wanted = [first[one.evaluation] + one.output for one in noted.wanted]
    writes = [(arrays[place], index) for place, index in noted.writes]
    leaves = tuple(
        leaf if isinstance(leaf, Leaf) else replace(leaf, place=arrays[leaf.place])
        for leaf in noted.form.leaves
    )
    return Replay(engine, _dropping(links, first, wanted), wanted, writes,
                  Form(leaves, noted.form.kind), dependence, statics, np.geterr())  # fmt: skip


def _links(noted: Noted, arrays: list[int], first: list[int]) -> list[Link] | None:
    """Return the graphs of a replay; None if one of them needs a large constant.

    `first` holds the place of the first output of each graph.
    """
    links = []
    for one in noted.evaluations:
        given: list[tuple[int | None, Any]] = []
        repetitions = [entry[2][0] for entry in one.program.graph.entries if entry[0] is REPEAT]
        most = dict.fromkeys(
            (place for loop in repetitions for place in loop.each), MAX_NUMBERS_BYTES
        )
        for place, value in zip(one.program.inputs, one.inputs, strict=True):
            source = noted.sources.get(id(value))
            if type(value) is Output:
                given.append((first[value.evaluation] + value.output, None))
            elif source is not None:
                given.append((arrays[source], None))
            elif one.program.graph.entries[place][0] is not INPUT:
                given.append((None, value))
            elif type(value) is np.ndarray and value.nbytes <= most.get(place, MAX_CONSTANT_BYTES):
                given.append((None, value.copy()))
            else:
                return None
        links.append(Link(one.program, tuple(given), (), one.lines))
    return links


def _dropping(links: list[Link], first: list[int], wanted: list[int]) -> list[Link]:
    """Return the graphs with the outputs that are not needed after each of them."""
    needed, made = set(wanted), []
    for link, begin, end in reversed(list(zip(links, first[:-1], first[1:], strict=True))):
        used = {place for place, _ in link.given if place is not None and place >= first[0]}
        made.append(replace(link, drop=tuple({*used, *range(begin, end)} - needed)))
        needed |= used
    return made[::-1]


def _statics(
    names: tuple[int | str, ...], values: tuple[Any, ...], unused: frozenset[int | str]
) -> tuple[tuple[int, Any], ...] | None:
    """Return the numbers among the arguments by index; None if the call cannot be replayed.

    Other arguments are part of the key of the cached decision, as are integers that do not change.
    """
    found: list[tuple[int, Any]] = []
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        kind = type(value)
        if name in unused:
            continue
        if kind is int:
            found.append((place, value))
        elif kind is float:
            if not value or value != value:  # zeros have a sign, NaN equals nothing
                return None
            found.append((place, value))
        elif kind not in (np.ndarray, bool, str, type(None)):
            return None
    return tuple(found)
