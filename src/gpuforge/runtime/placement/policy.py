"""Which backend runs a call, and when another one is worth a try. Pure: no clock, no I/O.

The backend with the lowest estimated total wins. Trying another one has a price, known or guessed:
the time it may lose, the comparison of its first result with NumPy's, the compilation of a new
signature. What it might have saved, weighed with how likely that is on the evidence, adds up with
every call; a try is made once that has reached the price (rent until the rent equals the price,
then buy), only with what the session may still lose by trying (`account`), and never where it is
expected to take `TRY_FACTOR` times the best.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import NamedTuple

from gpuforge.dataclass import dataclass, field
from gpuforge.runtime.placement.evidence import SHORT_SECONDS, Curve, Estimate, median
from gpuforge.runtime.placement.peers import Peer

NUMPY = "numpy"
TRY_FACTOR = 5.0
TRY_FLOOR_SECONDS = 1e-3
UNKNOWN_RATIO, UNKNOWN_SPREAD = 1.5, 0.7
"""A backend never tried is taken to need this many times NumPy's call."""
CALIBRATED_SPREAD, RELATED_SPREAD = 0.5, 0.4
"""Of what a class of operations suggests, and of what other kinds of the same function do."""
FAR_SPREAD = 0.3
"""What knows less than this is joined with them."""
RELATIVES = 4
TELLING = (1, 3)
"""After so many samples of a signature, what it took is told to other functions."""
TRIAL_CALLS = 1.0
"""What a comparison with NumPy's result costs, in calls: the first ones are often the slowest."""
SHARE_FELT = 0.4
"""Of what is loaded or compiled beside the program, what the program feels: a part of either holds
the interpreter's lock."""
LOADING_SECONDS = 5e-3
"""What loading a program takes that another process compiled: what was measured is kept."""
BUY_AT = 1.2
"""A price is paid once so many times it might have been saved, the call at hand included."""
UNSEEN_FACTOR = 10.0
"""A rival never measured at a signature is, after this many times the price in calls there."""

Prior = Callable[[str, int, float], "Estimate | None"]
"""(backend, elements, NumPy's seconds) -> what is expected, or None when nothing is known."""


class Candidate(NamedTuple):
    """What placement must know of a backend.

    Attributes
    ----------
    floor_seconds : the least that any call on it costs
    compiles : whether each new signature is compiled before it runs
    compile_seconds : what compiling the smallest function took when the backend was opened
    busy : whether it compiles another signature now: none that is not ready can be tried
    """

    name: str
    floor_seconds: float = 0.0
    compiles: bool = False
    compile_seconds: float = 0.1
    busy: bool = False


@dataclass(frozen=True)
class Row:
    """What is known of one backend for one call.

    Attributes
    ----------
    estimate : how long it would take; None where nothing was measured
    refused : why it is no candidate; empty where it is one
    verified : whether a result of it was compared with NumPy's
    """

    backend: str
    estimate: Estimate | None = None
    refused: str = ""
    verified: bool = False


@dataclass(frozen=True)
class Decision:
    """Where one call runs.

    Attributes
    ----------
    backend : the one whose result the caller gets
    trial : a backend to run besides, to compare its result with NumPy's; empty for none
    exploring : whether `backend` is tried rather than known to be best
    bought : whether compiling for it is an outlay for calls to come rather than part of a try
    settled : whether the choice may be kept for the next calls of this signature
    patience : calls of this signature after which a try of another backend may be worth its price
    why : the reason where it is none of the estimates
    rows : what is known of each backend for this call
    """

    backend: str
    trial: str = ""
    exploring: bool = False
    bought: bool = False
    settled: bool = False
    patience: float = 0.0
    why: str = ""
    rows: tuple[Row, ...] = ()


@dataclass
class Kind:
    """Everything known of one kind of call.

    Attributes
    ----------
    busy_seconds : time spent in its calls so far
    spent_seconds : time that trying other backends has cost
    outlay_seconds : time that compiling for backends known to be faster has cost
    recording_seconds : what recording a call takes at least, where that was too long once
    prior : calibrated ratios for its class of operations
    family : the kinds of the same function, itself among them
    peer : its function among the others of the session
    """

    curves: dict[str, Curve] = field(default_factory=dict)
    busy_seconds: float = 0.0
    spent_seconds: float = 0.0
    outlay_seconds: float = 0.0
    recording_seconds: float = 0.0
    prior: Prior | None = None
    family: Sequence[Kind] = field(default=(), repr=False)
    peer: Peer | None = field(default=None, repr=False)

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
        if name != NUMPY and (measured is None or measured.spread > FAR_SPREAD):
            guess = self._by_ratio(name, signature, size)
            measured = measured.joined(guess) if measured and guess else measured or guess
        if measured is None or measured.samples:
            return measured
        return measured._replace(seconds=max(measured.seconds, self.floor(candidate)))

    def floor(self, candidate: Candidate) -> float:
        """Return the least that a call on a backend takes."""
        return max(candidate.floor_seconds, self.recording_seconds)

    def _by_ratio(self, backend: str, signature: Hashable, size: int) -> Estimate | None:
        """Return an estimate from how `backend` compares with NumPy elsewhere."""
        reference = self.curve(NUMPY)
        base = reference.estimate(signature, size, reference)
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
        """Return the time of `backend` over NumPy's at `size`, if both were measured near it."""
        curve, reference = self.curves.get(backend), self.curve(NUMPY)
        if curve is None or curve.refused or not (curve.near(size) and reference.near(size)):
            return None
        there, here = curve.at(size), reference.at(size)
        return there / here if there and here else None

    def tell(self, backend: str, signature: Hashable, size: int) -> None:
        """Let the other functions know what a new signature took over what was expected of it.

        That is what the prior says, else NumPy's time.
        """
        cell = self.curve(backend).cell(signature)
        if not (self.peer and cell.count in TELLING and (ratio := self._ratio(backend, size))):
            return
        base = self.curve(NUMPY).at(size)
        expected = self.prior(backend, size, base) if self.prior and base else None
        if base and expected:
            ratio *= base / expected.seconds
        self.peer.tell(backend, size, ratio)

    def potential(self, backend: str) -> float:
        """Return the seconds that the calls of this process would have saved on a backend.

        Of those signatures that were measured there, with the compilations that were needed.
        """
        reference, curve = self.curve(NUMPY), self.curve(backend)
        saved = -sum(curve.first_seconds)
        for signature, cell in curve.cells.items():
            base = reference.cells.get(signature)
            if base and base.seconds and cell.seconds:
                gained = base.typical - cell.typical
                calls = base.busy_seconds / base.typical + cell.busy_seconds / cell.typical
                saved += max(0.0, gained) * calls
        return saved

    def compile_seconds(self, candidate: Candidate) -> float:
        """Return what one more compiled signature is expected to cost."""
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
    allowance_seconds : what one more try may cost
    learn : whether anything is tried at all
    """

    allowance_seconds: float = 50e-3
    learn: bool = True

    def decide(
        self, kind: Kind, signature: Hashable, size: int, candidates: Iterable[Candidate],
        estimates: Mapping[str, Estimate | None] | None = None,
    ) -> Decision:  # fmt: skip
        """Return where the next call of `signature` runs.

        `estimates` are those of `Kind.estimate`, where the caller has them already.
        """
        open_to = [c for c in candidates if not kind.curve(c.name).refused]
        if estimates is None:
            estimates = {c.name: kind.estimate(c, signature, size) for c in open_to}
        if estimates.get(NUMPY) is None:
            return Decision(NUMPY)
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
    ) -> tuple[str | None, float]:
        """Return the backend most worth a try now, or None, and the calls until one may be."""
        leader = estimates[best]
        assert leader is not None
        allowance = self.allowance_seconds
        promising: dict[str, float] = {}
        patience = float("inf")
        for candidate in candidates:
            if candidate.name == best:
                continue
            if _must_wait(kind, signature, candidate):
                patience = 0.0
                continue
            if _going_on(kind.curve(candidate.name), signature, leader.seconds, allowance):
                return candidate.name, 0.0
            saving, now, price = self._outlook(
                kind, signature, candidate, leader.seconds, estimates
            )
            bought = is_bought(kind, candidate.name, estimates[candidate.name], leader.seconds)
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
        """Return what a try might have saved so far, what a call saves, its price; in seconds.

        The price is infinite where it is barred.
        """
        curve, cell = kind.curve(candidate.name), kind.curve(candidate.name).cell(signature)
        estimate = estimates[candidate.name] or unknown(leader_seconds)
        now = saving_of(kind.floor(candidate), estimate, leader_seconds)
        if not now:
            return 0.0, 0.0, float("inf")
        price = estimate.loss(leader_seconds) if curve.verified else TRIAL_CALLS * estimate.mean
        if candidate.compiles and not cell.ready:
            price += LOADING_SECONDS if cell.seconds else kind.compile_seconds(candidate)
        overdue = cell.idle_seconds > UNSEEN_FACTOR * max(price, estimate.seconds)
        if overdue and not cell.count and estimate.at_best < leader_seconds:
            return float("inf"), now, price
        if estimate.seconds > max(TRY_FACTOR * leader_seconds, TRY_FLOOR_SECONDS):
            return 0.0, 0.0, float("inf")
        near = curve.verified and estimate.spread <= FAR_SPREAD
        if not near and cell.missed_seconds * len(curve.cells) < curve.missed_seconds:
            return 0.0, 0.0, float("inf")  # another signature of this kind tells more
        saved = cell.missed_seconds if near else curve.missed_seconds  # one far off tells of all
        return saved + now, now, price


def _must_wait(kind: Kind, signature: Hashable, candidate: Candidate) -> bool:
    """Return whether a signature is not compiled, and cannot be now."""
    return candidate.busy and not kind.curve(candidate.name).cell(signature).ready


def _going_on(curve: Curve, signature: Hashable, leader_seconds: float, allowance: float) -> bool:
    """Return whether a try that has begun is to be made once more."""
    cell = curve.cells.get(signature)
    if cell is None or not cell.warming or leader_seconds > SHORT_SECONDS:
        return False
    latest = cell.row[-1]
    return curve.verified and latest <= allowance and latest < TRY_FACTOR * leader_seconds


def is_bought(kind: Kind, backend: str, estimate: Estimate | None, against: float) -> bool:
    """Return whether a call on `backend` is no try: expected to be faster, its results compared.

    What it has cost to compile is then an outlay for calls to come, not exploration.
    """
    return bool(estimate and estimate.seconds < against and kind.curve(backend).verified)


def unknown(seconds: float) -> Estimate:
    """Return what is thought of a backend of which nothing is known, where the best is known."""
    return Estimate(seconds * UNKNOWN_RATIO, UNKNOWN_SPREAD, "not measured yet")


def saving_of(floor_seconds: float, estimate: Estimate, against: float) -> float:
    """Return what a call on a backend might save: never more than its floor leaves."""
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
    """Take in that `calls` calls ran on `backend`, the last of them in `seconds`.

    `estimates` are those of `Kind.estimate` before it, where the caller has them.

    `first` says that it was the first call of its kind in this process, whose sample stands only
    until there is another.
    """
    curve = kind.curve(backend)
    seconds = curve.add(signature, size, seconds, first=first)
    curve.cell(signature).ready = True
    if backend != NUMPY:
        kind.tell(backend, signature, size)
    total = seconds * calls
    kind.busy_seconds += total
    curve.cell(signature).busy_seconds += total
    for candidate in candidates:
        rival = kind.curve(candidate.name)
        if candidate.name == backend or rival.refused:
            continue
        estimate = estimates.get(candidate.name) or kind.estimate(candidate, signature, size)
        floor = kind.floor(candidate)
        saved = saving_of(floor, estimate or unknown(seconds), seconds) * calls
        cell = rival.cell(signature)
        cell.row.clear()
        cell.missed_seconds += saved
        cell.idle_seconds += total
        rival.missed_seconds += saved


def recall_savings(kind: Kind) -> None:
    """Take in, once samples of other processes were read, what the next calls may save by them.

    A program that runs again is expected to make as many calls again as were measured.
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
    """Take in that a backend can be used from now on: what it might have saved so far counts."""
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
    """Take in what compiling beside the program cost; the try that it is for is still to come.

    What might have been saved so far has paid for both, and is left to pay for the try.
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
    """Take in what a try of `backend` cost, and what of it was a first call.

    What was bought is told apart from what was tried.
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
