"""What has been measured: samples of a signature on a backend, and estimates that rest on them.

A *kind* of call is one function with one structure and dtypes of arguments; a *signature* is a
kind with its exact shapes. Samples are wall seconds of whole placed calls, transfers and waiting
included, the first call on a backend left out. Nothing here reads a clock or a file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Iterable
from math import erfc, exp, log, sqrt
from typing import NamedTuple

from gpuforge.dataclass import dataclass, field

KEPT_SAMPLES = 25
SAMPLE_SPREAD, LEAST_SPREAD = 0.25, 0.08
"""Of one sample, falling with the root of their number: the first ones are often the slowest."""
MEDIAN_ERROR = 0.93
"""Of the distance of the quartiles: what the median of n samples is off, times the root of n."""
SHORT_SECONDS = 2e-3
"""Calls shorter than this may be slow for no other reason than that threads were asleep ..."""
ROW, WARM_SHARE = 4, 0.75
"""... which the first of so many in a row shows where the next ones take at most this share."""
STALE_FACTOR, STALE_SPREAD = 300.0, 0.6
"""Samples are old after this many times their length in calls of others."""
BETWEEN_SPREAD, BEYOND_SPREAD, BEYOND_GROWTH = 0.25, 0.3, 0.15
"""Between two measured sizes, at first, and beyond the last one; there more with the distance."""
SURPRISE_SHARE = 0.3
"""How much the latest error of interpolation weighs in what is thought of the next one."""


@dataclass
class Cell:
    """The samples of one signature on one backend.

    Attributes
    ----------
    seconds : the last `KEPT_SAMPLES` samples
    count : how many were taken in all, also by other processes
    missed_seconds : what it might have saved, on the estimates, in the calls since the last sample
    idle_seconds : busy time of this signature since the last sample
    busy_seconds : time spent in its calls on this backend, in this process
    ready : whether a compiled program for this signature exists in this process
    row : the first samples since this signature last ran elsewhere
    provisional : whether the last sample is of a first call, to be dropped for the next one
    """

    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_SAMPLES))
    count: int = 0
    missed_seconds: float = 0.0
    idle_seconds: float = 0.0
    busy_seconds: float = 0.0
    ready: bool = False
    row: list[float] = field(default_factory=list)
    provisional: bool = False
    _quartiles: tuple[float, float, float] | None = None

    def add(self, seconds: float, *, first: bool = False) -> float:
        """Add one sample and return it; one of a first call stands only until there is another.

        A short call right after calls elsewhere may find the library's threads asleep: its sample
        gives way to a second one that is much faster, and to the many that there may be: then
        what these say is returned.
        """
        before = self.row
        self.row = [*before, seconds][:ROW]
        self.idle_seconds = self.missed_seconds = 0.0
        if not before and self.count >= ROW and _woken(seconds, self.typical):
            return self.typical
        if self.provisional or (len(before) == 1 and _woken(before[0], seconds)):
            self.seconds.pop()
            self.count -= 1
        self.provisional = first
        self.seconds.append(seconds)
        self.count += 1
        self._quartiles = None
        return seconds

    @property
    def typical(self) -> float:
        """Median of the kept samples, in seconds."""
        return self._quarters()[1]

    @property
    def warming(self) -> bool:
        """Whether one call more tells whether the first ones found the library's threads asleep."""
        if not 0 < len(self.row) < ROW:
            return False
        new = self.count <= len(self.row) == 1
        return new or _woken(self.row[-2] if len(self.row) > 1 else self.typical, self.row[-1])

    def _quarters(self) -> tuple[float, float, float]:
        if self._quartiles is None:
            times = sorted(self.seconds)
            quarter = len(times) // 4
            self._quartiles = times[quarter], median(times), times[-1 - quarter]
        return self._quartiles

    @property
    def spread(self) -> float:
        """How far the median may be from the truth, as a standard deviation of its logarithm.

        By the number of samples, and by how far apart the kept ones are: times with two peaks
        (memory that is at hand, and memory that is not) have a median that jumps between them.
        """
        if self.idle_seconds and self.idle_seconds > STALE_FACTOR * self.typical:
            return STALE_SPREAD
        low, _, high = self._quarters()
        scatter = MEDIAN_ERROR * log(high / max(low, 1e-9)) if low < high else 0.0
        return max(
            LEAST_SPREAD, SAMPLE_SPREAD / sqrt(self.count), scatter / sqrt(len(self.seconds))
        )


def _woken(before: float, after: float) -> bool:
    """Return whether a call of `before` seconds may have waited for threads that `after` found."""
    return after < min(WARM_SHARE * before, SHORT_SECONDS)


def median(values: Iterable[float]) -> float:
    """Return the middle one of some numbers; importing `statistics` for it takes milliseconds."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


class Estimate(NamedTuple):
    """How long a call would take on a backend: log-normal, as far as is known.

    Attributes
    ----------
    seconds : what is expected, the median
    spread : standard deviation of its logarithm
    evidence : what `seconds` rests on, in words
    samples : how many samples of this very signature there are
    """

    seconds: float
    spread: float
    evidence: str
    samples: int = 0

    @property
    def mean(self) -> float:
        """The mean, in seconds: longer than the median, the more so the less is known."""
        return self.seconds * exp(self.spread**2 / 2)

    @property
    def at_best(self) -> float:
        """What hardly a call stays below, in seconds, if the estimate is right."""
        return self.seconds * exp(-3 * self.spread)

    def saving(self, against: float) -> float:
        """Return the expected seconds gained over a call of `against`, where it is faster at all.

        The expected improvement of Bayesian optimisation (Jones, Schonlau, Welch 1998), for a
        log-normal time.
        """
        if against <= 0:
            return 0.0
        distance = log(against / max(self.seconds, 1e-12)) / self.spread
        gained = against * _below(distance) - self.mean * _below(distance - self.spread)
        return max(0.0, gained)

    def loss(self, against: float) -> float:
        """Return the expected seconds lost over a call of `against`, where it is slower at all."""
        return max(0.0, self.mean - against + self.saving(against))

    def joined(self, other: Estimate) -> Estimate:
        """Return what both say together, each weighed by how much it knows."""
        mine, theirs = self.spread**-2, other.spread**-2
        middle = (mine * log(self.seconds) + theirs * log(other.seconds)) / (mine + theirs)
        text = self.evidence if mine >= theirs else other.evidence
        return Estimate(exp(middle), (mine + theirs) ** -0.5, text, self.samples)


def _below(deviations: float) -> float:
    """Return the probability that a standard normal value is below `deviations`."""
    return 0.5 * erfc(-deviations * sqrt(0.5))


@dataclass
class Curve:
    """All that is known of one kind of call on one backend.

    Attributes
    ----------
    refused : why this backend is no candidate for the kind; empty if it may be one
    verified : whether a result was compared with NumPy's and agreed
    first_seconds : what first calls cost over a later one (loading, compiling)
    surprise : the squared error of interpolation that was seen of late, on logarithms
    missed_seconds : what it might have saved, on the estimates, in the calls since the last sample
    """

    cells: dict[Hashable, Cell] = field(default_factory=dict)
    sizes: list[tuple[int, Hashable]] = field(default_factory=list)
    refused: str = ""
    verified: bool = False
    first_seconds: list[float] = field(default_factory=list)
    surprise: float = BETWEEN_SPREAD**2
    missed_seconds: float = 0.0

    def cell(self, signature: Hashable) -> Cell:
        """Return the cell of a signature, a new one if there is none."""
        found = self.cells.get(signature)
        if found is None:
            found = self.cells[signature] = Cell()
        return found

    def add(self, signature: Hashable, size: int, seconds: float, *, first: bool = False) -> float:
        """Add one sample of a signature whose arrays hold `size` elements, and return it.

        The cell's median where the sample is none (`Cell.add`).
        """
        cell = self.cell(signature)
        if not cell.seconds:
            self._compare(size, seconds)
            at = bisect_left(self.sizes, size, key=lambda pair: pair[0])
            self.sizes.insert(at, (size, signature))
        told = cell.add(seconds, first=first)
        if len(cell.row) == 1:
            self.missed_seconds = 0.0
        return told

    def _compare(self, size: int, seconds: float) -> None:
        """Learn from the first sample of a size how far interpolation is off on this curve.

        Transforms of 2^k and of prime sizes, for instance, lie on no smooth one.
        """
        below, above = self.neighbours(max(size, 1))
        if below and above and below[0] < size < above[0]:
            error = log(max(seconds, 1e-9) / _between(below, above, size))
            self.surprise += SURPRISE_SHARE * (error**2 - self.surprise)

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
        grows as `reference` (NumPy's curve) does.
        """
        cell = self.cells.get(signature)
        if cell is not None and cell.seconds:
            text = f"median of {len(cell.seconds)} calls" if cell.count > 1 else "one call"
            return Estimate(cell.typical, cell.spread, f"learned: {text}", cell.count)
        if not self.sizes:
            return None
        below, above = self.neighbours(max(size, 1))
        if below and above:
            spread = max(BETWEEN_SPREAD / 2, sqrt(self.surprise))
            text = f"interpolated between {below[0]} and {above[0]} elements"
            return Estimate(_between(below, above, max(size, 1)), spread, text)
        return self._beyond(below or above or (1, 0.0), size, reference)

    def near(self, size: int) -> bool:
        """Return whether a size within a factor of two of `size` was measured."""
        return any(pair and pair[0] <= 2 * size <= 4 * pair[0] for pair in self.neighbours(size))

    def _beyond(self, known: tuple[int, float], size: int, reference: Curve) -> Estimate:
        """Return an estimate for a size outside all measured ones.

        Upwards, what NumPy takes longer is added, at the rate that the last two sizes show (NumPy's
        own where there is one only): a small call is mostly overhead.
        Downwards, anything from no change to proportion is possible.
        """
        known_size, seconds = known
        evidence = f"scaled from {known_size} elements"
        start, end = reference.at(known_size), reference.at(size)
        ratio = max(size, 1) / max(known_size, 1)
        spread = BEYOND_SPREAD + BEYOND_GROWTH * abs(log(ratio))
        if size < known_size or reference is self or not start or not end or end <= start:
            return Estimate(seconds * sqrt(ratio), spread, evidence)
        expected = min(
            seconds + (end - start) * (self._rate(reference) or 1.0), seconds * end / start
        )
        return Estimate(expected, spread, evidence)

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
            return _between(below, above, max(size, 1))
        nearest = below or above
        if nearest is None:
            return None
        return nearest[1] * max(1.0, size / max(nearest[0], 1)) if below else nearest[1]


def _between(below: tuple[int, float], above: tuple[int, float], size: int) -> float:
    """Return the seconds at `size`, interpolated on logarithms."""
    (n0, t0), (n1, t1) = below, above
    weight = (log(size) - log(n0)) / (log(n1) - log(n0)) if n1 > n0 > 0 else 0.5
    return exp((1 - weight) * log(max(t0, 1e-9)) + weight * log(max(t1, 1e-9)))
