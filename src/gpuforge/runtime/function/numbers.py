"""Whole numbers among the arguments that keep changing, such as the number of a step.

A whole number may say how much there is to compute, so calls with different ones have different
signatures. Where nearly every call brings a new one, no decision would ever be cached. Calls that
differ only in such a number therefore share one signature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuforge.runtime.function.key import Place

VALUES, CALLS_EACH, MANY_VALUES = 24, 6, 500
"""A number keeps changing once it had the first many values, each in the second many calls on
average at most, or the third many values. Calls under cached decisions do not count."""


class Numbers:
    """The whole numbers that a function was called with.

    Attributes
    ----------
    changing : positions and names of the arguments whose numbers keep changing
    """

    def __init__(self) -> None:
        self.changing: frozenset[Place] = frozenset()
        self._values: dict[Place, set[int]] = {}
        self._calls: dict[Place, int] = {}

    def note(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Note the numbers of a call; return whether another argument keeps changing from now."""
        before = self.changing
        placed: list[tuple[Place, Any]] = [*enumerate(args), *kwargs.items()]
        for place, value in placed:
            if type(value) is int and place not in self.changing:
                values = self._values.setdefault(place, set())
                values.add(value)
                calls = self._calls[place] = self._calls.get(place, 0) + 1
                found = len(values)
                if (found >= VALUES and calls <= CALLS_EACH * found) or found >= MANY_VALUES:
                    self.changing |= {place}
                    self._values.pop(place, None)
        return self.changing is not before

    def text(self) -> str:
        """Return what `recall` needs to know in later processes."""
        return " ".join(sorted(map(str, self.changing)))

    def recall(self, text: str) -> None:
        """Take over what another process found to keep changing."""
        self.changing = frozenset(int(one) if one.isdecimal() else one for one in text.split())
