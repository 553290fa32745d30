"""Compare a backend's result with NumPy's, which is the reference."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

TOLERANCE = {"e": 2e-3, "f": 2e-5, "d": 1e-11, "g": 1e-11}
"""For each size of float, by its character, since the name of a long double depends on the machine.
Relative to the larger of the two values, but at least to a share of the result's largest value:
a thousandth, a twentieth where two terms may cancel, or all of it where many may. For float32,
these are some 170 roundings of the values themselves, and 8 of the largest where two terms cancel.
"""
_SAMPLED = 1 << 19
"""Larger results are compared by a sample: comparing all elements would take 10 ms, longer than
several calls."""
_PIECE = 1 << 15
"""Elements compared at a time: they and the temporaries fit into a cache."""
CANCELLING, ADDING, ELEMENTWISE = 1.0, 0.05, 1e-3


def _dtype_text(array: Array, dtype: str) -> str:
    return f"dtype {array.dtype} where NumPy gives {np.dtype(dtype)}"


def compare(expected: Array, found: Array, floor: float = ELEMENTWISE) -> str:
    """Return how `found` differs from NumPy's `expected` beyond rounding; empty if it agrees.

    `floor` is the least scale for errors, as a share of the largest value.
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
    if expected.size > _SAMPLED and expected.flags.c_contiguous and found.flags.c_contiguous:
        expected, found = _sample(expected), _sample(found)
    if expected.dtype.kind == "f" and _nearly_equal(expected, found, floor):
        return ""
    if expected.dtype.kind != "f":
        wrong = np.count_nonzero(expected != found)
        return f"{wrong} of {expected.size} values differ from NumPy's" if wrong else ""
    return _compare_floats(expected, found, floor)


def _sample(array: Array) -> Array:
    """Return a sample of a large array: both ends and a regular selection between."""
    flat = array.reshape(-1)
    every = flat.size // _SAMPLED * 2 + 1  # odd: not always the same column
    return np.concatenate([flat[:_PIECE], flat[::every], flat[-_PIECE:]])


def _nearly_equal(expected: Array, found: Array, floor: float) -> bool:
    """Return whether real numbers are all finite and agree, one piece at a time."""
    pieces = [(one[at : at + _PIECE], two[at : at + _PIECE])
              for one, two in [(expected.reshape(-1), found.reshape(-1))]
              for at in range(0, one.size, _PIECE)]  # fmt: skip
    with np.errstate(all="ignore"):
        largest = max(
            (max(abs(float(f(v))) for v in piece for f in (np.max, np.min)) for piece in pieces),
            default=0.0,
        )
        if not isfinite(largest):
            return False
        least = largest * floor or 1.0
        tolerance = TOLERANCE[expected.dtype.char]
        for one, two in pieces:
            error = np.abs(one - two)
            scale = np.maximum(np.maximum(np.abs(one), np.abs(two)), least)
            if not np.all(error <= tolerance * scale):
                return False
    return True


def _sizes(values: Array) -> Array:
    """Return the absolute values of real numbers, zero for those that are not finite."""
    return np.where(np.isfinite(values), np.abs(values), 0)


def _compare_floats(expected: Array, found: Array, floor: float, size: Array | None = None) -> str:
    """Compare real numbers, or one part of complex ones whose larger part is `size`."""
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(found)):
        return "NaN or infinity where NumPy gives a number, or vice versa"
    if not np.array_equal(expected[~finite], found[~finite], equal_nan=True):
        return "NaN and infinities differ from NumPy's"
    left, right = expected[finite], found[finite]
    if not left.size:
        return ""
    with np.errstate(all="ignore"):
        tolerance = TOLERANCE[left.dtype.char]
        scale = np.maximum(np.abs(left) if size is None else size[finite], np.abs(right))
        error = np.abs(left - right) / np.maximum(scale, scale.max() * floor or 1)
        worst = float(error.max())
    return f"values differ from NumPy's by a relative {worst:.2g}" if worst > tolerance else ""
