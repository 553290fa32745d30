"""Measure one call on NumPy and other backends, in turns, on copies of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from math import erfc, hypot, log, sqrt
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuforge.dataclass import dataclass, field
from gpuforge.runtime.backends import Backend
from gpuforge.runtime.evaluation.engine import BackendEngine
from gpuforge.runtime.evaluation.recording import StartAgain, record
from gpuforge.runtime.evaluation.replay import Noted, replay_of
from gpuforge.runtime.execution import pipeline
from gpuforge.runtime.execution.call import Call
from gpuforge.runtime.placement.evidence import Cell, Estimate
from gpuforge.runtime.placement.policy import NUMPY
from gpuforge.runtime.placement.priors import classify

if TYPE_CHECKING:
    from gpuforge.runtime.evaluation.replay import Replay

LEAST_TURNS, MOST_TURNS = 3, 9
IN_A_ROW, ROW_SECONDS = 3, 5e-3
"""A turn is this many calls of one backend, or as many as start within this time; the fastest
counts, because the first may find the library's threads asleep."""
LIMIT_SECONDS = 3.0
"""No turn begins after this time."""
HOPELESS, HOPELESS_AT_ONCE = 3.0, 12.0
"""A backend that takes this many times as long as the fastest is dropped, after two turns and after
one."""
CLEAR = 0.975
"""Measuring stops once it is this likely which of NumPy and the fastest other is faster."""


class Arguments:
    """Copies of a call's arguments, renewed before each run if the function writes to them."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._given = (args, kwargs)
        self._copies = _copy_arrays(self._given)
        self._runs = 0
        self._written = False

    def fresh(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments with the same values as the caller's."""
        if self._runs == 1:
            self._written = not _equal(self._given, self._copies)
        if self._written:
            self._copies = _copy_arrays(self._given)
        self._runs += 1
        found: tuple[tuple[Any, ...], dict[str, Any]] = self._copies
        return found


def _copy_arrays(value: Any, made: dict[int, Any] | None = None) -> Any:
    """Copy each array in a value once; other objects are passed through."""
    made = {} if made is None else made
    if type(value) in (tuple, list):
        return type(value)([_copy_arrays(item, made) for item in value])
    if type(value) is dict:
        return {key: _copy_arrays(item, made) for key, item in value.items()}
    if type(value) is not np.ndarray:
        return value
    if id(value) not in made:
        made[id(value)] = value.copy(order="K")
    return made[id(value)]


def _equal(left: Any, right: Any) -> bool:
    """Return whether two values hold equal arrays in equal containers."""
    if type(left) in (tuple, list):
        same_length = len(left) == len(right)
        return same_length and all(_equal(a, b) for a, b in zip(left, right, strict=True))
    if type(left) is dict:
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if type(left) is np.ndarray and left.dtype.kind in "biufc":
        return left.shape == right.shape and np.array_equal(
            left, right, equal_nan=left.dtype.kind in "fc"
        )
    return type(left) is not np.ndarray


@dataclass
class Contender:
    """One backend in a measurement.

    Attributes
    ----------
    left_out : why it is not a candidate; empty if it is one
    refused : whether it is not a candidate for later calls either
    first_seconds : extra time of its first call, to compile
    transfer_seconds : time to move arguments there and results back, in one call
    runs : number of calls made
    """

    name: str
    make: Callable[[Contender], float]
    cell: Cell = field(default_factory=Cell)
    left_out: str = ""
    refused: bool = False
    first_seconds: float = 0.0
    transfer_seconds: float = 0.0
    runs: int = 0
    replay: Replay | None = None

    def take_turn(self) -> None:
        """Make some calls in a row and add the time of the fastest one as a sample."""
        times: list[float] = []
        while len(times) < IN_A_ROW and sum(times) < ROW_SECONDS:
            seconds = self.make(self)
            self.runs += 1
            if self.left_out:
                return
            times.append(seconds)
        self.cell.row.clear()
        self.cell.add(min(times))

    @property
    def estimate(self) -> Estimate:
        """The time of one call, estimated from the turns so far."""
        turns = len(self.cell.seconds)
        text = f"measured now: {turns} round{'s' * (turns > 1)}"
        return Estimate(self.cell.typical, self.cell.spread, text, turns)


def race(numpy: Contender, others: list[Contender]) -> None:
    """Let NumPy and others take turns until it is clear which is faster.

    NumPy has had its first turn already. Backends that are far behind drop out.
    """
    deadline = perf_counter() + LIMIT_SECONDS
    racing = others
    for turn in range(MOST_TURNS):
        for one in (numpy, *racing) if turn else racing:
            one.take_turn()
        racing = [one for one in racing if not one.left_out]
        if not racing or perf_counter() > deadline:
            return
        if turn + 1 >= LEAST_TURNS and _is_clear(numpy, racing):
            return
        best = min(one.cell.typical for one in (numpy, *racing))
        limit = best * (HOPELESS if turn else HOPELESS_AT_ONCE)
        racing = [one for one in racing if one.cell.typical < limit]
        if not racing:
            return


def _is_clear(numpy: Contender, others: list[Contender]) -> bool:
    fastest = min((one.estimate for one in others), key=lambda found: found.seconds)
    likely = chance(fastest, numpy.estimate)
    return max(likely, 1 - likely) >= CLEAR


class Measurement:
    """The measurement of one call on several backends.

    Attributes
    ----------
    numpy : NumPy, with its first turn taken
    others : the other backends; set by `compare`
    """

    def __init__(self, call: Call) -> None:
        self._start = perf_counter()
        self._call = call
        self._arguments = Arguments(call.args, call.kwargs)
        self.numpy = Contender(NUMPY, self._as_written)
        self.others: list[Contender] = []
        self.numpy.take_turn()

    @property
    def seconds(self) -> float:
        """Wall seconds since the measurement began."""
        return perf_counter() - self._start

    @property
    def runs(self) -> int:
        """Number of calls made so far."""
        return sum(one.runs for one in (self.numpy, *self.others))

    def compare(self, backends: list[Backend]) -> None:
        """Time NumPy and `backends` in turns until it is clear which is faster."""
        self.others = [Contender(one.name, self._recorded_on(one)) for one in backends]
        for one, backend in zip(self.others, backends, strict=True):
            self._begin(one, backend)
        race(self.numpy, [one for one in self.others if not one.left_out])

    def _as_written(self, contender: Contender) -> float:
        args, kwargs = self._arguments.fresh()
        with self._limited(contender):
            start = perf_counter()
            self._call.function.function(*args, **kwargs)
            return perf_counter() - start

    def _limited(self, numpy: Contender) -> AbstractContextManager[None]:
        """Limit NumPy's BLAS to one thread if placement would, to leave cores to other backends."""
        session, known = self._call.session, numpy.cell.seconds
        if known and self.others and session.settings.tame_threads and session.plan is None:
            operations = classify(self._call.function.operations)
            if session.blas.needed(operations, min(known)):
                return session.blas.one_thread()
        return nullcontext()

    def _recorded_on(self, backend: Backend) -> Callable[[Contender], float]:
        return lambda contender: self._recorded(contender, backend)[0]

    def _begin(self, contender: Contender, backend: Backend) -> None:
        """Make the first call on a backend: compile it and compare its results with NumPy's."""
        contender.runs += 1
        _, outcome = self._recorded(contender, backend, comparing=True)
        contender.first_seconds = outcome.compile_seconds if backend.compiles else 0.0

    def _recorded(
        self, contender: Contender, backend: Backend, *, comparing: bool = False
    ) -> tuple[float, Any]:
        """Make one call as placement would; if the backend cannot make it, set `left_out`."""
        call, function = self._call, self._call.function
        args, kwargs = self._arguments.fresh()
        if contender.replay is not None:
            start = perf_counter()
            if contender.replay(args, kwargs) is not None:
                return perf_counter() - start, None
        engine = BackendEngine(
            backend, call.session.reference, call.session.programs,
            exact=call.exact, relaxed=call.relaxed, comparing=comparing,
        )  # fmt: skip
        start = perf_counter()
        try:
            made = record(
                function.function, args, kwargs, engine,
                creates=function.options.convert, noting=Noted if function.dependence else None,
            )  # fmt: skip
        except StartAgain as why:
            contender.left_out = f"it needs a real NumPy array ({why})"
            return 0.0, engine.outcome
        seconds = perf_counter() - start
        outcome = engine.outcome
        contender.refused = bool(outcome.refused)
        contender.left_out = outcome.refused or outcome.settled
        if not contender.left_out and not made.recorder.evaluated:
            contender.left_out = "none of its operations run there"
        contender.transfer_seconds = outcome.transfer_seconds
        if not (comparing or contender.left_out) and made.noted and function.dependence:
            contender.replay = replay_of(made.noted, engine, function.dependence, args, kwargs)
        return seconds, outcome

    def keep(self) -> None:
        """Pass the samples on to placement, if this session learns."""
        call = self._call
        if not call.session.policy.learn or call.session.crowded:
            return
        with call.session.lock:
            for one in (self.numpy, *self.others):
                if one.refused:
                    pipeline.refuse(call, one.name, one.left_out)
                elif one.cell.seconds and not one.left_out:
                    self._keep(one)

    def _keep(self, one: Contender) -> None:
        call = self._call
        curve, size = call.record.kind.curve(one.name), call.signature.size
        for seconds in one.cell.seconds:
            curve.add(call.key, size, seconds)
            curve.cell(call.key).row.clear()
            pipeline.mark_unsaved(call, one.name)
        curve.verified = curve.cell(call.key).ready = True
        if one.first_seconds:
            curve.first_seconds.append(one.first_seconds)
        call.record.transfers[call.key, one.name] = one.transfer_seconds


def chance(one: Estimate, other: Estimate) -> float:
    """Return the probability that `one` takes less time than `other`."""
    distance = log(max(other.seconds, 1e-9) / max(one.seconds, 1e-9))
    return 0.5 * erfc(-distance / hypot(one.spread, other.spread) * sqrt(0.5))
