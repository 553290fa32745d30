"""Which backend runs a call, and when another one is worth a try. Pure: no clock, no I/O.

The backend with the lowest estimated total wins. Trying another one has a price, known or guessed:
the time it may lose, the comparison of its first result with NumPy's, the compilation of a new
signature. It is paid only once that backend would already have saved as much, on the best that the
evidence allows (rent until the rent equals the price, then buy), and only within the share of busy
time that may be spent on trying, and never for a try predicted to take `TRY_FACTOR` times the best.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from gpuforge.runtime.evidence import Curve, Estimate

NUMPY = "numpy"
TRY_FACTOR = 5.0
TRY_FLOOR_SECONDS = 1e-3
UNKNOWN_SAVING = 0.5
"""A backend never tried is taken to save at most this share of a call."""
UNKNOWN_PRICE = 3.0
"""A backend never tried is taken to cost this many times NumPy's call."""
CALIBRATED_LOW = 0.3
"""At best, a function takes this share of what its class of operations suggests."""
BUY_AT = 0.5
"""A price is paid once this share of it would have been saved, the call at hand included."""
STALE_FACTOR = 300.0
"""A rival is measured again after this many times its own cost in calls."""
UNSEEN_FACTOR = 100.0
"""A rival never measured at a signature is, after this many times its own cost in calls there."""
BUSY_FLOOR_SECONDS = 2e-3

Prior = Callable[[str, int], "float | None"]
"""(backend, elements) -> calibrated time over NumPy's, or None when it was not measured."""


@dataclass(frozen=True)
class Candidate:
    """What placement must know of a backend.

    Attributes
    ----------
    floor_seconds : the least that any call on it costs
    compiles : whether each new signature is compiled before it runs
    compile_seconds : what compiling the smallest function took when the backend was opened
    """

    name: str
    floor_seconds: float = 0.0
    compiles: bool = False
    compile_seconds: float = 0.1


@dataclass(frozen=True)
class Decision:
    """Where one call runs.

    Attributes
    ----------
    backend : the one whose result the caller gets
    trial : a backend to run besides, to compare its result with NumPy's; empty for none
    exploring : whether `backend` is tried rather than known to be best
    settled : whether the choice may be kept for the next calls of this signature
    """

    backend: str
    trial: str = ""
    exploring: bool = False
    settled: bool = False


@dataclass
class Kind:
    """Everything known of one kind of call.

    Attributes
    ----------
    busy_seconds : time spent in its calls so far
    spent_seconds : time that trying other backends has cost
    prior : calibrated ratios for its class of operations
    """

    curves: dict[str, Curve] = field(default_factory=dict)
    busy_seconds: float = 0.0
    spent_seconds: float = 0.0
    prior: Prior | None = None

    def curve(self, backend: str) -> Curve:
        """Return what is known of `backend`, an empty curve at first."""
        found = self.curves.get(backend)
        if found is None:
            found = self.curves[backend] = Curve(verified=backend == NUMPY)
        return found

    def estimate(self, candidate: Candidate, signature: Hashable, size: int) -> Estimate | None:
        """Return how long the call would take on a backend, or None when nothing tells."""
        reference, name = self.curve(NUMPY), candidate.name
        measured = self.curve(name).estimate(signature, size, reference)
        if measured is None and name != NUMPY:
            measured = self._calibrated(name, signature, size)
        if measured is None or measured.samples:
            return measured
        floor = candidate.floor_seconds
        if measured.low_seconds >= floor:
            return measured
        high = max(measured.high_seconds, floor)
        seconds = max(measured.seconds, floor)
        return replace(measured, seconds=seconds, low_seconds=floor, high_seconds=high)

    def _calibrated(self, backend: str, signature: Hashable, size: int) -> Estimate | None:
        reference = self.curve(NUMPY)
        ratio = self.prior(backend, size) if self.prior else None
        base = reference.estimate(signature, size, reference)
        if ratio is None or base is None:
            return None
        seconds = base.seconds * ratio
        return Estimate(
            seconds, seconds * CALIBRATED_LOW, seconds * 2, "calibrated: this class of operations"
        )

    def compile_seconds(self, candidate: Candidate) -> float:
        """Return what one more compiled signature is expected to cost."""
        first = self.curve(candidate.name).first_seconds
        return median(first[-9:]) if first else candidate.compile_seconds


@dataclass(frozen=True)
class Policy:
    """The choice between backends.

    Attributes
    ----------
    explore_share : share of busy time that may be spent on trying each backend
    learn : whether anything is tried at all
    """

    explore_share: float = 0.2
    learn: bool = True

    def decide(
        self, kind: Kind, signature: Hashable, size: int, candidates: Iterable[Candidate]
    ) -> Decision:
        """Return where the next call of `signature` runs."""
        open_to = [c for c in candidates if not kind.curve(c.name).refused]
        estimates = {c.name: kind.estimate(c, signature, size) for c in open_to}
        if estimates.get(NUMPY) is None:
            return Decision(NUMPY)
        best = self.best(kind, signature, open_to, estimates)
        if not self.learn:
            return Decision(best, settled=True)
        attempt = self._attempt(kind, signature, best, open_to, estimates)
        if attempt is None:
            ready = kind.curve(best).cell(signature)
            return Decision(best, settled=ready.count >= 3)
        if not kind.curve(attempt).verified:
            return Decision(NUMPY, trial=attempt, exploring=True)
        return Decision(attempt, exploring=True)

    def best(
        self,
        kind: Kind,
        signature: Hashable,
        candidates: Iterable[Candidate],
        estimates: Mapping[str, Estimate | None],
    ) -> str:
        """Return the backend that is known to finish first, without any new expense."""
        usable = {
            c.name: estimate.seconds
            for c in candidates
            if (estimate := estimates[c.name]) is not None
            and kind.curve(c.name).verified
            and (not c.compiles or kind.curve(c.name).cell(signature).ready)
        }
        return min(usable, key=usable.__getitem__)

    def _attempt(
        self,
        kind: Kind,
        signature: Hashable,
        best: str,
        candidates: Iterable[Candidate],
        estimates: Mapping[str, Estimate | None],
    ) -> str | None:
        """Return the backend most worth a try now, or None."""
        leader = estimates[best]
        assert leader is not None
        allowance = self.explore_share * (kind.busy_seconds + BUSY_FLOOR_SECONDS)
        promising: dict[str, float] = {}
        for candidate in candidates:
            if candidate.name == best:
                continue
            low, price = self._outlook(kind, signature, candidate, leader, estimates)
            spent = kind.curve(candidate.name).spent_seconds
            if low < leader.seconds and price + spent <= allowance:
                promising[candidate.name] = low / leader.seconds
        return min(promising, key=promising.__getitem__) if promising else None

    def _outlook(
        self,
        kind: Kind,
        signature: Hashable,
        candidate: Candidate,
        leader: Estimate,
        estimates: Mapping[str, Estimate | None],
    ) -> tuple[float, float]:
        """Return the best case of a try and its price, in seconds; infinite when it is barred."""
        never = (float("inf"), float("inf"))
        gain = 0.0
        curve, estimate = kind.curve(candidate.name), estimates[candidate.name]
        cell = curve.cell(signature)
        if estimate is None:
            low = max(leader.seconds * UNKNOWN_SAVING, candidate.floor_seconds)
            price = leader.seconds * UNKNOWN_PRICE
        else:
            overdue = not cell.count and cell.idle_seconds > UNSEEN_FACTOR * estimate.high_seconds
            if estimate.seconds > max(TRY_FACTOR * leader.seconds, TRY_FLOOR_SECONDS):
                if not overdue:
                    return never
            elif not self._wanted(cell.count, cell.idle_seconds, estimate, leader):
                return never
            low = max(estimate.low_seconds * (not overdue), candidate.floor_seconds)
            worst = estimate.high_seconds
            price = max(0.0, worst - leader.seconds) if curve.verified else worst
            gain = max(0.0, leader.seconds - estimate.seconds)
        if low >= leader.seconds:
            return never
        saved = curve.missed_seconds - curve.spent_seconds
        if candidate.compiles and not cell.ready:
            price += kind.compile_seconds(candidate)
            if curve.verified:  # what is compiled serves this signature only, a comparison all
                saved = cell.missed_seconds
        return (low, price) if saved + gain >= BUY_AT * price else never

    @staticmethod
    def _wanted(count: int, idle_seconds: float, estimate: Estimate, leader: Estimate) -> bool:
        """Return whether one more sample of a rival could change the choice."""
        ratio = estimate.seconds / leader.seconds
        enough = 7 if ratio < 1.25 else 3 if ratio < 2 else 2 if ratio < 4 else 1
        if count < enough:
            return True
        return idle_seconds > STALE_FACTOR * estimate.seconds and ratio < TRY_FACTOR


def observe(
    kind: Kind,
    signature: Hashable,
    size: int,
    backend: str,
    seconds: float,
    candidates: Iterable[Candidate],
    *,
    calls: int = 1,
    first: bool = False,
) -> None:
    """Take in that `calls` calls ran on `backend`, the last of them in `seconds`.

    `first` says that it was the first call of its kind in this process, whose sample stands only
    until there is another.
    """
    curve = kind.curve(backend)
    curve.add(signature, size, seconds, first=first)
    curve.cell(signature).ready = True
    total = seconds * calls
    kind.busy_seconds += total
    for candidate in candidates:
        rival = kind.curve(candidate.name)
        if candidate.name == backend or rival.refused:
            continue
        estimate = kind.estimate(candidate, signature, size)
        low = estimate.low_seconds if estimate else seconds * UNKNOWN_SAVING
        saved = max(0.0, seconds - max(low, candidate.floor_seconds)) * calls
        cell = rival.cell(signature)
        cell.missed_seconds += saved
        cell.idle_seconds += total
        rival.missed_seconds += saved


def charge(
    kind: Kind, signature: Hashable, backend: str, lost_seconds: float, first_seconds: float = 0.0
) -> None:
    """Take in what a try of `backend` cost, and what of it was a first call."""
    curve = kind.curve(backend)
    if first_seconds > 0:
        curve.first_seconds.append(first_seconds)
        curve.cell(signature).missed_seconds = 0.0
    curve.spent_seconds += max(0.0, lost_seconds)
    kind.spent_seconds += max(0.0, lost_seconds)
