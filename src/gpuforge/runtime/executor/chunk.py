"""Calls made one after the other, and what came of some calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

CHUNK_SECONDS = 5e-3
"""Single calls are made for so long before the clock is looked at."""
Column = Sequence[np.ndarray[Any, Any]] | np.ndarray[Any, Any]
"""An argument of each item: a sequence of arrays, or one array whose rows they are."""


@dataclass
class Chunk:
    """Some calls that came to their end.

    Attributes
    ----------
    places : where each is among the calls given
    values : what they returned; an exception where one was raised
    errors : place in this chunk to the exception raised there
    """

    places: Sequence[int]
    values: list[Any]
    errors: dict[int, Exception] = field(default_factory=dict)


@dataclass
class Group:
    """Calls of one kind.

    Attributes
    ----------
    places : where they are among the calls given
    columns : the array arguments, each as a sequence over the calls
    call : makes the single call at a place in the group
    arguments : gives the arguments of one
    """

    places: Sequence[int]
    columns: list[Column]
    call: Callable[[int], Any]
    arguments: Callable[[int], tuple[tuple[Any, ...], dict[str, Any]]]


def singly(
    call: Callable[[int], Any], at: int, size: int
) -> tuple[list[Any], dict[int, Exception]]:
    """Make single calls; one that raises leaves its exception in its place."""
    values: list[Any] = []
    errors: dict[int, Exception] = {}
    place, end = at, at + size
    while place < end:
        try:
            while place < end:
                values.append(call(place))
                place += 1
        except Exception as error:  # noqa: BLE001 - it is the user's, and goes to its place
            errors[place - at] = error
            values.append(error)
            place += 1
    return values, errors
