"""What a call gave, and how what an offloaded call gave differs from it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

TOLERANCE = {"f4": 1e-4, "c8": 1e-4, "f8": 1e-9, "c16": 1e-9}
"""Relative to the largest finite number of the expected array; that of the least precise dtype
among it and the arguments, since a result of float64 may come from steps in float32."""
CANCELLED = 1e-4
"""Of the tolerance, relative to the largest argument: what is left where terms cancel."""


@dataclass
class Outcome:
    """A result or an exception, the arguments afterwards, the warnings meanwhile."""

    result: Any = None
    error: Exception | None = None
    arguments: tuple[Any, ...] = ()
    warned: set[str] = field(default_factory=set)


class Scale(NamedTuple):
    """Of the arguments: their largest finite magnitude, the tolerance of their dtypes."""

    size: float = 0.0
    tolerance: float = 0.0


def copied(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
    """Call `function` on a copy of `arguments` and keep all that can be seen of the call."""
    given = copied(arguments)
    found = Outcome(arguments=given)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found.result = function(*given)
        except Exception as error:  # noqa: BLE001 - exceptions are compared too
            found.error = error
    found.warned = {str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)}
    return found


def difference(expected: Outcome, found: Outcome, arguments: tuple[Any, ...]) -> str:
    """Return how two outcomes differ in what counts; empty when they do not."""
    if expected.error or found.error:
        left, right = (describe_error(o) for o in (expected, found))
        return "" if left == right else f"{left} expected, {right} found"
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    scale = Scale(largest(arrays), max([0.0, *map(tolerance_of, arrays)]))
    return unlike(expected.result, found.result, scale) or next(
        (
            f"argument {i} afterwards: {text}"
            for i, (left, right) in enumerate(zip(expected.arguments, found.arguments, strict=True))
            if (text := unlike(left, right, scale))
        ),
        "",
    )


def describe_error(outcome: Outcome) -> str:
    if outcome.error is None:
        return "a result"
    return f"{type(outcome.error).__name__}: {str(outcome.error)[:200]}"


def unlike(expected: Any, found: Any, scale: Scale) -> str:
    """Return how two values differ in type, dtype, shape or values; empty when they do not."""
    if type(expected) is not type(found):
        return f"{type(expected).__name__} expected, {type(found).__name__} found"
    if isinstance(expected, dict):
        if list(expected) != list(found):
            return f"keys {list(expected)} expected, {list(found)} found"
        return unlike(tuple(expected.values()), tuple(found.values()), scale)
    if isinstance(expected, tuple | list):
        if len(expected) != len(found):
            return f"{len(expected)} results expected, {len(found)} found"
        texts = (unlike(*pair, scale) for pair in zip(expected, found, strict=True))
        return next((f"result {i}: {text}" for i, text in enumerate(texts) if text), "")
    if isinstance(expected, np.ndarray | np.generic):
        return unlike_arrays(expected, found, scale)
    if isinstance(expected, float):
        return unlike_arrays(np.asarray(expected), np.asarray(found), scale)
    return "" if expected == found else f"{expected!r} expected, {found!r} found"


def unlike_arrays(expected: Any, found: Any, scale: Scale) -> str:
    if expected.dtype != found.dtype:
        return f"{expected.dtype} expected, {found.dtype} found"
    if expected.shape != found.shape:
        return f"shape {expected.shape} expected, {found.shape} found"
    if expected.dtype.kind in "fc":
        tolerance = max(tolerance_of(expected), scale.tolerance)
        near = tolerance * (largest([expected]) + CANCELLED * scale.size)
        with np.errstate(all="ignore"):
            parts = ((expected.real, found.real), (expected.imag, found.imag))
            same = np.logical_and(*(alike(*part, near) for part in parts))
    else:
        same = np.asarray(expected == found)
    if same.all():
        return ""
    first = int(np.flatnonzero(~np.atleast_1d(same).reshape(-1))[0])
    left, right = (np.asarray(a).reshape(-1)[first] for a in (expected, found))
    return (
        f"{np.size(same) - same.sum()} of {np.size(same)} differ, first {left!r}, found {right!r}"
    )


def tolerance_of(array: Any) -> float:
    return TOLERANCE.get(array.dtype.str[1:], 0.0)


def alike(expected: Any, found: Any, near: float) -> Any:
    """Tell for each real number whether it is the same, or nearly."""
    exactly = (expected == found) | (np.isnan(expected) & np.isnan(found))
    return exactly | (np.isfinite(expected) & (np.abs(expected - found) <= near))


def largest(arrays: list[Any]) -> float:
    """Return the largest finite magnitude in `arrays`."""
    found = 0.0
    for array in arrays:
        with np.errstate(all="ignore"):
            sizes = np.abs(np.asarray(array))
        finite = sizes[np.isfinite(sizes)]
        found = max(found, float(finite.max())) if finite.size else found
    return found
