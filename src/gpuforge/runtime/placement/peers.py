"""Measured over expected time of each backend, by class of operations, across a session.

From these ratios a function that is called for the first time learns which backends are hopeless
for calls like its own, long before it has tried one. Pure: no clock, no I/O; the caller locks.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import chain
from math import exp, log

from gpuforge.dataclass import dataclass, field
from gpuforge.runtime.placement.evidence import median

KEPT_RATIOS = 48
"""Number of ratios kept per class of operations and backend, the latest ones."""
NEAR = log(8.0)
"""Only ratios of calls within this factor of the size are used."""
LEAST_RATIOS = 2
CLASS_SPREAD, ANY_SPREAD = 0.6, 0.9
"""Spread of a guess from the same class of operations, and from any class."""


@dataclass(frozen=True)
class Ratio:
    """A function's measured time on a backend relative to the expected one, as a logarithm."""

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
        """Record that `owner`'s call over `size` elements took `ratio` times the expected time."""
        found = Ratio(log(max(size, 1)), log(ratio), owner)
        self._found[backend][operations].append(found)

    def guess(
        self, operations: str, backend: str, size: int, owner: int
    ) -> tuple[float, float] | None:
        """Return the ratio that functions other than `owner` suggest, and its spread."""
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
    operations : its class of operations
    owner : identifies it among its peers
    """

    peers: Peers
    operations: str
    owner: int

    def tell(self, backend: str, size: int, ratio: float) -> None:
        """Record one measured ratio of this function."""
        self.peers.tell(self.operations, backend, size, ratio, self.owner)

    def guess(self, backend: str, size: int) -> tuple[float, float] | None:
        """Return the ratio that its peers suggest, and its spread; None if they suggest none."""
        return self.peers.guess(self.operations, backend, size, self.owner)
