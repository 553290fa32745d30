"""Measured samples of each signature on each backend, and the estimates derived from them.

A *kind* of call is one function with one structure and dtypes of arguments; a *signature* is a kind
with exact shapes. Samples are wall seconds of whole placed calls, including transfers and waiting,
but not the first call on a backend. Nothing here reads a clock or a file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Iterable
from functools import partial
from math import erfc, exp, log, sqrt
from typing import Any, NamedTuple

from gpuforge.dataclass import dataclass, field

KEPT_SAMPLES = 25
SAMPLE_SPREAD, LEAST_SPREAD = 0.25, 0.08
"""Spread of a first sample, often the slowest; it falls with the root of their number, to this."""
MEDIAN_ERROR = 0.93
"""Standard error of the median of n samples, times the root of n, per interquartile range."""
SHORT_SECONDS = 2e-3
"""Calls shorter than this may be slow only because the library's threads were asleep."""
ROW, WARM_SHARE = 4, 0.75
"""The first of this many calls in a row woke threads if the next takes at most this share."""
STALE_FACTOR, STALE_SPREAD = 300.0, 0.6
"""Samples are old, with this spread, after this many times their length on other backends."""
BETWEEN_SPREAD, BEYOND_SPREAD, BEYOND_GROWTH = 0.25, 0.3, 0.15
"""Initial spread between measured sizes; spread beyond the last, and growth with log distance."""
NEAR_SIZES = 1.5
"""Sizes up to this ratio are near: calls of those between them take similar times."""
SURPRISE_SHARE = 0.3
"""Weight of the latest interpolation error in the running mean of squared errors."""


@dataclass
class Cell:
    """The samples of one signature on one backend.

    Attributes
    ----------
    seconds : the last `KEPT_SAMPLES` samples
    count : number of samples ever taken, including by other processes
    missed_seconds : estimated saving forgone in the calls since the last sample
    idle_seconds : time this signature spent on other backends since the last sample
    busy_seconds : time spent in calls on this backend, in this process
    ready : whether a compiled program for this signature exists in this process
    row : the first samples since this signature last ran elsewhere
    provisional : whether the last sample is of a first call, to be replaced by the next one
    """

    seconds: deque[float] = field(default_factory=partial(deque, maxlen=KEPT_SAMPLES))
    count: int = 0
    missed_seconds: float = 0.0
    idle_seconds: float = 0.0
    busy_seconds: float = 0.0
    ready: bool = False
    row: list[float] = field(default_factory=list)
    provisional: bool = False
    _quartiles: tuple[float, float, float] | None = None

    def add(self, seconds: float, *, first: bool = False) -> float:
        """Add one sample and return it; the sample of a `first` call is replaced by the next one.

        A short call right after calls elsewhere may find the library's threads asleep. Its sample
        is replaced if the second one is much faster, and ignored if many samples already exist:
        then their median is returned.
        """
        before = self.row
        self.row = [*before, seconds][:ROW]
        self.idle_seconds = self.missed_seconds = 0.0
        if not before and self.count >= ROW and _was_asleep(seconds, self.typical):
            return self.typical
        if self.provisional or (len(before) == 1 and _was_asleep(before[0], seconds)):
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
        return (self._quartiles or self._quarters())[1]

    @property
    def warming(self) -> bool:
        """Whether one more call would show if the first ones found the library's threads asleep."""
        if not 0 < len(self.row) < ROW:
            return False
        new = self.count <= len(self.row) == 1
        return new or _was_asleep(self.row[-2] if len(self.row) > 1 else self.typical, self.row[-1])

    def _quarters(self) -> tuple[float, float, float]:
        if self._quartiles is None:
            times = sorted(self.seconds)
            quarter = len(times) // 4
            self._quartiles = times[quarter], median(times), times[-1 - quarter]
        return self._quartiles

    @property
    def spread(self) -> float:
        """Uncertainty of the median, as a standard deviation of its logarithm.

        It depends on the number of samples and on how far apart the kept ones are: bimodal times
        (memory at hand or not) have a median that jumps between the peaks.
        """
        if self.idle_seconds and self.idle_seconds > STALE_FACTOR * self.typical:
            return STALE_SPREAD
        low, _, high = self._quarters()
        scatter = MEDIAN_ERROR * log(high / max(low, 1e-9)) if low < high else 0.0
        return max(
            LEAST_SPREAD, SAMPLE_SPREAD / sqrt(self.count), scatter / sqrt(len(self.seconds))
        )


def _was_asleep(before: float, after: float) -> bool:
    """Return whether a call of `before` seconds had to wake threads, judging by `after`."""
    return after < min(WARM_SHARE * before, SHORT_SECONDS)


def median(values: Iterable[float]) -> float:
    """Return the median of some numbers; importing `statistics` for it takes milliseconds."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


class Estimate(NamedTuple):
    """How long a call would take on a backend, as a log-normal distribution.

    Attributes
    ----------
    seconds : the median
    spread : standard deviation of its logarithm
    evidence : what the estimate rests on, in words
    samples : number of samples of this exact signature
    """

    seconds: float
    spread: float
    evidence: str
    samples: int = 0

    @property
    def mean(self) -> float:
        """The mean, in seconds; the larger the spread, the further above the median."""
        return self.seconds * exp(self.spread**2 / 2)

    @property
    def at_best(self) -> float:
        """The time three standard deviations below the median, in seconds."""
        return self.seconds * exp(-3 * self.spread)

    def saving(self, against: float) -> float:
        """Return the expected seconds gained over a call of `against` seconds, 0 where slower.

        The expected improvement of Bayesian optimisation (Jones, Schonlau, Welch 1998) for a
        log-normal time.
        """
        if against <= 0:
            return 0.0
        distance = log(against / max(self.seconds, 1e-12)) / self.spread
        gained = against * _normal_cdf(distance) - self.mean * _normal_cdf(distance - self.spread)
        return max(0.0, gained)

    def loss(self, against: float) -> float:
        """Return the expected seconds lost against a call of `against` seconds, 0 where faster."""
        return max(0.0, self.mean - against + self.saving(against))

    def joined(self, other: Estimate) -> Estimate:
        """Return both estimates combined, weighted by their precision."""
        mine, theirs = self.spread**-2, other.spread**-2
        middle = (mine * log(self.seconds) + theirs * log(other.seconds)) / (mine + theirs)
        text = self.evidence if mine >= theirs else other.evidence
        return Estimate(exp(middle), (mine + theirs) ** -0.5, text, self.samples)


def _normal_cdf(deviations: float) -> float:
    """Return the probability that a standard normal value is below `deviations`."""
    return 0.5 * erfc(-deviations * sqrt(0.5))


@dataclass
class Curve:
    """Everything known about one kind of call on one backend.

    Attributes
    ----------
    refused : why this backend is no candidate for the kind; empty if it may be one
    verified : whether a result was compared with NumPy's and agreed
    first_seconds : extra time of each first call (loading, compiling)
    surprise : running mean of the squared interpolation error, on logarithms
    missed_seconds : estimated saving forgone in the calls since the last sample
    """

    cells: dict[Hashable, Cell] = field(default_factory=dict)
    sizes: list[tuple[int, Any]] = field(default_factory=list)
    refused: str = ""
    verified: bool = False
    first_seconds: list[float] = field(default_factory=list)
    surprise: float = BETWEEN_SPREAD**2
    missed_seconds: float = 0.0

    def cell(self, signature: Hashable) -> Cell:
        """Return the cell of a signature, creating it if needed."""
        found = self.cells.get(signature)
        if found is None:
            found = self.cells[signature] = Cell()
        return found

    def add(self, signature: Hashable, size: int, seconds: float, *, first: bool = False) -> float:
        """Add one sample of a signature whose arrays hold `size` elements, and return it.

        If the sample is ignored, return the cell's median instead (`Cell.add`).
        """
        cell = self.cell(signature)
        if not cell.seconds:
            self._update_surprise(size, seconds)
            at = bisect_left(self.sizes, (size,))
            self.sizes.insert(at, (size, signature))
        told = cell.add(seconds, first=first)
        if len(cell.row) == 1:
            self.missed_seconds = 0.0
        return told

    def _update_surprise(self, size: int, seconds: float) -> None:
        """Update the interpolation error from the first sample of a size.

        Not all curves are smooth: Fourier transforms of 2^k and of prime sizes differ widely.
        """
        below, above = self.neighbours(max(size, 1))
        if below and above and below[0] < size < above[0]:
            error = log(max(seconds, 1e-9) / _interpolate(below, above, size))
            self.surprise += SURPRISE_SHARE * (error**2 - self.surprise)

    def neighbours(self, size: int) -> tuple[tuple[int, float] | None, tuple[int, float] | None]:
        """Return the nearest measured (size, seconds) at or below and above `size`."""
        at = bisect_left(self.sizes, (size + 1,))
        return (
            self._measured(at - 1) if at else None,
            self._measured(at) if at < len(self.sizes) else None,
        )

    def _measured(self, at: int) -> tuple[int, float]:
        """Return a measured size and its typical seconds.

        Something may have held up the only call of a size: the median with the sizes before and
        after it counts, if these are near.
        """
        size, signature = self.sizes[at]
        cell = self.cells[signature]
        if cell.count == 1 and 0 < at < len(self.sizes) - 1:
            (low, before), (high, after) = self.sizes[at - 1], self.sizes[at + 1]
            if high <= NEAR_SIZES * low:
                around = (self.cells[before].typical, cell.typical, self.cells[after].typical)
                return size, sorted(around)[1]
        return size, cell.typical

    def estimate(self, signature: Hashable, size: int, reference: Curve) -> Estimate | None:
        """Return the estimate for `signature`, or None without any samples.

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
            return Estimate(_interpolate(below, above, max(size, 1)), spread, text)
        return self._extrapolate(below or above or (1, 0.0), size, reference)

    def near(self, size: int) -> bool:
        """Return whether a size within a factor of two of `size` was measured."""
        return any(pair and pair[0] <= 2 * size <= 4 * pair[0] for pair in self.neighbours(size))

    def _extrapolate(self, known: tuple[int, float], size: int, reference: Curve) -> Estimate:
        """Return an estimate for a size outside the measured range.

        Upwards, NumPy's increase is added, scaled by the rate that the last two sizes show (by 1 if
        there is only one): a small call is mostly overhead. Downwards, anything from no change to
        proportional is possible.
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
        """Return the growth in time between the two largest sizes, relative to NumPy's."""
        if len(self.sizes) < 2:
            return None
        (n0, s0), (n1, s1) = self.sizes[-2:]
        base0, base1 = reference.at(n0), reference.at(n1)
        if not base0 or not base1 or base1 <= base0:
            return None
        grown = self.cells[s1].typical - self.cells[s0].typical
        return max(0.05, grown / (base1 - base0))

    def at(self, size: int) -> float | None:
        """Return the seconds at `size`: interpolated, proportional above and constant below."""
        below, above = self.neighbours(max(size, 1))
        if below and above:
            return _interpolate(below, above, max(size, 1))
        nearest = below or above
        if nearest is None:
            return None
        return nearest[1] * max(1.0, size / max(nearest[0], 1)) if below else nearest[1]


def _interpolate(below: tuple[int, float], above: tuple[int, float], size: int) -> float:
    """Return the seconds at `size`, interpolated on logarithms."""
    (n0, t0), (n1, t1) = below, above
    weight = (log(size) - log(n0)) / (log(n1) - log(n0)) if n1 > n0 > 0 else 0.5
    return exp((1 - weight) * log(max(t0, 1e-9)) + weight * log(max(t1, 1e-9)))
