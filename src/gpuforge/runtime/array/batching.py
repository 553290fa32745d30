"""Batch a graph: rules that add a leading axis to each operation of the table.

The graph of one item becomes the graph of `number` items stacked along a new first axis. Values
that do not depend on an item are computed once and broadcast. A row uses its own rule here or that
of its class; a graph with a row that has neither runs item by item.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from string import ascii_letters
from typing import Any

import numpy as np

from gpuforge.runtime.array.graph import INPUT, NUMBER, Dtype, Entry, Graph, Operation, Shape
from gpuforge.runtime.array.index import PLACE
from gpuforge.runtime.array.indexing import ARRAY
from gpuforge.runtime.array.operations.contraction import MATMUL
from gpuforge.runtime.array.rules import count
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import BROADCAST, RESHAPE, TRANSPOSE

Params = tuple[Any, ...]
Rule = Callable[["Widening", Operation, tuple[int, ...], Params, Shape], int]


class Widening:
    """Builds the graph of many items.

    Attributes
    ----------
    entries : entries of the new graph
    inputs : for each of its inputs, the place of an input in the item's graph or a new constant
    """

    def __init__(
        self, graph: Graph, shapes: tuple[Shape, ...], dtypes: tuple[Dtype | None, ...],
        stacked: Collection[int], number: int,
    ) -> None:  # fmt: skip
        self.number, self.shapes = number, shapes
        self.entries: list[Entry] = []
        self.inputs: list[int | np.ndarray[Any, Any]] = []
        self._at: list[int] = []
        self._wide: list[bool] = []
        for place, (operation, places, params) in enumerate(graph.entries):
            shape, dtype = shapes[place], dtypes[place]
            if 0 in shape:
                raise Unsupported("an empty array")
            if operation is INPUT or operation is NUMBER:
                self._wide.append(place in stacked)
                self.inputs.append(place)
                given = (params[0], (number, *shape)) if self._wide[-1] else params
                self._at.append(self.emit(operation, (), given))
                continue
            wide = any(self._wide[p] for p in places)
            if wide:
                _check(operation, shape, dtype)
                made = _rule(operation)(self, operation, places, params, shape)
            else:
                made = self.emit(operation, [self._at[p] for p in places], params)
            self._at.append(made)
            self._wide.append(wide)
        if not all(self._wide[place] for place in graph.outputs):
            raise Unsupported("a result that is the same for all items")
        self.graph = Graph(tuple(self.entries), tuple(map(self.at, graph.outputs)))

    def emit(self, operation: Operation, places: Any, params: Params) -> int:
        """Add an entry and return its place."""
        self.entries.append((operation, tuple(places), params))
        return len(self.entries) - 1

    def constant(self, value: np.ndarray[Any, Any]) -> int:
        """Add an input that is the same for every batch of this size."""
        self.inputs.append(value)
        return self.emit(INPUT, (), (value.dtype, value.shape))

    def is_wide(self, place: int) -> bool:
        """Return whether a value of the item's graph differs from item to item."""
        return self._wide[place]

    def at(self, place: int) -> int:
        """Return the place in the new graph of a value of the item's graph."""
        return self._at[place]

    def aligned(self, place: int, rank: int) -> int:
        """Return a value that broadcasts, with axes of length one inserted after the first."""
        shape = self.shapes[place]
        if not self._wide[place] or len(shape) >= rank:
            return self._at[place]
        full = (self.number, *(1,) * (rank - len(shape)), *shape)
        return self.emit(RESHAPE, (self._at[place],), (full,))

    def spread(self, place: int, rank: int = 0) -> int:
        """Return a value broadcast along the new axis if it lacks it, aligned to `rank`."""
        if self._wide[place]:
            return self.aligned(place, rank)
        shape = self.shapes[place]
        full = (self.number, *(1,) * (rank - len(shape)), *shape)
        return self.emit(BROADCAST, (self._at[place],), (full,))


def _check(operation: Operation, shape: Shape, dtype: Dtype | None) -> None:
    """Raise Unsupported where NumPy treats a scalar differently from an array of scalars."""
    if operation.kind == "elementwise" and shape == () and dtype and dtype.kind in "iu":
        raise Unsupported("integer scalars, for which NumPy warns about overflow")


def _rule(operation: Operation) -> Rule:
    found: Rule | None = ROWS.get(operation.name, CLASSES.get(operation.kind))
    if found is None:
        raise Unsupported(f"{operation.name} takes one item at a time")
    return found


# -- the rules -------------------------------------------------------------------------------------


def _broadcast(w: Widening, row: Operation, places: Any, params: Params, shape: Shape) -> int:
    """Align every operand to the rank of the result."""
    return w.emit(row, [w.aligned(p, len(shape)) for p in places], params)


def _last_axes(w: Widening, row: Operation, places: Any, params: Params, shape: Shape) -> int:
    """Stack the operands of an operation that works on the last axes."""
    rank = max(len(w.shapes[p]) for p in places)
    return w.emit(row, [w.aligned(p, rank) for p in places], params)


def _shifted(which: int) -> Rule:
    """Return a rule that adds one to a parameter, which is an axis or a tuple of axes."""

    def rule(w: Widening, row: Operation, places: Any, params: Params, shape: Shape) -> int:
        axes = params[which]
        moved = tuple(a + 1 for a in axes) if isinstance(axes, tuple) else axes + 1
        given = [w.spread(p, len(w.shapes[p])) for p in places]
        return w.emit(row, given, (*params[:which], moved, *params[which + 1 :]))

    return rule


def _diagonal(w: Widening, row: Operation, places: Any, params: Params, shape: Shape) -> int:
    offset, one, two = params
    return w.emit(row, [w.at(places[0])], (offset, one + 1, two + 1))


def _transpose(w: Widening, row: Operation, places: Any, params: Params, shape: Shape) -> int:
    return w.emit(row, [w.at(places[0])], ((0, *(axis + 1 for axis in params[0])),))


def _reshape(w: Widening, row: Operation, places: Any, params: Params, shape: Shape) -> int:
    rank = len(shape) if row is BROADCAST else 0
    return w.emit(row, [w.aligned(places[0], rank)], ((w.number, *shape),))


def _matmul(w: Widening, row: Operation, places: Any, params: Params, shape: Shape) -> int:
    """Return stacked products; a single product if one side is the same matrix for all items."""
    left, right = places
    rows, columns = w.shapes[left], w.shapes[right]
    if len(rows) == len(columns) == 2:
        if not w.is_wide(right):
            flat = w.emit(RESHAPE, (w.at(left),), ((w.number * rows[0], rows[1]),))
            made = w.emit(MATMUL, (flat, w.at(right)), ())
            return w.emit(RESHAPE, (made,), ((w.number, *shape),))
        if not w.is_wide(left) and columns[1] == 1:
            flat = w.emit(RESHAPE, (w.at(right),), ((w.number, columns[0]),))
            turned = w.emit(TRANSPOSE, (w.at(left),), ((1, 0),))
            made = w.emit(MATMUL, (flat, turned), ())
            return w.emit(RESHAPE, (made,), ((w.number, *shape),))
    return _last_axes(w, row, places, params, shape)


def _einsum(w: Widening, row: Operation, places: Any, params: Params, shape: Shape) -> int:
    terms, result = params[0].split("->")
    free = next((letter for letter in ascii_letters if letter not in params[0]), None)
    if free is None:
        raise Unsupported("an einsum that uses every letter")
    named = [free * w.is_wide(p) + term for p, term in zip(places, terms.split(","), strict=True)]
    return w.emit(row, map(w.at, places), (f"{','.join(named)}->{free}{result}",))


def _joined(w: Widening, row: Operation, places: Any, params: Params, shape: Shape) -> int:
    return w.emit(row, [w.spread(p) for p in places], (params[0] + 1,))


def _pick(w: Widening, row: Operation, places: Any, params: Params, shape: Shape) -> int:
    return w.emit(row, [w.at(places[0])], params)


def _searched(w: Widening, row: Operation, places: Any, params: Params, shape: Shape) -> int:
    """Look up the values of all items in the tables that they share."""
    values = {"searchsorted": 1, "interpolate": 0}[row.name]
    if any(w.is_wide(p) for at, p in enumerate(places) if at != values):
        raise Unsupported(f"{row.name} in a table of each item's own")
    return w.emit(row, map(w.at, places), params)


def _getitem(w: Widening, row: Operation, places: Any, params: Params, shape: Shape) -> int:
    return w.emit(row, map(w.at, places), (_in_front(w, params),))


def _setitem(w: Widening, row: Operation, places: Any, params: Params, shape: Shape) -> int:
    array, value, *numbers = places
    rank = sum(part != PLACE for part in params[0])
    given = (w.spread(array), w.aligned(value, rank), *map(w.at, numbers))
    return w.emit(row, given, (_in_front(w, params),))


def _in_front(w: Widening, params: Params) -> tuple[Any, ...]:
    return ((0, w.number, 1), *params[0])


def _index(w: Widening, given: Any, pattern: Any) -> tuple[list[int], int]:
    """Return the index arrays, and the rank of their broadcast result.

    NumPy moves the axes of index arrays that are not adjacent to the front: unsupported.
    """
    spots = [at for at, part in enumerate(pattern) if part in (ARRAY, PLACE)]
    if spots[-1] - spots[0] != len(spots) - 1:
        raise Unsupported("separate arrays of indices")
    arrays = list(given[: pattern.count(ARRAY)])
    if any(w.is_wide(p) for p in arrays) and spots[0] != 0:
        raise Unsupported("indices of each item behind other axes")
    return arrays, max(len(w.shapes[p]) for p in arrays)


def _gather(w: Widening, row: Operation, places: Any, params: Params, shape: Shape) -> int:
    array, *given = places
    (pattern,) = params
    arrays, rank = _index(w, given, pattern)
    if not any(w.is_wide(p) for p in arrays):
        return w.emit(row, map(w.at, places), (_in_front(w, params),))
    own = [w.aligned(p, rank) for p in arrays]
    numbers = map(w.at, given[len(arrays) :])
    if not w.is_wide(array):
        return w.emit(row, (w.at(array), *own, *numbers), params)
    items = w.constant(np.arange(w.number).reshape(-1, *(1,) * rank))
    return w.emit(row, (w.at(array), items, *own, *numbers), ((ARRAY, *pattern),))


def _scatter(w: Widening, row: Operation, places: Any, params: Params, shape: Shape) -> int:
    array, value, *given = places
    arrays, rank = _index(w, given, params[0])
    if any(w.is_wide(p) for p in arrays):
        raise Unsupported("values put at indices of each item")
    rank += sum(part not in (ARRAY, PLACE) for part in params[0])
    taken = (w.spread(array), w.spread(value, rank), *map(w.at, given))
    return w.emit(row, taken, (_in_front(w, params),))


CLASSES: dict[str, Rule] = {"elementwise": _broadcast, "factorisation": _last_axes}
ROWS: dict[str, Any] = {
    **dict.fromkeys("sum prod max min any all argmax argmin sort argsort unstable_argsort".split(),
                    _shifted(0)),
    **dict.fromkeys("cumsum cumprod cummax cummin take_along checked_take_along".split(),
                    _shifted(0)),
    **dict.fromkeys("fftn ifftn rfftn irfftn".split(), _shifted(1)),
    **dict.fromkeys("scatter checked_scatter scatter_each scatter_add checked_scatter_add".split(),
                    _scatter),
    **dict.fromkeys(("gather", "checked_gather"), _gather),
    **dict.fromkeys(("searchsorted", "interpolate"), _searched),
    **dict.fromkeys(("real", "imag"), _broadcast),
    **dict.fromkeys(("reshape", "broadcast_to"), _reshape),
    "transpose": _transpose, "diagonal": _diagonal, "concatenate": _joined, "pick": _pick,
    "getitem": _getitem, "setitem": _setitem, "matmul": _matmul, "einsum": _einsum, "lstsq": None,
}  # fmt: skip
"""Rows with their own rule, or None to override the rule of their class. A new row in the table
uses the rule of its class, or runs item by item."""


def batched(
    graph: Graph, shapes: tuple[Shape, ...], dtypes: tuple[Dtype | None, ...],
    stacked: Collection[int], number: int,
) -> tuple[Graph, list[int | np.ndarray[Any, Any]]]:  # fmt: skip
    """Return the graph of `number` items, and the source of each of its inputs.

    Parameters
    ----------
    graph
        Graph of one item; its outputs get a new first axis.
    shapes, dtypes
        Shape and dtype of each of its entries.
    stacked
        The places of the inputs that differ from item to item.

    Returns
    -------
    tuple
        The new graph and, for each of its inputs, the place of the item's input or a constant.

    Raises
    ------
    Unsupported
        If an operation cannot be batched.
    """
    made = Widening(graph, shapes, dtypes, stacked, number)
    return made.graph, made.inputs


def bytes_of(shapes: tuple[Shape, ...], dtypes: tuple[Dtype | None, ...]) -> list[int]:
    """Return the bytes of each entry of a graph."""
    return [count(s) * (d.itemsize if d else 8) for s, d in zip(shapes, dtypes, strict=True)]
