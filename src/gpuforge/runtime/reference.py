"""NumPy is the reference: whether another result agrees with its own."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-11, "longdouble": 1e-11}
"""Relative to the larger of the two values, but not to less than a share of the largest value of
the result: a thousandth, or all of it where sums of many terms may cancel. About 100 roundings."""
CANCELLING = 1.0
ELEMENTWISE = 1e-3


def _dtype_text(array: Array, dtype: str) -> str:
    return f"dtype {array.dtype} where NumPy gives {np.dtype(dtype)}"


def compare(expected: Array, found: Array, floor: float = ELEMENTWISE) -> str:
    """Return how `found` differs from NumPy's `expected` beyond rounding; empty if it agrees.

    `floor` is the share of the largest value that errors are measured against at least.
    """
    return _compare_arrays(expected, found, floor)


def _compare_arrays(expected: Array, found: Array, floor: float) -> str:
    if expected.shape != found.shape:
        return f"shape {found.shape} where NumPy gives {expected.shape}"
    if expected.dtype != found.dtype:
        return _dtype_text(found, expected.dtype.str)
    if expected.dtype.kind == "c":
        size = np.maximum(_sizes(expected.real), _sizes(expected.imag))
        parts = ((expected.real, found.real), (expected.imag, found.imag))
        return next((text for e, f in parts if (text := _compare_floats(e, f, floor, size))), "")
    if expected.dtype.kind != "f":
        wrong = np.count_nonzero(expected != found)
        return f"{wrong} of {expected.size} values differ from NumPy's" if wrong else ""
    return _compare_floats(expected, found, floor)


def _sizes(values: Array) -> Array:
    """Return the sizes of real numbers, zero for those that are not finite."""
    return np.where(np.isfinite(values), np.abs(values), 0)


def _compare_floats(expected: Array, found: Array, floor: float, size: Array | None = None) -> str:
    """Compare real numbers, or one part of complex ones, of which `size` is the larger part."""
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(found)):
        return "NaN or infinity where NumPy gives a number, or the reverse"
    if not np.array_equal(expected[~finite], found[~finite], equal_nan=True):
        return "NaN and infinities are not NumPy's"
    left, right = expected[finite], found[finite]
    if not left.size:
        return ""
    with np.errstate(all="ignore"):
        tolerance = TOLERANCE[left.dtype.name]
        scale = np.maximum(np.abs(left) if size is None else size[finite], np.abs(right))
        error = np.abs(left - right) / np.maximum(scale, scale.max() * floor or 1)
        worst = float(error.max())
    return f"values differ from NumPy's by {worst:.2g} of their size" if worst > tolerance else ""
