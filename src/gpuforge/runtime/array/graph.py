"""A graph of noted operations as plain data: it can be keyed, compiled, and run again anywhere.

A *tape* holds the operations in the order in which they were noted, which is an order in which
they can be evaluated. An entry names the entries it takes by their places, so a tape holds on to
no array of the user's: a *node* that nothing refers to any more need not be computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuforge.dataclass import dataclass

Dtype = np.dtype[Any]
Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Operation:
    """One row of the table of operations.

    Attributes
    ----------
    name : what libraries lower it under
    compute : NumPy's own, called with the values of the inputs and then the parameters
    kind : class of the operation: ``elementwise``, ``reduction``, ``contraction``, ``scan``,
        ``sort``, ``gather``, ``factorisation``, ``transform``, ``creation`` or ``view``
    structural : whether arrays that share memory depend on it: views, and writes through them
    raises : whether NumPy may raise because of values; then it is evaluated at its statement
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

Entry = tuple[Operation, tuple[int, ...], tuple[Any, ...]]
Lines = dict[int, tuple[str, int]]
"""place of an entry -> file and line of the user's code that asked for it"""


class Node:
    """One value of a graph: noted, or known already.

    Attributes
    ----------
    tape : where it is noted; None once it was evaluated
    index : its place there
    value : what a backend made of it, in the backend's own arrays; None before
    host : the same as a NumPy array, once somebody asked
    """

    __slots__ = ("dtype", "host", "index", "shape", "tape", "value")

    def __init__(self, shape: Shape, dtype: Dtype, tape: Tape | None, index: int) -> None:
        self.shape = shape
        self.dtype = dtype
        self.tape = tape
        self.index = index
        self.value: Any = None
        self.host: np.ndarray[Any, Any] | None = None


class Tape:
    """The operations noted since the last evaluation.

    Attributes
    ----------
    entries : (operation, places of its inputs, parameters); hashable, the key of the graph
    nodes : the node of each entry; None for numbers
    inputs : the values of the ``INPUT`` and ``NUMBER`` entries, in order
    lines : where entries come from; of those that were noted while tracing was on
    """

    __slots__ = ("entries", "inputs", "lines", "nodes")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.nodes: list[Node | None] = []
        self.lines: Lines = {}
        self.inputs: list[Any] = []


@dataclass(frozen=True)
class Graph:
    """What a tape computes, without its values: the key of a program.

    Attributes
    ----------
    entries : as on the tape
    outputs : places of the entries that are asked for
    """

    entries: tuple[Entry, ...]
    outputs: tuple[int, ...]
