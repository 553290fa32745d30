"""Whole numbers among the arguments that keep changing, such as the number of a step.

A whole number may say how much there is to compute, so calls with different ones have different
signatures. Where nearly every call brings a new one, no decision would ever be cached. Calls that
differ only in such a number therefore share one signature.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuforge.runtime.function.key import Place

VALUES, CALLS_EACH = 24, 6
"""A number keeps changing once it had this many values, each in this many calls on average at most.
Calls under cached decisions do not count."""


class Numbers:
    """The whole numbers that a function was called with.

    Attributes
    ----------
    changing : positions and names of the arguments whose numbers keep changing
    """

    def __init__(self) -> None:
        self.changing: frozenset[Place] = frozenset()
        self._seen: dict[Place, Counter[int]] = {}

    def note(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Note the numbers of a call; return whether another argument keeps changing from now."""
        before = self.changing
        for place, value in _placed(args, kwargs):
            if type(value) is int and place not in self.changing:
                seen = self._seen.setdefault(place, Counter())
                seen[value] += 1
                if len(seen) >= VALUES and seen.total() <= CALLS_EACH * len(seen):
                    self.changing |= {place}
                    self._seen.pop(place, None)
        return self.changing is not before

    def text(self) -> str:
        """Return what `recall` needs to know in later processes."""
        return " ".join(sorted(map(str, self.changing)))

    def recall(self, text: str) -> None:
        """Take over what another process found to keep changing."""
        self.changing = frozenset(int(one) if one.isdigit() else one for one in text.split())


def _placed(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    yield from enumerate(args)
    yield from kwargs.items()
