"""NumPy is the reference: what its result looked like, and whether another one agrees with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuforge.runtime.structure import LEAF, Spec, flatten, map_leaves

Array = np.ndarray[Any, Any]

TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-11, "longdouble": 1e-11}
"""Relative to the larger of the two values, but not to less than a share of the largest value of
the result: a thousandth, or all of it where sums of many terms may cancel. About 100 roundings."""
CANCELLING = 1.0
ELEMENTWISE = 1e-3


class Disagreement(Exception):
    """A backend's result is not NumPy's: another structure, dtype, kind or value."""


@dataclass(frozen=True)
class Template:
    """What NumPy's result of one kind of call looks like.

    Attributes
    ----------
    spec : its nesting and static values
    kinds : per leaf, its class and dtype
    same : per leaf, the place of the argument leaf that it is, or -1
    """

    spec: Spec
    kinds: tuple[tuple[str, str], ...]
    same: tuple[int, ...]

    @property
    def simple(self) -> bool:
        """Whether the result is one new array, the most frequent case."""
        return self.spec == LEAF and self.kinds[0][0] == "array" and self.same == (-1,)


def describe(result: Any, arguments: tuple[Any, ...]) -> Template | str:
    """Return what NumPy's `result` looks like, or why no other backend can make one like it."""
    leaves: list[Any] = []
    spec = flatten(result, leaves)
    kinds, same = [], []
    for leaf in leaves:
        kind = _kind(leaf)
        if kind is None:
            return f"the result holds a {type(leaf).__name__}, which only Python can make"
        kinds.append(kind)
        same.append(next((i for i, given in enumerate(arguments) if given is leaf), -1))
    return Template(spec, tuple(kinds), tuple(same))


def _kind(leaf: Any) -> tuple[str, str] | None:
    if type(leaf) is np.ndarray and leaf.dtype.kind in "biufc":
        return "array", leaf.dtype.str
    if isinstance(leaf, np.generic) and leaf.dtype.kind in "biufc":
        return "scalar", leaf.dtype.str
    return ("python", type(leaf).__name__) if type(leaf) in (float, complex) else None


def restore(
    template: Template,
    result: Any,
    arguments: tuple[Any, ...],
    is_array: Callable[[Any], bool],
    get: Callable[[Any], Array],
) -> Any:
    """Return `result` of a backend as NumPy would have made it.

    Raises
    ------
    Disagreement
        If its structure, dtypes or kinds are not those of `template`.
    """
    if template.simple and is_array(result):
        return _typed(get(result), template.kinds[0][1])
    leaves: list[Any] = []
    spec = flatten(result, leaves)
    if spec != template.spec or len(leaves) != len(template.kinds):
        raise Disagreement("the result has another structure than NumPy's")
    return map_leaves(
        spec,
        list(_restored(template, leaves, arguments, is_array, get)),
        lambda leaf: leaf,
    )


def _restored(
    template: Template,
    leaves: list[Any],
    arguments: tuple[Any, ...],
    is_array: Callable[[Any], bool],
    get: Callable[[Any], Array],
) -> list[Any]:
    made: list[Any] = []
    for leaf, (kind, dtype), same in zip(leaves, template.kinds, template.same, strict=True):
        if same >= 0:
            made.append(arguments[same])
        elif kind == "python":
            if type(leaf).__name__ != dtype:
                raise Disagreement(f"a {type(leaf).__name__} where NumPy gives a {dtype}")
            made.append(leaf)
        else:
            array = _typed(get(leaf) if is_array(leaf) else np.asarray(leaf), dtype)
            made.append(array[()] if kind == "scalar" else array)
    return made


def _typed(array: Array, dtype: str) -> Array:
    """Return `array` with NumPy's own type of `dtype`: C has two whole numbers of 64 bits."""
    wanted = np.dtype(dtype)
    if array.dtype is wanted:
        return array
    if array.dtype.str != dtype:
        raise Disagreement(_dtype_text(array, dtype))
    return array.view(wanted)


def _dtype_text(array: Array, dtype: str) -> str:
    return f"dtype {array.dtype} where NumPy gives {np.dtype(dtype)}"


def compare(expected: Any, found: Any, floor: float = ELEMENTWISE) -> str:
    """Return how `found` differs from NumPy's `expected` beyond rounding; empty if it agrees.

    `floor` is the share of the largest value that errors are measured against at least.
    """
    wanted: list[Any] = []
    given: list[Any] = []
    if flatten(expected, wanted) != flatten(found, given) or len(wanted) != len(given):
        return "the result has another structure than NumPy's"
    for left, right in zip(wanted, given, strict=True):
        if left is right:
            continue
        difference = _compare_arrays(np.asarray(left), np.asarray(right), floor)
        if difference:
            return difference
    return ""


def _compare_arrays(expected: Array, found: Array, floor: float) -> str:
    if expected.shape != found.shape:
        return f"shape {found.shape} where NumPy gives {expected.shape}"
    if expected.dtype != found.dtype:
        return _dtype_text(found, expected.dtype.str)
    if expected.dtype.kind == "c":
        parts = ((expected.real, found.real), (expected.imag, found.imag))
        return next((text for e, f in parts if (text := _compare_arrays(e, f, floor))), "")
    if expected.dtype.kind != "f":
        wrong = np.count_nonzero(expected != found)
        return f"{wrong} of {expected.size} values differ from NumPy's" if wrong else ""
    return _compare_floats(expected, found, floor)


def _compare_floats(expected: Array, found: Array, floor: float) -> str:
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(found)):
        return "NaN or infinity where NumPy gives a number, or the reverse"
    if not np.array_equal(expected[~finite], found[~finite], equal_nan=True):
        return "NaN and infinities are not NumPy's"
    left, right = expected[finite], found[finite]
    zeros = (left == 0) & (right == 0)
    if not np.array_equal(np.signbit(left[zeros]), np.signbit(right[zeros])):
        return "zeros have another sign than NumPy's"
    if not left.size:
        return ""
    with np.errstate(all="ignore"):
        tolerance = TOLERANCE[left.dtype.name]
        scale = np.maximum(np.abs(left), np.abs(right))
        error = np.abs(left - right) / np.maximum(scale, scale.max() * floor or 1)
        worst = float(error.max())
    return f"values differ from NumPy's by {worst:.2g} of their size" if worst > tolerance else ""
