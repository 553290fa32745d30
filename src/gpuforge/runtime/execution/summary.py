"""What this process has placed so far, where and why, as a value for ``gpuforge run``."""

from __future__ import annotations

from gpuforge.dataclass import dataclass, replace
from gpuforge.runtime import heap
from gpuforge.runtime.placement.account import SHARE
from gpuforge.runtime.placement.policy import NUMPY
from gpuforge.runtime.prelude import prelude
from gpuforge.runtime.record import FunctionRecord, KindRecord
from gpuforge.runtime.session import Session, current_session, sessions
from gpuforge.runtime.threads import contention
from gpuforge.units import format_bytes, format_seconds, significant

WORTH_TELLING_SECONDS = 0.2


@dataclass(frozen=True)
class FunctionSummary:
    """One offloaded function.

    Attributes
    ----------
    seconds : wall seconds in its placed calls; untimed calls are extrapolated from timed ones
    placements : (backend, calls, seconds), most used first
    as_written : (reason, calls)
    reason : why it ran where it ran
    within : whether another one calls it, whose seconds contain its own
    """

    name: str
    calls: int
    seconds: float
    placements: tuple[tuple[str, int, float], ...]
    as_written: tuple[tuple[str, int], ...]
    reason: str
    within: bool = False


@dataclass(frozen=True)
class Summary:
    """Everything that this process has placed.

    Attributes
    ----------
    functions : the functions called, by decreasing time
    trying_seconds : time spent comparing and exploring backends
    opening_seconds : time spent importing and testing array libraries
    notes : sentences about settings changed, backends excluded and obstacles
    next_step : a suggestion; empty if there is none
    """

    functions: tuple[FunctionSummary, ...]
    trying_seconds: float
    opening_seconds: float
    notes: tuple[str, ...]
    next_step: str


def collect() -> Summary:
    """Return what all sessions of this process have placed so far."""
    functions: list[FunctionSummary] = []
    notes: dict[str, None] = {}
    trying = opening = 0.0
    for owner in prelude.owners():
        current_session().functions.of(owner, owner._function, owner._options)
    for session in sessions():
        with session.lock:
            records = session.functions.every()
            functions += functions_of(records)
            trying += sum(
                k.kind.spent_seconds + k.kind.outlay_seconds
                for r in records
                for k in r.kinds.values()
            )
            opening += sum(library.opening_seconds for library in session.libraries.values())
            notes.update(dict.fromkeys(_notes(session)))
    functions = sorted((f for f in functions if f.calls), key=lambda f: -f.seconds)
    if trying or opening:
        loading = f"loading libraries took {format_seconds(opening)}"
        notes[f"{loading}, trying them out {format_seconds(trying)}"] = None
    informed = bool(opening) or any(session.priors.table for session in sessions())
    return Summary(tuple(functions), trying, opening, tuple(notes), _next_step(functions, informed))


def functions_of(records: list[FunctionRecord]) -> list[FunctionSummary]:
    """Return a summary of each function; one whose name a slower one uses is called by that."""
    found: list[FunctionSummary] = []
    used: set[str] = set()
    made = [(_function(record), record) for record in records]
    for function, record in sorted(made, key=lambda pair: -pair[0].seconds):
        within = function.name.rpartition(".")[2] in used
        found.append(replace(function, within=within))
        used |= record.operations
    return found


def _function(record: FunctionRecord) -> FunctionSummary:
    record.count_held()
    placements = sorted(
        ((name, count.calls, count.seconds) for name, count in record.counts.items()),
        key=lambda row: -row[1],
    )
    as_written = tuple(sorted(record.as_written.items(), key=lambda row: -row[1]))
    calls = sum(row[1] for row in placements) + sum(row[1] for row in as_written)
    seconds = sum(row[2] for row in placements)
    return FunctionSummary(
        record.name, calls, seconds, tuple(placements), as_written, _reason(record)
    )


def _reason(record: FunctionRecord) -> str:
    """Return why a function ran where it ran, judging by its busiest kind of call."""
    kinds = sorted(record.kinds.values(), key=lambda kind: -kind.kind.busy_seconds)
    if not kinds:
        return ""
    busiest = kinds[0]
    stays = record.stays or busiest.stays
    if stays:
        return stays
    elsewhere = [
        f"{line}: {name} stays on NumPy ({reason})"
        for (name, reason), (line, _) in list(busiest.fallbacks.items())[:2]
    ]
    left_out = [
        f"{name} is not used: {curve.refused}"
        for name, curve in busiest.kind.curves.items()
        if curve.refused
    ]
    return "; ".join([*_comparison(busiest), *left_out, *elsewhere])


def _comparison(record: KindRecord) -> list[str]:
    """Return how NumPy and the fastest other backend compare at the largest signature measured."""
    reference = record.kind.curves.get(NUMPY)
    best: tuple[int, float, str] | None = None
    for name, curve in record.kind.curves.items():
        if name == NUMPY or curve.refused or reference is None:
            continue
        for signature, cell in curve.cells.items():
            other = reference.cells.get(signature)
            if cell.seconds and other is not None and other.seconds:
                size = record.sizes.get(str(signature), 0)
                text = (
                    f"at {size} elements numpy takes {format_seconds(other.typical)},"
                    f" {name} {format_seconds(cell.typical)}"
                )
                found = (size, -cell.typical, text)
                best = max(best, found) if best else found
    return [best[2]] if best else []


def _notes(session: Session) -> list[str]:
    notes = list(session.notes)
    if session.history.problem:
        notes.append(session.history.problem)
    if session.settings.numerics == "relaxed":
        notes.append(
            "numerics are relaxed: warnings may be missing, and precision depends on the backend"
        )
    if session.account.retreated:
        notes.append(
            "placement had cost more than it gained, over"
            f" {significant(100 * SHARE)} % of NumPy's time: trying other backends was paused"
        )
    if heap.kept_bytes:
        notes.append(
            f"up to {format_bytes(heap.kept_bytes)} of freed memory is kept for later arrays"
        )
    return notes + _thread_notes(session)


def _thread_notes(session: Session) -> list[str]:
    state = contention.state
    notes = [f"set {name}={value}" for name, value in state.set_variables.items()]
    if state.restarted:
        notes.append(f"restarted the BLAS threads of {' and '.join(state.restarted)} with it")
    return notes + _spinning_notes(session, state)


def _spinning_notes(session: Session, state: contention.Threads) -> list[str]:
    if not state.reason or not session.backends():
        return []
    text = f"idle BLAS threads take cores from other backends: {state.reason}"
    if state.limited_calls:
        text += f"; {state.limited_calls} short NumPy calls ran with one BLAS thread"
    if state.too_late:
        text += " (start it with 'gpuforge run')"
    return [text]


def _next_step(functions: list[FunctionSummary], informed: bool) -> str:
    for function in functions:
        if function.seconds > WORTH_TELLING_SECONDS and "stays on NumPy" in function.reason:
            return f"{function.name}: {function.reason}"
    only_numpy = all(name == NUMPY for f in functions for name, *_ in f.placements)
    busy = sum(f.seconds for f in functions)
    if functions and not informed and only_numpy and busy > WORTH_TELLING_SECONDS:
        return "run 'gpuforge calibrate' once, so that programs start with measured speeds"
    if functions and busy <= WORTH_TELLING_SECONDS:
        return "nothing to do: the offloaded calls are already short"
    return "to see the evidence for one call, use print(function.explain(*arguments))"
