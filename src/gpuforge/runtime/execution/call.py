"""One call in progress, with what this session knows about its function and kind."""

from __future__ import annotations

from typing import Any

from gpuforge import __version__
from gpuforge.dataclass import dataclass, field
from gpuforge.digest import digest
from gpuforge.runtime.function.reading import LOOP
from gpuforge.runtime.function.signature import Signature, can_start_again
from gpuforge.runtime.placement.evidence import Estimate
from gpuforge.runtime.placement.policy import Candidate, recall_savings
from gpuforge.runtime.record import MAX_KINDS, FunctionRecord, KindRecord, stable_text
from gpuforge.runtime.session import Session


@dataclass
class Call:
    """One call in progress.

    Attributes
    ----------
    args, kwargs : as the user gave them
    held : calls of the same signature made under a cached decision since the last decision
    able : the candidates that may run the call; filled by `decide`
    estimates : expected time on those of them that may be faster than NumPy; filled by `decide`
    """

    session: Session
    function: FunctionRecord
    record: KindRecord
    signature: Signature
    key: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    held: int = 0
    able: list[Candidate] | None = None
    estimates: dict[str, Estimate | None] = field(default_factory=dict)

    @property
    def candidates(self) -> list[Candidate]:
        """NumPy, and the open backends on devices that the function may use."""
        options = self.function.options
        return self.session.candidates(options.device, options.isolate)

    @property
    def exact(self) -> bool:
        """Whether operations that may differ from NumPy for some values stay on NumPy."""
        return (self.function.options.numerics or self.session.settings.numerics) == "exact"

    @property
    def relaxed(self) -> bool:
        """Whether warnings may be missing and precision may be the backend's own."""
        return (self.function.options.numerics or self.session.settings.numerics) == "relaxed"

    @property
    def pin(self) -> str:
        """The backend to which the function, or else the settings, pin the call; empty for none."""
        return self.function.options.backend or self.session.settings.backend


def open_call(
    session: Session,
    function: FunctionRecord,
    signature: Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    held: int = 0,
) -> Call:
    """Return the call with its records, creating them or reading them from the history."""
    if function.numbers.changing:
        signature = signature.general(args, kwargs, function.numbers.changing)
    with session.lock:
        record = function.kinds.get(signature.kind)
        if record is None:
            record = _new_kind(session, function, signature)
            loops = LOOP in function.operations
            record.kind.unbounded = loops and not can_start_again((*args, *kwargs.values()))
        key = record.key(signature)
    return Call(session, function, record, signature, key, args, kwargs, held)


def _new_kind(session: Session, function: FunctionRecord, signature: Signature) -> KindRecord:
    stem = stable_text(signature.kind)
    record = KindRecord(digest(stem), signature.text, stem[:-1])
    if len(function.kinds) >= MAX_KINDS:
        record.stays = f"over {MAX_KINDS} kinds of call: an argument differs in every call"
        return record
    record.bytes_each = signature.nbytes / max(signature.size, 1)
    record.kind.family = function.family
    function.family.append(record.kind)
    function.kinds[signature.kind] = record
    _recall(session, function)
    _recall_refusals(session, function, record)
    overhead = session.kept.constant(_overhead_key(function, record))
    if isinstance(overhead, float):
        record.kind.recording_seconds = overhead
    return record


def _recall(session: Session, function: FunctionRecord) -> None:
    """Fill the kinds of a function with what other processes learned."""
    if not session.kept.measured or function.digest not in session.kept.measured:
        return
    for timing in session.kept.timings(function.digest):
        for record in function.kinds.values():
            name = timing.backend.split("@")[0]
            curve = record.kind.curve(name)
            known = timing.signature in curve.cells and curve.cells[timing.signature].seconds
            if record.digest == timing.kind and not known:
                record.sizes[timing.signature] = timing.size
                for seconds in timing.seconds:
                    curve.add(timing.signature, timing.size, seconds)
                curve.cell(timing.signature).row.clear()  # these samples are from other processes
    for record in function.kinds.values():
        recall_savings(record.kind)


def refusal_key(function: FunctionRecord, record: KindRecord) -> str:
    """Return the prefix of the history's keys for refusals of one kind of call."""
    return f"refused:{__version__}:{function.digest}:{record.digest}:"


def _overhead_key(function: FunctionRecord, record: KindRecord) -> str:
    return f"recording:{__version__}:{function.digest}:{record.digest}"


def note_overhead(call: Call, seconds: float) -> None:
    """Remember the minimum time that recording a call of this kind takes."""
    call.record.kind.recording_seconds = seconds
    call.session.kept.keep(_overhead_key(call.function, call.record), seconds, later=True)


def _recall_refusals(session: Session, function: FunctionRecord, record: KindRecord) -> None:
    """Exclude the backends that other processes excluded with the same version of the library."""
    if not session.kept.has("refused:"):
        return
    start = refusal_key(function, record)
    for key, reason in session.kept.constants(start).items():
        name, _, version = key.removeprefix(start).partition("@")
        if isinstance(reason, str) and version == session.libraries.version(name):
            record.kind.curve(name).refused = reason
