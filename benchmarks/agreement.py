"""Whether the result of a whole kernel, and what it wrote into its arguments, are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

TOLERANCE = {"float32": 2e-5, "complex64": 2e-5}
PRECISE, CLOSE = 1e-11, 1e-5


def compare(expected: Any, found: Any) -> dict[str, Any]:
    """Return whether a result and the given arrays are NumPy's, and the worst relative error."""
    try:
        error, tolerated = worst(expected, found)
    except ValueError as difference:
        return {"equal": False, "close": False, "error": None, "difference": str(difference)}
    return {"equal": tolerated, "close": error <= CLOSE, "error": error, "difference": ""}


def worst(expected: Any, found: Any) -> tuple[float, bool]:
    """Return the worst error of any value, and whether all are within their tolerance."""
    if isinstance(expected, tuple | list):
        if type(expected) is not type(found) or len(expected) != len(found):
            raise ValueError(f"{type(found).__name__} where NumPy gives {type(expected).__name__}")
        parts = [worst(e, f) for e, f in zip(expected, found, strict=True)]
        return max((p[0] for p in parts), default=0.0), all(p[1] for p in parts)
    if isinstance(expected, dict) and isinstance(found, dict) and list(expected) == list(found):
        return worst(list(expected.values()), list(found.values()))
    if type(expected) is not type(found):
        raise ValueError(f"{type(found).__name__} where NumPy gives {type(expected).__name__}")
    return worst_value(expected, found) if expected is not None else (0.0, True)


def worst_value(expected: Any, found: Any) -> tuple[float, bool]:
    left, right = np.asarray(expected), np.asarray(found)
    if left.shape != right.shape or left.dtype != right.dtype:
        raise ValueError(f"{right.dtype}{right.shape} where NumPy gives {left.dtype}{left.shape}")
    if left.dtype.kind not in "fc":
        if wrong := int(np.count_nonzero(left != right)):
            raise ValueError(f"{wrong} of {left.size} values differ")
        return 0.0, True
    finite = np.isfinite(left)
    if not np.array_equal(left[~finite], right[~finite], equal_nan=True):
        raise ValueError("NaN or infinities are elsewhere")
    if not np.isfinite(right[finite]).all():
        raise ValueError("NaN or infinity where NumPy gives a number")
    if not finite.any():
        return 0.0, True
    scale = float(np.abs(left[finite]).max()) or 1.0
    error = float(np.abs(left[finite] - right[finite]).max()) / scale
    return error, error <= TOLERANCE.get(left.dtype.name, PRECISE)
