"""Mapping, splitting, joining and comparing nested tuples, lists and dictionaries of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return `value` with `change` applied to each leaf: all but tuples, lists and mappings."""
    if isinstance(value, tuple):
        items = [mapped(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [mapped(item, change) for item in value]
    if isinstance(value, Mapping):
        return {key: mapped(item, change) for key, item in value.items()}
    return change(value)


def leaves(value: Any) -> Iterator[Any]:
    """Yield the leaves of `value`."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def arrays(value: Any) -> list[Any]:
    """Return the arrays in `value` that have a first axis."""
    return [leaf for leaf in leaves(value) if isinstance(leaf, np.ndarray) and leaf.ndim]


def length(value: Any) -> int | None:
    """Return the common number of items of the arrays in `value`; None if they differ."""
    lengths = {array.shape[0] for array in arrays(value)}
    return lengths.pop() if len(lengths) == 1 else None


def part(value: Any, items: slice) -> Any:
    """Return `value` with its arrays sliced along the first axis."""
    return mapped(value, lambda leaf: leaf[items] if _has_items(leaf) else leaf)


def joined(parts: list[Any]) -> Any:
    """Return the results of several parts as one, with their arrays concatenated."""
    flat = [list(leaves(one)) for one in parts]
    made = iter(
        np.concatenate(column) if _has_items(column[0]) else column[0]
        for column in map(list, zip(*flat, strict=True))
    )
    return mapped(parts[0], lambda _: next(made))


def padded(value: Any, size: int) -> Any:
    """Return `value` with its arrays padded to `size` items by repeating the last one."""

    def fill(leaf: Any) -> Any:
        if not _has_items(leaf):
            return leaf
        return np.concatenate([leaf, np.repeat(leaf[-1:], size - leaf.shape[0], axis=0)])

    return mapped(value, fill)


def difference(expected: Any, found: Any) -> float:
    """Return the largest difference relative to the largest magnitude of each expected array.

    Infinite if structures, shapes, dtypes, integers or the places of NaN and infinities differ.
    """
    left, right = list(leaves(expected)), list(leaves(found))
    if len(left) != len(right):
        return float("inf")
    return max((_difference(a, b) for a, b in zip(left, right, strict=True)), default=0.0)


def _difference(expected: Any, found: Any) -> float:
    if not isinstance(expected, np.ndarray):
        return 0.0 if type(expected) is type(found) and expected == found else float("inf")
    if not isinstance(found, np.ndarray) or expected.shape != found.shape:
        return float("inf")
    if expected.dtype != found.dtype:
        return float("inf")
    if expected.dtype.kind not in "fc":
        return 0.0 if np.array_equal(expected, found) else float("inf")
    finite = np.isfinite(expected)
    if not np.array_equal(expected[~finite], found[~finite], equal_nan=True):
        return float("inf")
    if not np.isfinite(found[finite]).all():
        return float("inf")
    largest = float(np.abs(expected[finite]).max(initial=0.0)) or 1.0
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    apart = np.abs(found[finite].astype(wide) - expected[finite].astype(wide))
    return float(apart.max(initial=0.0)) / largest


def _has_items(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.ndim > 0
