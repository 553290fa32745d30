"""What other functions of a session showed: each backend's time over the expected one, by class.

A function that is called for the first time is told by them which backends are hopeless for
calls like its own, long before it has tried one. Pure: no clock, no I/O; guarded by the caller.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import chain
from math import exp, log

from gpuforge.dataclass import dataclass, field
from gpuforge.runtime.placement.evidence import median

KEPT_RATIOS = 48
"""Of one class of operations on one backend, the latest."""
NEAR = log(8.0)
"""Ratios of calls within this factor of the size are asked."""
LEAST_RATIOS = 2
CLASS_SPREAD, ANY_SPREAD = 0.6, 0.9
"""Of what the same class of operations suggests, and of what any other does."""


@dataclass(frozen=True)
class Ratio:
    """One function's measured time on a backend over what was expected there, on logarithms."""

    size: float
    ratio: float
    owner: int


@dataclass
class Peers:
    """The ratios of all functions of one session."""

    _found: dict[str, dict[str, deque[Ratio]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(lambda: deque(maxlen=KEPT_RATIOS)))
    )

    def tell(self, operations: str, backend: str, size: int, ratio: float, owner: int) -> None:
        """Take in that `owner`'s call over `size` elements took `ratio` times the expected."""
        found = Ratio(log(max(size, 1)), log(ratio), owner)
        self._found[backend][operations].append(found)

    def guess(
        self, operations: str, backend: str, size: int, owner: int
    ) -> tuple[float, float] | None:
        """Return the ratio that functions besides `owner` suggest, and its spread."""
        classes = self._found.get(backend)
        if classes is None:
            return None
        place = log(max(size, 1))
        groups = (classes.get(operations, ()), chain(*classes.values()))
        for ratios, spread in zip(groups, (CLASS_SPREAD, ANY_SPREAD), strict=True):
            near = [r.ratio for r in ratios if r.owner != owner and abs(r.size - place) <= NEAR]
            if len(near) >= LEAST_RATIOS:
                return exp(median(near)), spread
        return None


@dataclass(frozen=True)
class Peer:
    """One function among its peers.

    Attributes
    ----------
    operations : the class of operations that it uses
    owner : tells it from the others
    """

    peers: Peers
    operations: str
    owner: int

    def tell(self, backend: str, size: int, ratio: float) -> None:
        """Take in one measured ratio of this function."""
        self.peers.tell(self.operations, backend, size, ratio, self.owner)

    def guess(self, backend: str, size: int) -> tuple[float, float] | None:
        """Return the ratio that the others suggest, and its spread; None where they are silent."""
        return self.peers.guess(self.operations, backend, size, self.owner)
