"""Operations on arrays whose last axis is short, one column after the other.

Positions in space, colours and other small vectors are often the rows of an array, as in
``(n, 3)``. NumPy's innermost loop is along the last axis; to start it takes longer than to compute
a few numbers. One operation for each column computes each element from the same operands, and adds
in the same order: NumPy does not halve sums of fewer than eight numbers.

Source: 12,000 rows of two numbers, NumPy 2.4 on an AMD EPYC of family 25: their sums take 240 us,
by columns 8; their maxima 490 and 8; the difference from one row 93 and 22.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from gpuforge.runtime.array.graph import Entry, Shape
from gpuforge.runtime.array.rules import count
from gpuforge.runtime.evaluation.rows import Forms, reduced_axes

MOST_COLUMNS = 7
"""NumPy sums rows of eight and more numbers in another order."""
LEAST_ROWS = 256
"""For fewer rows, one operation for each column takes as long."""

_ELEMENTWISE: dict[str, np.ufunc] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply,
    "true_divide": np.true_divide, "maximum": np.maximum, "minimum": np.minimum,
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "equal": np.equal, "not_equal": np.not_equal,
}  # fmt: skip
"""Operations whose bits do not depend on how elements lie in memory."""
_REDUCTIONS: dict[str, np.ufunc] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
    "any": np.logical_or, "all": np.logical_and,
}  # fmt: skip

Compute = Callable[..., Any]


class ByColumns:
    """A function that computes column by column where arrays are in C order.

    Attributes
    ----------
    usual : the function that computes other arrays
    ufunc : the universal function of two columns
    """

    def __init__(self, usual: Compute, ufunc: np.ufunc, dtype: Any) -> None:
        self.usual, self.ufunc, self.dtype = usual, ufunc, dtype


class Elementwise(ByColumns):
    """An operation on two arrays, one of which has fewer rows or columns than the result."""

    def __call__(self, x: Any, y: Any, out: Any = None) -> Any:
        if out is None:
            if not (x.flags.c_contiguous and y.flags.c_contiguous):
                return self.usual(x, y)
            out = np.empty(np.broadcast_shapes(x.shape, y.shape), self.dtype)
        for column in range(out.shape[-1]):
            self.ufunc(_column(x, column), _column(y, column), out=out[..., column])
        return out


class Reduction(ByColumns):
    """A reduction of an array's last axis."""

    def __call__(self, x: Any, axes: Any, keepdims: bool, out: Any = None) -> Any:
        if not x.flags.c_contiguous:
            return self.usual(x, axes, keepdims, **({} if out is None else {"out": out}))
        if out is None:
            out = np.empty(x.shape[:-1] + (1,) * keepdims, self.dtype)
        made = out[..., 0] if keepdims else out
        self.ufunc(x[..., 0], x[..., 1], out=made)
        for column in range(2, x.shape[-1]):
            self.ufunc(made, x[..., column], out=made)
        if self.ufunc is np.add and self.dtype.kind == "f":
            made += 0.0  # as NumPy, which begins with 0.0: no sum is -0.0
        return out


class FirstAxis(ByColumns):
    """A reduction of the first of two axes, whose result does not depend on the order."""

    def __call__(self, x: Any, axes: Any, keepdims: bool, out: Any = None) -> Any:
        if not x.flags.c_contiguous:
            return self.usual(x, axes, keepdims, **({} if out is None else {"out": out}))
        if out is None:
            out = np.empty((1,) * keepdims + x.shape[1:], self.dtype)
        made = out[0] if keepdims else out
        for column in range(x.shape[1]):
            made[column] = self.ufunc.reduce(x[:, column])
        return out


def by_columns(entry: Entry, usual: Compute, forms: Forms, place: int) -> Compute | None:
    """Return a function that computes a step by columns; None if that is not faster or differs."""
    operation, places, params = entry
    name, made = operation.name, forms[place]
    shapes = [forms[one].shape for one in places]
    if name in _ELEMENTWISE and not params and _is_uneven(shapes, made.shape):
        return Elementwise(usual, _ELEMENTWISE[name], made.dtype)
    given = forms[places[0]] if places else made
    if name not in _REDUCTIONS or not _is_short(given.shape):
        return None
    axes, adds = reduced_axes(entry, forms), name in ("sum", "prod")
    if axes == {0} and len(given.shape) == 2 and not (adds and made.dtype.kind in "fc"):
        return FirstAxis(usual, _REDUCTIONS[name], made.dtype)
    if axes != {len(given.shape) - 1}:
        return None
    if adds and (given.dtype != made.dtype or given.dtype.char in "egFDG"):
        return None
    return Reduction(usual, _REDUCTIONS[name], made.dtype) if sums_in_order() else None


def _is_short(shape: Shape) -> bool:
    return len(shape) > 1 and 1 < shape[-1] <= MOST_COLUMNS and count(shape[:-1]) >= LEAST_ROWS


def _is_uneven(shapes: list[Shape], made: Shape) -> bool:
    """Return whether NumPy cannot treat the operands as flat arrays, and columns can be taken."""
    if len(shapes) != 2 or not _is_short(made) or not all(shapes):
        return False
    even = all(shape == made or count(shape) == 1 for shape in shapes)
    return not even and any(shape[:-1] == made[:-1] for shape in shapes)


def _column(value: Any, column: int) -> Any:
    return value[..., column if value.shape[-1] > 1 else 0]


@cache
def sums_in_order() -> bool:
    """Return whether this NumPy adds few numbers one after the other, which it does not promise."""
    numbers = np.sin(np.arange(1.0, 7 * 300 + 1)) * 10.0 ** (np.arange(7 * 300) * 7919 % 11)
    for char in "fd":
        for columns in range(2, MOST_COLUMNS + 1):
            x = numbers[: 300 * columns].astype(char).reshape(300, columns)
            x[:3] = -0.0
            found = Reduction(np.sum, np.add, x.dtype)(x, (1,), False)
            if found.tobytes() != np.sum(x, axis=1).tobytes():
                return False
    return True
