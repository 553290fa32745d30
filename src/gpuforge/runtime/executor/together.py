"""Calls of one signature that are made together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """How one call ended: its value, or the exception that it raised."""

    value: Any = None
    error: BaseException | None = None


def call_together(
    function: Callable[..., Any], calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]
) -> list[Result]:
    """Make the calls one after another, and return how each ended."""
    return [_call(function, args, kwargs) for args, kwargs in calls]


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
    try:
        return Result(function(*args, **kwargs))
    except BaseException as error:  # noqa: BLE001 - it is the result of this call alone
        return Result(error=error)
