"""Which operations compute rows of their result from the same rows of their inputs.

A *row* is what an array holds at one place of its first axis. Where rows do not depend on each
other, a block of them is computed as NumPy computes the whole, bit for bit. Sums are the exception
that needs care: see `Total`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gpuforge.runtime.array.graph import Entry, Shape
from gpuforge.runtime.array.index import NEW, PLACE
from gpuforge.runtime.array.indexing import ARRAY
from gpuforge.runtime.array.rules import count


class Form(NamedTuple):
    """What a value of a graph looks like; numbers have no dtype."""

    shape: Shape
    dtype: Any


Forms = Mapping[int, Form]
Rule = Callable[[Entry, Forms, int], "set[int] | None"]

LEAST_PRODUCT, MOST_PRODUCT = 1 << 15, 1 << 18
"""Multiplications in one product of many. OpenBLAS computes larger ones on several threads itself;
smaller ones take longer on two threads than on one.

Source: OpenBLAS 0.3.31, ``interface/gemm.c`` (one thread for up to 4 x 65536 multiplications);
NumPy 2.4 on two cores: products of 32 x 32 take 0.6 times as long in blocks, of 16 x 16 2.5 times.
"""


def rows_needed(entry: Entry, forms: Forms, place: int) -> set[int] | None:
    """Return the inputs of which a row of a step's result needs only the same row.

    None if the step needs more than that, or more than blocks of rows can give it in NumPy's order.
    """
    operation = entry[0]
    rule = _RULES.get(operation.name)
    if rule is None and operation.kind == "elementwise" and not operation.raises:
        rule = _elementwise
    return rule(entry, forms, place) if rule is not None else None


def has_rows(form: Form, rank: int, rows: int) -> bool:
    """Return whether an operand has a row for each row of a result, rather than one for all."""
    return len(form.shape) == rank and form.shape[0] == rows


def _elementwise(entry: Entry, forms: Forms, place: int) -> set[int] | None:
    shape = forms[place].shape
    if not shape:
        return None
    return {one for one in entry[1] if has_rows(forms[one], len(shape), shape[0])}


def _reduction(entry: Entry, forms: Forms, place: int) -> set[int] | None:
    one = entry[1][0]
    return {one} if forms[one].shape and 0 not in reduced_axes(entry, forms) else None


def reduced_axes(entry: Entry, forms: Forms) -> set[int]:
    """Return the axes that a reduction reduces."""
    axes, rank = entry[2][0], len(forms[entry[1][0]].shape)
    if axes is None:
        return set(range(rank))
    return {axis % rank for axis in (axes if isinstance(axes, tuple) else (axes,))}


def _along_axis(entry: Entry, forms: Forms, place: int) -> set[int] | None:
    return set(entry[1]) if entry[2][0] % len(forms[place].shape) else None


def _transform(entry: Entry, forms: Forms, place: int) -> set[int] | None:
    axes, rank = entry[2][1], len(forms[place].shape)
    return {entry[1][0]} if all(axis % rank for axis in axes) else None


def _product(entry: Entry, forms: Forms, place: int) -> set[int] | None:
    shape = forms[place].shape
    size = shape[-2] * shape[-1] * forms[entry[1][0]].shape[-1] if len(shape) > 2 else 0
    of_vectors = 1 in shape[-2:]
    if size > MOST_PRODUCT or size < (2 if of_vectors else LEAST_PRODUCT):
        return None
    return {one for one in entry[1] if has_rows(forms[one], len(shape), shape[0])}


def _gather(entry: Entry, forms: Forms, place: int) -> set[int] | None:
    array, *indices = entry[1]
    pattern = entry[2][0]
    if pattern[0] != ARRAY or pattern.count(ARRAY) > 1 or indices[0] == array:
        return None
    return {indices[0]} if forms[indices[0]].shape else None


def _take_along(entry: Entry, forms: Forms, place: int) -> set[int] | None:
    shapes = [forms[one].shape for one in entry[1]]
    alike = len(shapes[0]) == len(shapes[1]) and shapes[0][0] == shapes[1][0]
    return set(entry[1]) if alike and entry[2][0] % len(shapes[0]) else None


def _positions(entry: Entry, forms: Forms, place: int) -> set[int] | None:
    ordered, wanted = entry[1]
    return {wanted} if wanted != ordered and forms[wanted].shape else None


def _reshape(entry: Entry, forms: Forms, place: int) -> set[int] | None:
    before, after = forms[entry[1][0]].shape, forms[place].shape
    return {entry[1][0]} if before and after and before[0] == after[0] else None


def _getitem(entry: Entry, forms: Forms, place: int) -> set[int] | None:
    pattern, shape = entry[2][0], forms[entry[1][0]].shape
    if not shape or not pattern or pattern[0] != (0, shape[0], 1):
        return None
    forwards = all(part in (NEW, PLACE) or part[2] > 0 for part in pattern)
    return {entry[1][0]} if forwards else None


_RULES: dict[str, Rule] = {
    **dict.fromkeys("sum prod max min any all argmax argmin".split(), _reduction),
    **dict.fromkeys("sort argsort unstable_argsort concatenate".split(), _along_axis),
    **dict.fromkeys("fftn ifftn rfftn irfftn".split(), _transform),
    **dict.fromkeys("gather checked_gather".split(), _gather),
    **dict.fromkeys("take_along checked_take_along".split(), _take_along),
    **dict.fromkeys("real imag".split(), _elementwise),
    "matmul": _product,
    "searchsorted": _positions,
    "reshape": _reshape,
    "getitem": _getitem,
}
VIEWS = frozenset("real imag reshape getitem".split())
"""Those whose result shares the memory of its input: computing them twice costs nothing."""
WITH_OUT = frozenset("sum prod max min any all fftn ifftn rfftn irfftn".split())
"""Those whose functions take an array for the result, as universal functions do."""


def is_strided(entry: Entry, forms: Forms, place: int) -> bool:
    """Return whether a view may leave out elements between those that it shows."""
    name = entry[0].name
    if name == "getitem":
        return count(forms[place].shape) != count(forms[entry[1][0]].shape)
    return name in ("real", "imag")


def params_of_block(entry: Entry, length: int) -> tuple[Any, ...]:
    """Return the parameters of a step for a block of `length` rows."""
    if entry[0].name == "reshape":
        return ((length, *entry[2][0][1:]),)
    return entry[2]


# -- totals --------------------------------------------------------------------------------------


class Total(Enum):
    """How the results of a reduction over blocks of rows become that over all rows.

    `IN_ANY_ORDER`: extremes, truth and sums of integers do not depend on the order.

    `IN_HALVES`: NumPy sums floating-point numbers that lie one after the other in halves, each of
    which it halves again (`halved`). The sum is the same if the halves are summed elsewhere.

    `IN_ORDER`: NumPy adds the sums of pieces of rows (`bins.PIECE`) one after the other.
    """

    IN_ANY_ORDER = "in any order"
    IN_HALVES = "in halves"
    IN_ORDER = "in order"


COMBINING: dict[str, np.ufunc] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
    "any": np.logical_or, "all": np.logical_and, "count": np.add, "histogram": np.add,
    "weighted_histogram": np.add,
}  # fmt: skip
BINNED: dict[str, Total] = {"histogram": Total.IN_ANY_ORDER, "weighted_histogram": Total.IN_ORDER}
"""Those that divide all rows into bins, which the last input tells them apart."""
MOST_TOTAL_BYTES = 1 << 16
"""Larger results of blocks take too long to combine."""
SUMMED_AT_ONCE = 128
"""NumPy does not halve what is shorter: ``PW_BLOCKSIZE`` in its ``loops_utils.h.src``."""


def total_of(entry: Entry, forms: Forms, place: int) -> Total | None:
    """Return how a reduction over rows can be computed from blocks of them; None if it cannot."""
    name = entry[0].name
    if name not in COMBINING:
        return None
    given, made = forms[entry[1][0]], forms[place]
    axes = {0} if name in BINNED else reduced_axes(entry, forms)
    if 0 not in axes or count(made.shape) * made.dtype.itemsize > MOST_TOTAL_BYTES:
        return None
    if name in BINNED:
        return BINNED[name]
    if name not in ("sum", "prod") or made.dtype.kind in "iu":
        return Total.IN_ANY_ORDER
    if name == "sum" and made.dtype.char in "fdFD" and len(axes) == len(given.shape):
        return Total.IN_HALVES if sums_in_halves() else None
    return None


def totalled(entry: Entry) -> set[int]:
    """Return the inputs of which a reduction over rows needs each row once."""
    return set(entry[1][:-1] if entry[0].name in BINNED else entry[1][:1])


def halved(length: int, dtype: Any) -> int:
    """Return how many of `length` numbers NumPy puts into the first half; 0 if it sums them all."""
    parts = 2 if dtype.kind == "c" else 1
    if length * parts <= SUMMED_AT_ONCE:
        return 0
    half = length * parts // 2
    return (half - half % 8) // parts


def bounds(begin: int, end: int, depth: int, dtype: Any) -> list[int]:
    """Return where the parts end that NumPy sums if it halves numbers `depth` times."""
    half = halved(end - begin, dtype) if depth else 0
    if not half:
        return [end]
    middle = begin + half
    return [*bounds(begin, middle, depth - 1, dtype), *bounds(middle, end, depth - 1, dtype)]


def sum_of_parts(parts: list[Any], length: int, depth: int, dtype: Any) -> Any:
    """Return the sum of the sums of `bounds`, which this takes off the front of the list."""
    half = halved(length, dtype) if depth else 0
    if not half:
        return parts.pop(0)
    left = sum_of_parts(parts, half, depth - 1, dtype)
    return np.add(left, sum_of_parts(parts, length - half, depth - 1, dtype))


@cache
def sums_in_halves() -> bool:
    """Return whether this NumPy adds in the order above, which it does not promise."""
    scales = 10.0 ** (np.arange(5003) * 7919 % 11)
    for char in "fdFD":
        numbers = (np.sin(np.arange(5003.0)) * scales).astype(char)
        ends = [0, *bounds(0, len(numbers), 3, numbers.dtype)]
        parts = [np.sum(numbers[a:b]) for a, b in pairwise(ends)]
        if sum_of_parts(parts, len(numbers), 3, numbers.dtype) != np.sum(numbers):
            return False
    return True


# -- work ----------------------------------------------------------------------------------------

_WORK = {"sort": 8, "transform": 4, "contraction": 4, "gather": 16}
_SLOW = frozenset(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh"
    " arccosh arctanh arctan2 hypot power float_power logaddexp logaddexp2 cbrt fmod remainder"
    " floor_divide histogram weighted_histogram".split()
)
_SLOW_WORK = 8


def work_of(entry: Entry) -> int:
    """Return how long a step takes for each byte of its arrays, in times of an addition.

    Source: arrays of 8 MB on an AMD EPYC of family 25, NumPy 2.4, the least of each class rounded
    down. Slow functions take 9 (log) to 32 times as long as an addition, sorts 10 (argsort 60),
    transforms 4, products 4 to 12, gathers 18.
    """
    name, kind = entry[0].name, entry[0].kind
    if name in VIEWS:
        return 0
    return _SLOW_WORK if name in _SLOW else _WORK.get(kind, 1)
