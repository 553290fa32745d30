"""Which backend runs a call, and when another one is worth a try. Pure: no clock, no I/O.

The backend with the lowest estimated total wins. Trying another one has a price, known or guessed:
the time it may lose, the comparison of its first result with NumPy's, the compilation of a new
signature. The saving that it might have brought, weighted by its probability, accumulates with
every call. A try is made once the accumulated saving reaches the price (as in the ski-rental
problem), only within what the session may still lose by exploring (`account`), and never where it
is expected to take `TRY_FACTOR` times as long as the best.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import reduce
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from gpuforge.dataclass import dataclass, field
from gpuforge.runtime.placement.evidence import SHORT_SECONDS, Curve, Estimate, median
from gpuforge.runtime.placement.peers import Peer

NUMPY = "numpy"
NUMPYS_OWN = frozenset([NUMPY, "blocks:cpu"])
"""Backends that compute with NumPy's own functions: their results need no comparison."""
TRY_FACTOR = 5.0
TRY_FLOOR_SECONDS = 1e-3
UNKNOWN_RATIO, UNKNOWN_SPREAD = 1.5, 0.7
"""An untried backend is assumed to take this many times as long as the best, with this spread."""
CALIBRATED_SPREAD, RELATED_SPREAD = 0.5, 0.4
"""Spread of an estimate from the class of operations, and from other kinds of the function."""
FAR_SPREAD = 0.3
"""Estimates with a larger spread than this are combined with those two."""
RELATIVES = 4
TELLING = (1, 3)
"""Sample counts of a signature at which its time is shared with other functions."""
TRIAL_CALLS = 1.0
"""Cost of a comparison with NumPy's result, in calls."""
SHARE_FELT = 0.4
"""Share of the time for loading or compiling in the background by which the program is slowed: part
of that work holds the interpreter's lock."""
LOADING_SECONDS = 5e-3
"""Time to load a program that an earlier process compiled and stored."""
UNBOUNDED = 100.0
"""Times that recording a loop over single elements may take its time as written, if nothing ends
it. Source: a function of TheAlgorithms that compares pixels took 400 times."""
BUY_AT = 1.2
"""A try is made once the accumulated saving, this call's included, is this many times its price."""
KNOWN_SHARE = 0.8
"""A backend that took at most this share of the best one's time is known to be faster."""
FEW_SIGNATURES = 32
"""A function with calls of more signatures than this is probably called with ever new ones."""
UNSEEN_FACTOR = 10.0
"""An unmeasured rival is tried once a signature's calls took this many times the price."""

Prior = Callable[[str, int, float], "Estimate | None"]
"""(backend, elements, NumPy's seconds) -> expected time, or None if nothing is known."""


class Candidate(NamedTuple):
    """What placement must know about a backend.

    Attributes
    ----------
    floor_seconds : minimum time of any call on it
    compiles : whether each new signature is compiled before it runs
    compile_seconds : what compiling the smallest function took when the backend was opened
    busy : whether it is compiling another signature, so that only compiled ones can run
    """

    name: str
    floor_seconds: float = 0.0
    compiles: bool = False
    compile_seconds: float = 0.1
    busy: bool = False


class Row(NamedTuple):
    """What is known about one backend for one call.

    Attributes
    ----------
    estimate : how long the call would take, NumPy's if it takes that long at least; None if nothing
        is known
    refused : why it is not a candidate; empty if it is one
    """

    backend: str
    estimate: Estimate | None = None
    refused: str = ""


@dataclass
class Decision:
    """Where one call runs.

    Attributes
    ----------
    backend : the backend whose result the caller gets
    trial : a second backend to run, whose result is compared with NumPy's; empty for none
    exploring : whether `backend` is tried, rather than known to be best
    bought : whether compiling for it is an investment in later calls rather than part of a try
    settled : whether the choice may be cached for the next calls of this signature
    patience : calls of this signature until a try of another backend may be worth its price
    why : the reason, where it is not the estimates
    rows : what is known about each backend for this call
    """

    backend: str
    trial: str = ""
    exploring: bool = False
    bought: bool = False
    settled: bool = False
    patience: float = 0.0
    why: str = ""
    rows: Sequence[Row] = ()


@dataclass
class Kind:
    """Everything known about one kind of call.

    Attributes
    ----------
    busy_seconds : time spent in its calls so far
    spent_seconds : cost of exploring other backends
    outlay_seconds : cost of compiling for backends known to be faster
    recording_seconds : minimum time to record a call; known only if that was once too long
    unbounded : whether its function loops, and an argument keeps a recording from being ended and
        restarted as written
    first_recording_seconds : what the first recording of a signature may cost if its function
        loops
    prior : expected times from its class of operations
    family : all kinds of the same function, this one included
    peer : its function among the session's functions
    """

    curves: dict[str, Curve] = field(default_factory=dict)
    busy_seconds: float = 0.0
    spent_seconds: float = 0.0
    outlay_seconds: float = 0.0
    recording_seconds: float = 0.0
    first_recording_seconds: float = 0.0
    unbounded: bool = False
    prior: Prior | None = None
    family: Sequence[Kind] = field(default=(), repr=False)
    peer: Peer | None = field(default=None, repr=False)

    def curve(self, backend: str) -> Curve:
        """Return what is known about `backend`, an empty curve at first."""
        found = self.curves.get(backend)
        if found is None:
            found = self.curves[backend] = Curve(verified=backend in NUMPYS_OWN)
        return found

    def estimates(
        self, candidates: Iterable[Candidate], signature: Hashable, size: int, every: bool = False
    ) -> dict[str, Estimate | None]:
        """Return how long the call would take on NumPy and the backends that may be faster.

        A backend whose minimum time is NumPy's or longer is left out, unless the signature is known
        there or `every` backend is wanted: its estimate could change no decision.
        """
        reference = self.curve(NUMPY)
        base = reference.estimate(signature, size, reference)
        most = inf if every or base is None else base.seconds
        return {
            one.name: self.estimate(one, signature, size, base)
            for one in candidates
            if one.name == NUMPY or one.busy or self.floor(one) < most
            or signature in self.curve(one.name).cells
        }  # fmt: skip

    def estimate(
        self, candidate: Candidate, signature: Hashable, size: int, base: Estimate | None = None
    ) -> Estimate | None:
        """Return how long the call would take on a backend, or None if nothing is known.

        `base` is the estimate from NumPy's samples, if the caller has it.
        """
        reference, name = self.curve(NUMPY), candidate.name
        measured = base = base or reference.estimate(signature, size, reference)
        if name != NUMPY:
            measured = self.curve(name).estimate(signature, size, reference)
        if name != NUMPY and (measured is None or measured.spread > FAR_SPREAD):
            guess = self._by_ratio(name, size, base)
            measured = measured.joined(guess) if measured and guess else measured or guess
        if measured is None or measured.samples:
            return measured
        least = self.floor(candidate)
        return measured if measured.seconds >= least else measured._replace(seconds=least)

    def floor(self, candidate: Candidate) -> float:
        """Return the minimum time of a call on a backend."""
        return max(candidate.floor_seconds, self.recording_seconds)

    def _by_ratio(self, backend: str, size: int, base: Estimate | None) -> Estimate | None:
        """Return an estimate from NumPy's time and ratios of other kinds and functions."""
        if base is None:
            return None
        guesses: list[Estimate] = []
        others = [kind for kind in self.family if kind is not self][-RELATIVES:]
        ratios = [ratio for kind in others if (ratio := kind._ratio(backend, size))]
        if ratios:
            text = "learned from other kinds of call of this function"
            guesses.append(Estimate(base.seconds * median(ratios), RELATED_SPREAD, text))
        expected = self.prior(backend, size, base.seconds) if self.prior else None
        if self.peer and (found := self.peer.guess(backend, size)):
            start = expected.seconds if expected else base.seconds
            text = "learned from other functions"
            guesses.append(Estimate(start * found[0], found[1], text))
        elif expected:
            guesses.append(expected)
        return reduce(Estimate.joined, guesses) if guesses else None

    def _ratio(self, backend: str, size: int) -> float | None:
        """Return the time of `backend` relative to NumPy's, if both were measured near `size`."""
        curve, reference = self.curves.get(backend), self.curve(NUMPY)
        if curve is None or curve.refused or not (curve.near(size) and reference.near(size)):
            return None
        there, here = curve.at(size), reference.at(size)
        return there / here if there and here else None

    def tell(self, backend: str, signature: Hashable, size: int) -> None:
        """Share the ratio of measured to expected time of a new signature with other functions.

        The expected time is the prior's, else NumPy's.
        """
        cell = self.curve(backend).cell(signature)
        if not (self.peer and cell.count in TELLING and (ratio := self._ratio(backend, size))):
            return
        base = self.curve(NUMPY).at(size)
        expected = self.prior(backend, size, base) if self.prior and base else None
        if base and expected:
            ratio *= base / expected.seconds
        self.peer.tell(backend, size, ratio)

    def potential(self, backend: str, others: Collection[str] = NUMPYS_OWN) -> float:
        """Return the seconds that this process's calls would have saved on a backend.

        Counts only signatures measured there, compared with the best of the `others`, and subtracts
        the time to compile them.
        """
        reference, curve = self.curve(NUMPY), self.curve(backend)
        saved = -sum(curve.first_seconds)
        for signature, cell in curve.cells.items():
            base = reference.cells.get(signature)
            if base and base.seconds and cell.seconds:
                gained = self._shortest(signature, {*others} - {backend}) - cell.typical
                calls = base.busy_seconds / base.typical + cell.busy_seconds / cell.typical
                saved += max(0.0, gained) * calls
        return saved

    def _shortest(self, signature: Hashable, backends: Iterable[str]) -> float:
        """Return the shortest time measured on some backends, NumPy among them."""
        cells = [self.curve(name).cells.get(signature) for name in backends]
        return min(cell.typical for cell in cells if cell and cell.seconds)

    def compile_seconds(self, candidate: Candidate) -> float:
        """Return the expected time to compile one more signature."""
        for kind in (self, *self.family[-RELATIVES:]):
            first = kind.curve(candidate.name).first_seconds
            if first:
                return median(first[-9:])
        return candidate.compile_seconds


@dataclass(frozen=True)
class Policy:
    """The choice between backends.

    Attributes
    ----------
    allowance_seconds : limit for the cost of one more try
    learn : whether other backends are tried at all
    invest : whether those that were measured to be clearly faster may cost more than the allowance
    known_only : whether only those are tried
    """

    allowance_seconds: float = 50e-3
    learn: bool = True
    invest: bool = True
    known_only: bool = False

    def decide(
        self, kind: Kind, signature: Hashable, size: int, candidates: Iterable[Candidate],
        estimates: Mapping[str, Estimate | None] | None = None,
    ) -> Decision:  # fmt: skip
        """Return where the next call of `signature` runs.

        `estimates` are `Kind.estimates` of those not refused, if the caller has computed them.
        """
        if estimates is None:
            free = [c for c in candidates if not kind.curve(c.name).refused]
            estimates = kind.estimates(free, signature, size)
        if estimates.get(NUMPY) is None:
            return Decision(NUMPY)
        open_to = [c for c in candidates if c.name in estimates]
        best = self.best(kind, signature, open_to, estimates)
        if not self.learn:
            return Decision(best, settled=True)
        attempt, patience = self._attempt(kind, signature, best, open_to, estimates)
        if attempt is None:
            ready = kind.curve(best).cell(signature)
            return Decision(best, settled=ready.count >= 3, patience=patience)
        if not kind.curve(attempt).verified:
            return Decision(NUMPY, trial=attempt, exploring=True)
        leader = estimates[best]
        assert leader is not None
        bought = is_bought(kind, attempt, estimates[attempt], leader.seconds)
        return Decision(attempt, exploring=True, bought=bought)

    def best(
        self,
        kind: Kind,
        signature: Hashable,
        candidates: Iterable[Candidate],
        estimates: Mapping[str, Estimate | None],
    ) -> str:
        """Return the fastest of the backends that are verified and need no compilation.

        Not one for which a loop would be recorded for the first time, if that may cost more than
        this call would save, and more than the allowance.
        """
        numpy = estimates[NUMPY]
        assert numpy is not None
        usable = {NUMPY: numpy.seconds} | {
            c.name: estimate.seconds
            for c in candidates
            if c.name != NUMPY
            and (estimate := estimates[c.name]) is not None
            and kind.curve(c.name).verified
            and (not c.compiles or kind.curve(c.name).cell(signature).ready)
            and self._bears(kind, c.name, signature, estimate.seconds, numpy.seconds)
        }
        return min(usable, key=usable.__getitem__)

    def _bears(
        self, kind: Kind, backend: str, signature: Hashable, seconds: float, against: float
    ) -> bool:
        """Return whether a signature may be recorded for the first time, if it is not known."""
        risk = recording_risk(kind, backend, signature, against)
        return not risk or risk <= max(self.allowance_seconds, against - seconds)

    def _attempt(
        self,
        kind: Kind,
        signature: Hashable,
        best: str,
        candidates: Iterable[Candidate],
        estimates: Mapping[str, Estimate | None],
    ) -> tuple[str | None, float]:
        """Return the backend most worth a try now, or None and the calls until one may be."""
        leader = estimates[best]
        assert leader is not None
        allowance = self.allowance_seconds
        promising: dict[str, float] = {}
        patience = float("inf")
        for candidate in candidates:
            if candidate.name == best:
                continue
            expected = estimates[candidate.name]
            known = self.invest and _is_known(candidate, expected, leader.seconds)
            if self.known_only and not known:
                continue
            if _must_wait(kind, signature, candidate):
                patience = 0.0
                continue
            if _continues(kind.curve(candidate.name), signature, leader.seconds, allowance):
                return candidate.name, 0.0
            saving, now, price = self._outlook(
                kind, signature, candidate, leader.seconds, estimates
            )
            bought = is_bought(kind, candidate.name, expected, leader.seconds)
            if bought and expected is not None:
                bought = self._bears(
                    kind, candidate.name, signature, expected.seconds, leader.seconds
                )
            bought = bought or known
            if saving >= BUY_AT * price and (bought or price <= allowance):
                promising[candidate.name] = saving / max(price, 1e-9)
            elif now:
                patience = min(patience, (BUY_AT * price - saving) / now)
        if promising:
            return max(promising, key=promising.__getitem__), 0.0
        return None, patience

    def _outlook(
        self,
        kind: Kind,
        signature: Hashable,
        candidate: Candidate,
        leader_seconds: float,
        estimates: Mapping[str, Estimate | None],
    ) -> tuple[float, float, float]:
        """Return a try's accumulated saving, this call's saving and the price, all in seconds.

        An infinite price rules the try out.
        """
        curve, cell = kind.curve(candidate.name), kind.curve(candidate.name).cell(signature)
        estimate = estimates[candidate.name] or unknown(leader_seconds)
        now = saving_of(kind.floor(candidate), estimate, leader_seconds)
        if not now:
            return 0.0, 0.0, float("inf")
        price = estimate.loss(leader_seconds) if curve.verified else TRIAL_CALLS * estimate.mean
        if candidate.compiles and not cell.ready:
            price += LOADING_SECONDS if cell.seconds else kind.compile_seconds(candidate)
        price += recording_risk(kind, candidate.name, signature, leader_seconds)
        overdue = cell.idle_seconds > UNSEEN_FACTOR * max(price, estimate.seconds)
        if overdue and not cell.count and estimate.at_best < leader_seconds:
            return float("inf"), now, price
        if estimate.seconds > max(TRY_FACTOR * leader_seconds, TRY_FLOOR_SECONDS):
            return 0.0, 0.0, float("inf")
        near = curve.verified and estimate.spread <= FAR_SPREAD
        signatures = len(kind.curve(NUMPY).cells)
        # Each of ever new signatures is called once: it has missed nothing before.
        missed = cell.missed_seconds + (now if signatures > FEW_SIGNATURES else 0.0)
        if not near and missed * signatures < curve.missed_seconds:
            return 0.0, 0.0, float("inf")  # another signature of this kind is more informative
        saved = cell.missed_seconds if near else curve.missed_seconds  # one far off tells of all
        return saved + now, now, price


def recording_risk(kind: Kind, backend: str, signature: Hashable, leader_seconds: float) -> float:
    """Return what recording a signature for the first time may cost; 0 if its function never loops.

    An estimate of the backend's time does not tell, however sure it is.
    """
    if backend == NUMPY or kind.curve(backend).cell(signature).count:
        return 0.0
    return kind.first_recording_seconds + kind.unbounded * UNBOUNDED * leader_seconds


def _must_wait(kind: Kind, signature: Hashable, candidate: Candidate) -> bool:
    """Return whether a signature still has to be compiled and the compiler is busy."""
    return candidate.busy and not kind.curve(candidate.name).cell(signature).ready


def _continues(curve: Curve, signature: Hashable, leader_seconds: float, allowance: float) -> bool:
    """Return whether to repeat a try whose first calls may have found threads asleep."""
    cell = curve.cells.get(signature)
    if cell is None or not cell.warming or leader_seconds > SHORT_SECONDS:
        return False
    latest = cell.row[-1]
    return curve.verified and latest <= allowance and latest < TRY_FACTOR * leader_seconds


def is_bought(kind: Kind, backend: str, estimate: Estimate | None, against: float) -> bool:
    """Return whether `backend` is verified and expected to be faster, so that a call is no try.

    The time to compile for it is then an investment in later calls, not exploration.
    """
    return bool(estimate and estimate.seconds < against and kind.curve(backend).verified)


def _is_known(candidate: Candidate, estimate: Estimate | None, against: float) -> bool:
    """Return whether a call was measured to be clearly faster on a backend that need not compile.

    Earlier runs did so, for a backend whose results were not compared in this one.
    """
    fast = bool(estimate and estimate.samples and estimate.seconds < KNOWN_SHARE * against)
    return fast and not candidate.compiles


def unknown(seconds: float) -> Estimate:
    """Return the estimate for an unknown backend if the best one takes `seconds`."""
    return Estimate(seconds * UNKNOWN_RATIO, UNKNOWN_SPREAD, "not measured yet")


def saving_of(floor_seconds: float, estimate: Estimate, against: float) -> float:
    """Return the expected saving of a call on a backend, limited by its minimum time."""
    return max(0.0, min(estimate.saving(against), against - floor_seconds))


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
    estimates: Mapping[str, Estimate | None] = MappingProxyType({}),
) -> None:
    """Learn that `calls` calls ran on `backend`, the last of them in `seconds`.

    `estimates` maps backends to `Kind.estimate` before the call, if the caller has computed them.
    `first` marks the first call of its kind in this process, whose sample the next one replaces.
    """
    curve = kind.curve(backend)
    seconds = curve.add(signature, size, seconds, first=first)
    sampled = curve.cells[signature]
    sampled.ready = True
    if backend != NUMPY:
        kind.tell(backend, signature, size)
    total = seconds * calls
    kind.busy_seconds += total
    sampled.busy_seconds += total
    for candidate in candidates:
        rival = kind.curve(candidate.name)
        if candidate.name == backend or rival.refused:
            continue
        floor = kind.floor(candidate)
        if seconds <= floor and signature not in rival.cells:
            continue  # nothing would be saved
        estimate = estimates.get(candidate.name) or kind.estimate(candidate, signature, size)
        saved = saving_of(floor, estimate or unknown(seconds), seconds) * calls
        cell = rival.cell(signature)
        cell.row.clear()
        cell.missed_seconds += saved
        cell.idle_seconds += total
        rival.missed_seconds += saved


def recall_savings(kind: Kind) -> None:
    """Credit the savings to expect from samples that other processes measured.

    A program that runs again is expected to make as many calls as were measured before.
    """
    reference = kind.curve(NUMPY)
    for name, curve in kind.curves.items():
        if name == NUMPY or curve.refused:
            continue
        for signature, cell in curve.cells.items():
            base = reference.cells.get(signature)
            if not (base and base.seconds and cell.seconds) or cell.missed_seconds:
                continue
            saved = (base.typical - cell.typical) * max(base.count, cell.count)
            cell.missed_seconds = max(0.0, saved)
            curve.missed_seconds += cell.missed_seconds


def arrive(kind: Kind, candidate: Candidate, sizes: Mapping[str, int]) -> None:
    """Add a newly opened backend, crediting what it might have saved in past calls."""
    curve = kind.curve(candidate.name)
    if curve.refused:
        return
    for signature, cell in kind.curve(NUMPY).cells.items():
        if not cell.busy_seconds or not isinstance(signature, str) or signature not in sizes:
            continue
        seconds = cell.typical
        estimate = kind.estimate(candidate, signature, sizes[signature]) or unknown(seconds)
        floor = kind.floor(candidate)
        saved = saving_of(floor, estimate, seconds) * cell.busy_seconds / seconds
        curve.cell(signature).missed_seconds += saved
        curve.missed_seconds += saved


def charge_compiled(kind: Kind, backend: str, seconds: float) -> None:
    """Charge a compilation in the background, made for a try that is still to come.

    The accumulated saving stays: it has paid for the compilation and must also pay for the try.
    """
    kind.curve(backend).first_seconds.append(seconds)
    kind.outlay_seconds += seconds


def charge(
    kind: Kind,
    signature: Hashable,
    backend: str,
    lost_seconds: float,
    first_seconds: float = 0.0,
    *,
    bought: bool = False,
) -> None:
    """Charge what a try of `backend` cost, and how much of it was due to a first call.

    Investments (`bought`) are charged separately from exploration.
    """
    curve = kind.curve(backend)
    if first_seconds > 0:
        curve.first_seconds.append(first_seconds)
        curve.missed_seconds = curve.cell(signature).missed_seconds = 0.0
    lost = max(0.0, lost_seconds)
    if bought:
        kind.outlay_seconds += lost
    else:
        kind.spent_seconds += lost
