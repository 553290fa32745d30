"""A graph of recorded operations as plain data: it can be hashed, compiled and rerun anywhere.

A *tape* holds the operations in the order of recording, which is a valid order of evaluation.
Entries refer to their inputs by position, so a tape keeps no array alive: a *node* that nothing
refers to need not be computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuforge.dataclass import dataclass

Dtype = np.dtype[Any]
Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Operation:
    """One row of the table of operations.

    Attributes
    ----------
    name : its key in the libraries' lowerings
    compute : NumPy's function, called with the values of the inputs, then the parameters
    kind : class of the operation: ``elementwise``, ``reduction``, ``contraction``, ``scan``,
        ``sort``, ``gather``, ``factorisation``, ``transform``, ``creation``, ``view`` or
        ``repetition``
    structural : whether it implements shared memory: views, and writes through them
    raises : whether NumPy may raise because of values; it is then evaluated at its statement
    """

    name: str
    compute: Callable[..., Any]
    kind: str
    raises: bool = False
    structural: bool = False

    def __repr__(self) -> str:
        return self.name


def _given(*_: Any) -> Any:
    raise AssertionError("an input is given, not computed")


INPUT = Operation("input", _given, "creation")
"""An array from outside the tape; its parameters are dtype and shape."""
NUMBER = Operation("number", _given, "creation")
"""A Python number; its type is the parameter, its value is not part of the key."""


def repeated(*given: Any) -> tuple[list[Any], list[Any]]:
    """Run the turns of a repetition one after the other, for a library without guards.

    The arguments are the inputs, the program of one turn, and the `Repetition`. Return the outputs
    of the last turn, and no results of guards.
    """
    *inputs, program, repetition = given
    taken, made = list(inputs), []
    for slot in program.owned:
        taken[slot] = inputs[slot].copy(order="K")
    arrays = program.arrays
    for turn in range(repetition.count):
        for slot in repetition.each:
            value = inputs[slot][turn, ...]
            taken[slot] = value if arrays[slot] else value.item()
        made, _, _ = program(*taken)
        for slot, output in repetition.carried:
            taken[slot] = made[output]
    return made, []


REPEAT = Operation("turns", repeated, "repetition")
"""Equal turns of a loop; its parameter is a `Repetition`."""
PICK = Operation("turn_output", lambda found, output: found[0][output], "repetition")
"""One output of a repetition; its parameter is which."""
OWN = {one.name: one for one in (INPUT, NUMBER, REPEAT, PICK)}
"""Operations of graphs that are not in the table, by name."""

Entry = tuple[Operation, tuple[int, ...], tuple[Any, ...]]
Lines = dict[int, tuple[str, int]]
"""place of an entry -> file and line of the user's code that it comes from"""


class Node:
    """One value of a graph: recorded, or known already.

    Attributes
    ----------
    tape : the tape it is recorded on; None once evaluated
    index : its place there
    value : its value as an array of the backend; None before evaluation
    host : its value as a NumPy array, once requested
    made : which output of which evaluation of its call it is; None for others
    """

    __slots__ = ("dtype", "host", "index", "made", "shape", "tape", "value")

    def __init__(self, shape: Shape, dtype: Dtype, tape: Tape | None, index: int) -> None:
        self.shape = shape
        self.dtype = dtype
        self.tape = tape
        self.index = index
        self.value: Any = None
        self.host: np.ndarray[Any, Any] | None = None
        self.made: Output | None = None


class Output(NamedTuple):
    """One output of one evaluation of a call, both counted from 0."""

    evaluation: int
    output: int


class Tape:
    """The operations recorded since the last evaluation.

    Attributes
    ----------
    entries : (operation, places of its inputs, parameters); hashable, the key of the graph
    nodes : the node of each entry; None for numbers
    inputs : the values of the ``INPUT`` and ``NUMBER`` entries, in order
    origins : for each of them, the earlier evaluation that it is an output of; None for others
    lines : source lines of the entries that were recorded while tracing was on
    """

    __slots__ = ("entries", "inputs", "lines", "nodes", "origins")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.nodes: list[Node | None] = []
        self.lines: Lines = {}
        self.inputs: list[Any] = []
        self.origins: list[Output | None] = []


@dataclass(frozen=True)
class Graph:
    """What a tape computes, without its values: the key of a program.

    Attributes
    ----------
    entries : as on the tape
    outputs : places of the wanted entries
    """

    entries: tuple[Entry, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Repetition:
    """Turns of a loop that compute the same graph, each from the outputs of the one before.

    Attributes
    ----------
    graph : what one turn computes
    count : number of turns
    carried : (input of a turn, output of the turn before that it is)
    each : inputs that are another number or small array in each turn; they are given stacked
    """

    graph: Graph
    count: int
    carried: tuple[tuple[int, int], ...]
    each: tuple[int, ...]
