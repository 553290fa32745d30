"""Whether a call would be faster on another backend than NumPy, by how much, and how we know."""

from __future__ import annotations

from math import ceil
from typing import Any

from gpuforge.dataclass import dataclass
from gpuforge.installation import install_command
from gpuforge.runtime.execution.call import Call, open_call
from gpuforge.runtime.execution.considered import Offloaded
from gpuforge.runtime.execution.decision import refusal
from gpuforge.runtime.execution.explanation import Explanation, Row, explain_call
from gpuforge.runtime.execution.measurement import Contender, Measurement, chance
from gpuforge.runtime.function.naming import name_of
from gpuforge.runtime.function.signature import AsWritten, sign
from gpuforge.runtime.placement.evidence import Estimate
from gpuforge.runtime.placement.policy import FAR_SPREAD, NUMPY, Candidate
from gpuforge.runtime.placement.priors import UNPROMISING_SECONDS, is_for_gpus
from gpuforge.runtime.session import current_session
from gpuforge.units import format_seconds, significant

SURE = 0.8
"""Less likely predictions give no verdict. Calibrated priors alone are right in 85 % of the cells
of ``benchmarks/would_benefit.py``, and in 95 % of those where they are this sure."""
ENOUGH_SAMPLES, CERTAIN = 3, 0.95
"""Learned timings suffice without a measurement if there are this many of each backend, or if they
make it this certain which one is faster."""


@dataclass(frozen=True)
class Benefit:
    """Whether a call would be faster on another backend than NumPy; printable.

    True where the verdict is ``"yes"``.

    Attributes
    ----------
    function, call : name of the function; dtypes and shapes of the arrays
    verdict : ``"yes"``, ``"no"`` or ``"unknown"``
    reason : a sentence that explains the verdict
    backend : the fastest other backend; empty if none can make the call
    numpy_seconds, other_seconds : time of one call on NumPy and on `backend`, transfers included;
        None if unknown
    transfer_seconds : part of `other_seconds` spent moving arguments there and results back; None
        if not measured
    first_seconds : extra time of the first call there, to compile
    confidence : probability that the verdict is right, from the spread of the estimates; None if it
        rests on no measured or predicted time
    evidence : ``"measured"``, ``"learned"``, ``"predicted"`` or ``"nothing"``
    rows : what is known about each backend
    advice : suggestions
    runs, cost_seconds : calls made for this answer, and the time that finding it took, including
        loading libraries
    """

    function: str
    call: str
    verdict: str
    reason: str
    backend: str = ""
    numpy_seconds: float | None = None
    other_seconds: float | None = None
    transfer_seconds: float | None = None
    first_seconds: float = 0.0
    confidence: float | None = None
    evidence: str = "nothing"
    rows: tuple[Row, ...] = ()
    advice: tuple[str, ...] = ()
    runs: int = 0
    cost_seconds: float = 0.0

    def __bool__(self) -> bool:
        return self.verdict == "yes"

    @property
    def ratio(self) -> float | None:
        """NumPy's time divided by that of the fastest other backend."""
        if self.numpy_seconds is None or not self.other_seconds:
            return None
        return self.numpy_seconds / self.other_seconds

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        sure = "" if self.confidence is None else f" ({100 * self.confidence:.0f} % sure)"
        notes = [f"would benefit: {self.verdict}{sure}: {self.reason}", *self.advice]
        if self.runs:
            notes.append(
                f"measuring this took {self.runs} calls and {format_seconds(self.cost_seconds)}"
            )
        return str(Explanation(self.function, self.call, "", self.rows, tuple(notes)))


def benefit_of(
    offloaded: Offloaded, args: tuple[Any, ...], kwargs: dict[str, Any], *, measure: bool
) -> Benefit:
    """Return whether a call would be faster elsewhere; it is run only if `measure` is true."""
    session, written = current_session(), offloaded._function
    name = name_of(written)
    if not session.settings.enabled:
        return as_written(name, "GPUFORGE_ENABLED is off")
    function = session.functions.of(offloaded, written, offloaded._options)
    signature = sign(args, kwargs, offloaded._options.convert, function.numbers.changing)
    if isinstance(signature, AsWritten):
        return as_written(name, signature.reason)
    call = open_call(session, function, signature, args, kwargs)
    stays = function.stays or call.record.stays
    if stays:
        return as_written(name, stays, signature.text)
    session.openings.collect()
    if call.pin and call.pin != NUMPY:
        session.find(call.pin)
    known = _answer_from_evidence(call)
    if known.evidence == "learned" or not measure:
        return known
    return _answer_by_measuring(call)


def as_written(function: str, reason: str, call: str = "") -> Benefit:
    """Return the answer for a call that is not placed."""
    return Benefit(function, call, "no", f"it is called directly: {reason}", confidence=1.0)


def _other_candidates(call: Call) -> list[Candidate]:
    """Return the open backends, NumPy excluded, that may make the call."""
    pin = call.pin if call.pin != NUMPY else ""
    wanted = call.session.find(pin).name if pin else ""
    return [
        one for one in call.session.candidates(call.function.options.device)
        if one.name != NUMPY and wanted in ("", one.name) and not refusal(call, one.name)
    ]  # fmt: skip


def _unopened_libraries(call: Call) -> list[str]:
    """Return the libraries that could be opened for the call."""
    libraries = call.session.libraries
    if call.session.forked or (call.pin and call.pin != NUMPY):
        return []
    return [one.name for one in libraries.values() if not libraries.is_no_choice(one)]


def _answer_from_evidence(call: Call) -> Benefit:
    """Return the answer from what is known already, without running anything."""
    kind, key, size = call.record.kind, call.key, call.signature.size
    with call.session.lock:
        if kind.prior is None:  # no library is open yet
            call.session.equip(call.function, call.record)
        base = kind.estimate(Candidate(NUMPY), key, size)
        others = {one.name: kind.estimate(one, key, size) for one in _other_candidates(call)}
        for library in _unopened_libraries(call):
            for name in _devices(call, library):
                if not refusal(call, name):
                    others[name] = kind.estimate(Candidate(name), key, size)
        rows = explain_call(call).rows
    found = {name: estimate for name, estimate in others.items() if estimate is not None}
    made = _Answer(call, rows)
    if base is None:
        return made.unknown("NumPy's time has not been measured")
    if _is_learned(base) and base.seconds < UNPROMISING_SECONDS:
        return made.short(base)
    if not others:
        return made.without_others(base)
    if len(found) < len(others):
        missing = ", ".join(name for name in others if name not in found)
        return made.unknown(f"there is no estimate of how long {missing} would take", base)
    learned = _is_conclusive(base, found)
    first = {name: kind.compile_seconds(one) for one in call.candidates
             if (name := one.name) in found and one.compiles
             and not kind.curve(name).cell(key).ready}  # fmt: skip
    return made.judged(base, found, "learned" if learned else "predicted", first)


def _is_learned(estimate: Estimate) -> bool:
    return estimate.samples >= ENOUGH_SAMPLES and estimate.spread <= FAR_SPREAD


def _is_conclusive(base: Estimate, others: dict[str, Estimate]) -> bool:
    """Return whether learned timings suffice without a measurement."""
    if all(map(_is_learned, (base, *others.values()))):
        return True
    likely = max(chance(one, base) for one in others.values())
    timed = base.samples and all(one.samples for one in others.values())
    return bool(timed) and max(likely, 1 - likely) >= CERTAIN


def _devices(call: Call, library: str) -> list[str]:
    """Return the devices that a library had when it was last opened.

    If it never was: its CPU, or its bare name, without estimates, if there may be a GPU.
    """
    session = call.session
    kept = session.kept.constant(f"devices:{library}@{session.libraries.version(library)}")
    if isinstance(kept, list):
        return [str(name) for name in kept]
    no_gpu = is_for_gpus("cupy")
    return [f"{library}:cpu" if no_gpu else library]


def _answer_by_measuring(call: Call) -> Benefit:
    """Run the call on copies of its arguments, on each backend, and return the answer."""
    session = call.session
    with session.running:
        made = Measurement(call)
        if made.numpy.cell.typical >= UNPROMISING_SECONDS:
            for library in _unopened_libraries(call):
                session.openings.open(session.libraries[library])
            names = [one.name for one in _other_candidates(call)]
            made.compare([one for one in session.backends() if one.name in names])
        crowded = session.crowded
        made.keep()
    answer = _Answer(call, _rows(call, made), made, crowded)
    base = made.numpy.estimate
    able = [one for one in made.others if not one.left_out]
    if not made.others and base.seconds < UNPROMISING_SECONDS:
        return answer.short(base)
    if not able:
        return answer.without_others(base)
    first = {one.name: one.first_seconds for one in able}
    return answer.judged(base, {one.name: one.estimate for one in able}, "measured", first)


def _rows(call: Call, made: Measurement) -> tuple[Row, ...]:
    measured = {one.name: one for one in (made.numpy, *made.others)}
    rest = [row for row in explain_call(call).rows if row.backend not in measured]
    return (*map(_row, measured.values()), *rest)


def _row(one: Contender) -> Row:
    if one.left_out:
        return Row(one.name, None, None, None, f"not a candidate: {one.left_out}", candidate=False)
    found, transfer = one.estimate, one.transfer_seconds
    return Row(one.name, transfer, max(0.0, found.seconds - transfer), found.seconds,
               found.evidence)  # fmt: skip


class _Answer:
    """Builds the answer for one call from its estimates."""

    def __init__(
        self, call: Call, rows: tuple[Row, ...], made: Measurement | None = None,
        crowded: bool = False,
    ) -> None:  # fmt: skip
        self.call, self.rows = call, rows
        self.runs = made.runs if made else 0
        self.cost = made.seconds if made else 0.0
        self.crowded = crowded

    def _of(self, verdict: str, reason: str, advice: list[str], **fields: Any) -> Benefit:
        if self.crowded:
            advice = [*advice, "other threads made calls during the measurement: measure again"]
        return Benefit(
            self.call.function.name, self.call.signature.text, verdict, reason, rows=self.rows,
            advice=tuple(advice), runs=self.runs, cost_seconds=self.cost, **fields,
        )  # fmt: skip

    def unknown(self, reason: str, base: Estimate | None = None) -> Benefit:
        """Return that the answer needs a measurement."""
        advice = ["measure=True measures it by running it on copies of its arguments"]
        if not self.call.session.priors.table:
            advice.append("'gpuforge calibrate' improves predictions and takes ten seconds")
        return self._of(
            "unknown", reason, advice, numpy_seconds=base.seconds if base else None
        )  # fmt: skip

    def short(self, base: Estimate) -> Benefit:
        """Return that the call is too short to gain elsewhere."""
        reason = (
            f"NumPy takes {format_seconds(base.seconds)}; a call to another library costs"
            f" about {format_seconds(UNPROMISING_SECONDS)}"
        )
        return self._of(
            "no", reason, ["combine many such calls into one on a larger array"],
            numpy_seconds=base.seconds, confidence=1.0, evidence=_evidence(base),
        )  # fmt: skip

    def without_others(self, base: Estimate) -> Benefit:
        """Return that no other backend can make the call."""
        if any(row.candidate is False and row.backend != NUMPY for row in self.rows):
            reason, advice = "no other backend can run this call: see the reasons above", []
        else:
            reason = "no other allowed array library is installed"
            advice = [f"install one: {install_command('torch')}"]
        return self._of("no", reason, advice, numpy_seconds=base.seconds, evidence=_evidence(base))

    def judged(
        self, base: Estimate, others: dict[str, Estimate], evidence: str, first: dict[str, float]
    ) -> Benefit:
        """Return which backend is faster, according to the estimates."""
        name = min(others, key=lambda one: others[one].seconds)
        best = others[name]
        likely = max(chance(one, base) for one in others.values())
        faster = best.seconds < base.seconds
        confidence: float | None = min(likely if faster else 1 - likely, 0.99)
        times = best.seconds / base.seconds
        reason = (
            f"{name} takes {format_seconds(best.seconds)}, NumPy"
            f" {format_seconds(base.seconds)}: {significant(max(times, 1 / times))} times as"
            f" {'fast' if faster else 'slow'}"
        )
        verdict = "yes" if faster else "no"
        if evidence == "predicted" and confidence is not None and confidence < SURE:
            verdict, confidence = "unknown", None
            reason = f"the prediction is uncertain: {reason}"
        extra = first.get(name, 0.0)
        transfer = next((row.transfer_seconds for row in self.rows if row.backend == name), None)
        return self._of(
            verdict, reason, self._advice(verdict, base, best, name, extra), backend=name,
            numpy_seconds=base.seconds, other_seconds=best.seconds, transfer_seconds=transfer,
            first_seconds=extra, confidence=confidence, evidence=evidence,
        )  # fmt: skip

    def _advice(
        self, verdict: str, base: Estimate, best: Estimate, name: str, first: float
    ) -> list[str]:
        if verdict == "unknown":
            return list(self.unknown("").advice)
        if verdict == "no":
            return ["a larger array, or several calls combined into one, may gain"]
        advice = [f"@gpuforge.offload chooses it automatically; backend={name!r} pins it"]
        if first > 0:
            calls = ceil(first / max(base.seconds - best.seconds, 1e-9))
            advice.append(
                f"the first call there takes {format_seconds(first)} longer, to compile; it pays"
                f" off after {calls} calls"
            )
        return advice


def _evidence(base: Estimate) -> str:
    return "measured" if base.evidence.startswith("measured") else "learned"
