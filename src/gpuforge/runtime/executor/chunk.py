"""Groups of calls, single calls in a row, and their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

UNENDING = 1 << 30
CHUNK_SECONDS = 5e-3
"""Single calls run for this long between checks of the clock."""
Column = Sequence[np.ndarray[Any, Any]] | np.ndarray[Any, Any]
"""One argument of all items: a sequence of arrays, or one array whose rows they are."""


@dataclass
class Chunk:
    """The results of some calls.

    Attributes
    ----------
    places : index of each among all calls
    values : return values; an exception where one was raised
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
    function : makes one call
    places : their indices among all calls
    items : the arguments, each the only one of a call
    spread : whether an item holds all positional and keyword arguments instead
    columns : the array arguments, each as a sequence over the calls; empty unless the calls are
        known to be of one kind
    """

    function: Callable[..., Any]
    places: Sequence[int]
    items: Sequence[Any]
    spread: bool = False
    columns: Sequence[Column] = ()

    def arguments(self, at: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of one call."""
        return self.items[at] if self.spread else ((self.items[at],), {})

    def singly(
        self, at: int, size: int, function: Callable[..., Any] | None = None,
        *, step: int = UNENDING, until: float = inf,
    ) -> tuple[list[Any], dict[int, Exception]]:  # fmt: skip
        """Make single calls; one that raises leaves its exception in its place.

        `function` replaces the group's if the choice is known. The clock is checked every `step`
        calls, and no call starts after `until`.
        """
        call = function or self.function
        values: list[Any] = []
        errors: dict[int, Exception] = {}
        while len(values) < size and (not values or perf_counter() < until):
            first = at + len(values)
            rest = self.items[first : min(first + step, at + size)]
            try:
                if self.spread:
                    for args, kwargs in rest:
                        values.append(call(*args, **kwargs))
                else:
                    for item in rest:
                        values.append(call(item))  # noqa: PERF401 - how many there are is told
            except Exception as error:  # noqa: BLE001 - it is the user's, and goes to its place
                errors[len(values)] = error
                values.append(error)
        return values, errors
