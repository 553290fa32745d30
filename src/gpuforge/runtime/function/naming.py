"""The names of users' functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any


def name_of(function: Callable[..., Any]) -> str:
    """Return ``module.qualname`` of a function, or of what a partial wraps."""
    while isinstance(function, partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', '?')}.{named.__qualname__}"
