"""Values of a profile as portable JSON: no NaN, lone surrogates or overlong names.

Attributes and names come from the profiled program and may be anything.
"""

from __future__ import annotations

import json
import math
from typing import Any

from gpuforge.profiler.names import text

DEEPEST = 16


def clean(value: Any, depth: int = 0) -> Any:
    """Return `value` converted to JSON types.

    Numbers that are not finite become None, long texts are truncated (`names.text`), and values of
    other types become text.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict | list | tuple) and depth == DEEPEST:
        return "…"
    if isinstance(value, dict):
        return {text(key): clean(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [clean(inner, depth + 1) for inner in value]
    return text(value)


def dump(value: Any) -> str:
    """Return cleaned `value` as one JSON document."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
