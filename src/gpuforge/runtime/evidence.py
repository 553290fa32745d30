"""What has been measured: samples of a signature on a backend, and estimates that rest on them.

A *kind* of call is one function with one structure and dtypes of arguments; a *signature* is a
kind with its exact shapes. Samples are wall seconds of whole placed calls, transfers and waiting
included, the first call on a backend left out. Nothing here reads a clock or a file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from math import exp, log, sqrt
from statistics import median

KEPT_SAMPLES = 9
WORST_RATE = 5.0
BETWEEN_LOW = 0.6
"""Between two measured sizes the time is at best this share of the interpolated one."""


@dataclass
class Cell:
    """The samples of one signature on one backend.

    Attributes
    ----------
    seconds : the last `KEPT_SAMPLES` samples
    count : how many were taken in all, also by other processes
    missed_seconds : what this backend would have saved so far, had it run every call here
    idle_seconds : busy time of this signature since the last sample
    ready : whether a compiled program for this signature exists in this process
    provisional : whether the only sample is of a first call, to be dropped for the next one
    """

    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_SAMPLES))
    count: int = 0
    missed_seconds: float = 0.0
    idle_seconds: float = 0.0
    ready: bool = False
    provisional: bool = False
    _median: float | None = None

    def add(self, seconds: float, *, first: bool = False) -> None:
        """Add one sample; one of a first call stands only until there is another."""
        if self.provisional:
            self.seconds.clear()
            self.count -= 1
        self.provisional = first and not self.seconds
        self.seconds.append(seconds)
        self.count += 1
        self.idle_seconds = 0.0
        self._median = None

    @property
    def typical(self) -> float:
        """Median of the kept samples, in seconds."""
        if self._median is None:
            self._median = median(self.seconds)
        return self._median


@dataclass(frozen=True)
class Estimate:
    """How long a call would take on a backend.

    Attributes
    ----------
    seconds : what is expected
    low_seconds, high_seconds : the best and the worst that the evidence allows
    evidence : what `seconds` rests on, in words
    samples : how many samples of this very signature there are
    """

    seconds: float
    low_seconds: float
    high_seconds: float
    evidence: str
    samples: int = 0


@dataclass
class Curve:
    """All that is known of one kind of call on one backend.

    Attributes
    ----------
    refused : why this backend is no candidate for the kind; empty if it may be one
    verified : whether a result was compared with NumPy's and agreed
    first_seconds : what first calls cost over a later one (loading, compiling)
    spent_seconds : what trying this backend has cost so far
    """

    cells: dict[Hashable, Cell] = field(default_factory=dict)
    sizes: list[tuple[int, Hashable]] = field(default_factory=list)
    refused: str = ""
    verified: bool = False
    first_seconds: list[float] = field(default_factory=list)
    spent_seconds: float = 0.0
    missed_seconds: float = 0.0

    def cell(self, signature: Hashable) -> Cell:
        """Return the cell of a signature, a new one if there is none."""
        found = self.cells.get(signature)
        if found is None:
            found = self.cells[signature] = Cell()
        return found

    def add(self, signature: Hashable, size: int, seconds: float, *, first: bool = False) -> None:
        """Add one sample of a signature whose arrays hold `size` elements."""
        cell = self.cell(signature)
        if not cell.seconds:
            at = bisect_left(self.sizes, size, key=lambda pair: pair[0])
            self.sizes.insert(at, (size, signature))
        cell.add(seconds, first=first)

    def neighbours(self, size: int) -> tuple[tuple[int, float] | None, tuple[int, float] | None]:
        """Return the nearest measured (size, seconds) at or below and above `size`."""
        at = bisect_left(self.sizes, size + 1, key=lambda pair: pair[0])
        below = self.sizes[at - 1] if at else None
        above = self.sizes[at] if at < len(self.sizes) else None
        return (
            (below[0], self.cells[below[1]].typical) if below else None,
            (above[0], self.cells[above[1]].typical) if above else None,
        )

    def estimate(self, signature: Hashable, size: int, reference: Curve) -> Estimate | None:
        """Return what the samples say of `signature`, or None when there is none to go by.

        Between two measured sizes the time is interpolated on logarithms. Beyond the last one it
        grows as `reference` (NumPy's curve) does; the best case is that it does not grow at all.
        """
        cell = self.cells.get(signature)
        if cell is not None and cell.seconds:
            text = f"median of {len(cell.seconds)} calls" if cell.count > 1 else "one call"
            typical = cell.typical
            return Estimate(typical, min(cell.seconds), typical, f"learned: {text}", cell.count)
        if not self.sizes:
            return None
        below, above = self.neighbours(max(size, 1))
        if below and above:
            return _between(below, above, max(size, 1))
        return self._beyond(below or above or (1, 0.0), size, reference)

    def _beyond(self, known: tuple[int, float], size: int, reference: Curve) -> Estimate:
        """Return an estimate for a size outside all measured ones.

        Upwards, what NumPy takes longer is added, at the rate that the last two sizes show (NumPy's
        own where there is one only): a small call is mostly overhead. At worst it grows
        `WORST_RATE` times as fast as NumPy's.
        Downwards, anything from no change to proportion is possible.
        """
        known_size, seconds = known
        evidence = f"scaled from {known_size} elements"
        start, end = reference.at(known_size), reference.at(size)
        ends = sorted((seconds, seconds * max(size, 1) / known_size))
        if size < known_size or reference is self or not start or not end or end <= start:
            return Estimate(sqrt(ends[0] * ends[1]), ends[0] * 0.9, ends[1], evidence)
        rate = self._rate(reference)
        expected = min(seconds + (end - start) * (rate or 1.0), seconds * end / start)
        worst_rate = min(WORST_RATE, 3 * rate) if rate else WORST_RATE
        worst = max(expected, seconds + worst_rate * (end - start))
        return Estimate(expected, min(expected, seconds) * 0.9, worst, evidence)

    def _rate(self, reference: Curve) -> float | None:
        """Return how fast the time grows between the two largest sizes, over NumPy's growth."""
        if len(self.sizes) < 2:
            return None
        (n0, s0), (n1, s1) = self.sizes[-2:]
        base0, base1 = reference.at(n0), reference.at(n1)
        if not base0 or not base1 or base1 <= base0:
            return None
        grown = self.cells[s1].typical - self.cells[s0].typical
        return max(0.05, grown / (base1 - base0))

    def at(self, size: int) -> float | None:
        """Return the seconds at `size`, interpolated; beyond the ends in proportion."""
        below, above = self.neighbours(max(size, 1))
        if below and above:
            return _between(below, above, max(size, 1)).seconds
        nearest = below or above
        if nearest is None:
            return None
        return nearest[1] * max(1.0, size / nearest[0]) if below else nearest[1]


def _between(below: tuple[int, float], above: tuple[int, float], size: int) -> Estimate:
    (n0, t0), (n1, t1) = below, above
    weight = (log(size) - log(n0)) / (log(n1) - log(n0)) if n1 > n0 > 0 else 0.5
    seconds = exp((1 - weight) * log(max(t0, 1e-9)) + weight * log(max(t1, 1e-9)))
    low = min(t0, t1, seconds * BETWEEN_LOW)
    return Estimate(seconds, low, max(t0, t1), f"interpolated between {n0} and {n1} elements")
