"""Run a call: decide where, call it as written or record it, settle failures, learn from it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gpuforge import published, trace
from gpuforge.dataclass import dataclass, replace
from gpuforge.log import logger
from gpuforge.runtime.backends import Backend
from gpuforge.runtime.demand import Wanted
from gpuforge.runtime.evaluation.background import COMPILING
from gpuforge.runtime.execution.call import Call, note_overhead, refusal_key
from gpuforge.runtime.execution.decision import candidates, decide, lost_seconds
from gpuforge.runtime.execution.observed import counted_call, record_choice, traced_call
from gpuforge.runtime.function.signature import (
    can_start_again,
    overlapping,
    raising_errors,
    warnings_raise,
)
from gpuforge.runtime.placement.policy import (
    NUMPY,
    NUMPYS_OWN,
    Candidate,
    Decision,
    charge,
    observe,
)
from gpuforge.runtime.placement.priors import classify
from gpuforge.runtime.record import MAX_REPLAYS, CachedDecision, KindRecord
from gpuforge.runtime.session import Session

if TYPE_CHECKING:
    from gpuforge.runtime.evaluation.engine import BackendEngine, Outcome
    from gpuforge.runtime.evaluation.pace import Pace
    from gpuforge.runtime.evaluation.recording import Recorded, StartAgain
    from gpuforge.runtime.evaluation.replay import Replay

_log = logger("placement")
_NO_LIMIT = trace.NOTHING
HOLD_SECONDS, LONG_HOLD = 50e-3, 4
"""How long a decision is cached before the next one, and how many times as long if no other
backend can be worth a try before."""
MAX_HELD, MAX_HELD_ELSEWHERE = 2000, 150
CALLS_OF_ITS_OWN = 2
"""Libraries are opened only for signatures with more samples than this: one that is called once
never gains."""
OUTLIER = 3.0
"""A call that took more than this many times its usual time was delayed by something else. It is
charged at this limit, because NumPy is charged at its usual time."""
WAITING = 1.5
"""The same limit for a call that NumPy settles while its graph is being compiled."""
SURPRISING = 1.5
"""After a call that took more than this many times the median, the decision is not cached."""
PROBING = "it is recorded on NumPy, to find out what a library would gain before it is loaded"
KEPT = "a recorded array outlived the call: the function stored it"
MAX_MISSED, TRIED_EVERY = 3, 16
"""If the numbers differed from the replay's at the first many decisions in a row, calls are only
recorded. One in the second many decisions makes a new replay, in case the numbers stay the same."""
TIRING_SETTLEMENTS = 8
"""A backend is refused for a kind of call after NumPy had to settle this many calls in a row."""


@dataclass
class Placed:
    """The outcome of a placed call: its result, and for how many calls its decision is cached."""

    result: Any
    backend: str
    seconds: float = 0.0
    hold: int = 0
    replay: Replay | None = None
    choice: trace.Choice | None = None
    lost_seconds: float | None = None


def place(call: Call) -> Placed:
    """Run one call where it finishes first, or where the user pinned it.

    Raises whatever the user's function raises.
    """
    probe = _probe(call)
    with trace.within("decide", trace.OVERHEAD) if trace.enabled else trace.NOTHING:
        decision = decide(call) if probe is None else Decision(NUMPY, why=PROBING)
    name = decision.trial or decision.backend
    backend = call.session.backend(name) if name != NUMPY else None
    start = perf_counter()
    try:
        if probe is not None:
            made = probe()
        elif backend is None:
            made = as_written(call, decision)
        else:
            made = _recorded(call, decision, backend)
    except BaseException:  # count the call although it failed
        where = NUMPY if backend is None or decision.trial else backend.name
        call.function.add(where, 1, perf_counter() - start)
        raise
    made.lost_seconds = lost_seconds(decision, made.backend, made.seconds)
    if made.lost_seconds is not None:
        published.compared(made.backend, 1, made.lost_seconds)
    if trace.enabled:
        made.choice = record_choice(call, decision, made.backend, made.seconds)
    return made


def _probe(call: Call) -> Callable[[], Placed] | None:
    """Return what makes this call and learns from it whether a library is worth opening, if due."""
    if call.record.probing is None and call.session.trials.current is None:
        return None
    from gpuforge.runtime.execution import probing

    return probing.due(call)


def as_written(call: Call, decision: Decision) -> Placed:
    """Call the function with the user's own objects, and learn how long that took."""
    first = not call.record.kind.curve(NUMPY).cells
    limit = call.session.blas if limits_threads(call) else None
    with limit.one_thread() if limit else _NO_LIMIT:
        start = perf_counter()
        with trace.within("direct call", trace.HOST) if trace.enabled else trace.NOTHING:
            result = call.function.function(*call.args, **call.kwargs)
        seconds = perf_counter() - start
    learn(call, NUMPY, seconds, first=first)
    return Placed(result, NUMPY, seconds, calls_to_hold(call, decision, seconds))


def limits_threads(call: Call) -> bool:
    """Return whether a NumPy call runs with one BLAS thread, to leave cores to other backends.

    Never in deterministic mode: the number of threads changes the last bits.
    """
    session, cell = call.session, call.record.kind.curve(NUMPY).cells.get(call.key)
    if cell is None or not cell.seconds or session.plan is not None:
        return False
    if all(backend.threads for backend in session.backends()):
        return False  # those threads sleep between calls
    # The shortest sample, since those that competed with another library's threads are too long.
    operations = classify(call.function.operations)
    return session.settings.tame_threads and session.blas.needed(operations, min(cell.seconds))


def hold(call: Call, placed: Placed) -> CachedDecision:
    """Return the decision made for a call, to be cached for the calls that follow."""
    run: Any
    if placed.backend == NUMPY:
        limit = call.session.blas if limits_threads(call) else None
        run = _traced_on_numpy(call, placed.seconds) if placed.choice else None
        # The decision evicted data from the processor's caches, so this call may have been slow.
        seconds = min(placed.seconds, numpy_seconds_of(call) or placed.seconds)
        made = CachedDecision(call.record, NUMPY, seconds, placed.hold, run, limit)
    else:
        run = partial(_call_held, replace(call, args=(), kwargs={}))
        if placed.choice:
            run = traced_call(call, placed.backend, _call_held)
        made = CachedDecision(call.record, placed.backend, placed.seconds, placed.hold, run,
                            replay=placed.replay)  # fmt: skip
        made.numpy_seconds = numpy_seconds_of(call) or 0.0
        made.moved_bytes = call.record.moved_bytes.get((call.key, placed.backend), (0, 0))
    made.choice, made.lost_seconds = placed.choice, placed.lost_seconds
    return made


def _traced_on_numpy(call: Call, seconds: float) -> Callable[..., Any]:
    """Return what makes the next calls on NumPy while tracing is on."""
    if seconds < trace.COUNTED_SECONDS:
        return counted_call(call, _call_traced)
    return traced_call(call, NUMPY, _call_traced)


def _call_traced(
    before: Call, held: CachedDecision, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Make a call on NumPy under a cached decision while tracing is on."""
    with held.limit.one_thread() if held.limit else _NO_LIMIT:
        start = perf_counter()
        result = before.function.function(*args, **kwargs)
        seconds = perf_counter() - start
    if held.is_timed:
        held.timed.append(seconds)
    return result


def _call_held(
    before: Call, held: CachedDecision, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Make a call on another backend under a cached decision: replay or record it, and time it.

    If anything unusual happens, the decision expires and the call is handled like any other.
    """
    if held.replay is not None:
        start = perf_counter()
        found = _replayed(held.replay, args, kwargs)
        if found is not None:
            seconds = perf_counter() - start
            held.timed.append(seconds)
            before.record.note_replayed(before.key, held.backend)
            _add_to_account(before, held, seconds)
            return found[0]
    call = replace(before, args=args, kwargs=kwargs)
    backend = call.session.backend(held.backend)
    if backend is None or raising_errors() or warnings_raise() or overlapping(args):
        placed = as_written(call, Decision(NUMPY))
        held.end()
        return placed.result
    engine = engine_for(call, backend)
    recorded, seconds = recorded_or_written(call, engine)
    if isinstance(recorded, Placed):
        held.end()
        return recorded.result
    outcome = engine.outcome
    if outcome.settled or outcome.refused or outcome.compile_seconds or recorded.kept:
        held.end()
        _learn_from_recording(call, Decision(held.backend), backend, recorded, outcome, seconds)
    else:
        held.timed.append(seconds)
        call.record.note_graphs(call.key, outcome)
        _add_to_account(call, held, seconds)
    return recorded.result


def _add_to_account(call: Call, held: CachedDecision, seconds: float) -> None:
    """Add a call under a cached decision on another backend to the session's account.

    An import in the background slows calls down wherever they run: its price is not theirs.
    """
    took = min(seconds, OUTLIER * held.seconds)
    base = 0.0 if call.session.background.is_importing else held.numpy_seconds
    call.session.account.add(base or took, took, held.backend)


def _replayed(replay: Replay, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
    """Return the result of a replay, alone in a tuple; None if the call must be recorded.

    The body may ask whether two arguments are one array, and no such call is replayed.
    """
    given = (*args, *kwargs.values()) if kwargs else args
    if warnings_raise() or (len(given) > 1 and overlapping(given, twice=True)):
        return None
    return replay(args, kwargs)


def may_be_replayed(replay: Replay, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call is like the recorded one of a replay."""
    given = (*args, *kwargs.values())
    unusual = raising_errors() or warnings_raise() or overlapping(given, twice=True)
    return not unusual and replay.fits(args, kwargs) and replay.dependence.holds()


def _recorded(call: Call, decision: Decision, backend: Backend) -> Placed:
    """Run the function on recorded arrays and evaluate the graph on a backend.

    In a trial, NumPy evaluates the graph too and gives the result; the two are compared.
    """
    again = _again(call, decision, backend)
    if again is not None:
        return again
    engine = engine_for(call, backend, comparing=bool(decision.trial))
    missed = call.record.missed.get((call.key, backend.name), 0)
    may_fit = missed < MAX_MISSED or missed % TRIED_EVERY == 0
    noting = may_fit and not decision.trial
    if not may_fit:
        call.record.missed[call.key, backend.name] = missed + 1
    recorded, seconds = recorded_or_written(call, engine, noting=noting)
    if isinstance(recorded, Placed):
        return recorded
    call.record.kind.unbounded = False  # how long recording takes is known now
    given_back = release_memory(call.session, backend)
    outcome = engine.outcome
    replay = _replay(call, engine, recorded) if noting else None
    if replay is not None and not missed:
        outcome.recording_seconds = max(0.0, seconds - outcome.backend_seconds)
    _learn_from_recording(call, decision, backend, recorded, outcome, seconds)
    refused = call.record.kind.curve(backend.name).refused
    name = NUMPY if decision.trial or refused else backend.name
    if outcome.settled or refused or given_back or recorded.kept:
        return Placed(recorded.result, name, seconds)
    held = calls_to_hold(call, decision, seconds - outcome.recording_seconds)
    return Placed(recorded.result, name, seconds, held, replay)


def _again(call: Call, decision: Decision, backend: Backend) -> Placed | None:
    """Replay a call; None if it must be recorded.

    A call with arrays on a device is recorded, to time how long moving them takes.
    """
    key = (call.key, backend.name)
    replay = call.record.replays.get(key)
    if replay is None or decision.trial:
        return None
    if not replay.fits(call.args, call.kwargs):
        call.record.missed[key] = call.record.missed.get(key, 0) + 1
        call.record.replays.pop(key, None)  # unless another thread did so meanwhile
        return None
    if not backend.on_host:
        return None
    start = perf_counter()
    found = _replayed(replay, call.args, call.kwargs)
    seconds = perf_counter() - start
    if found is None:
        return None
    call.record.note_replayed(call.key, backend.name)
    call.record.settled.clear()
    learn(call, backend.name, seconds, exploring=decision.exploring)
    return Placed(found[0], backend.name, seconds, calls_to_hold(call, decision, seconds), replay)


def _replay(call: Call, engine: BackendEngine, recorded: Recorded) -> Replay | None:
    """Return and keep what replays a recorded call; None if it cannot be replayed."""
    from gpuforge.runtime.evaluation.replay import replay_of

    dependence, replays = call.function.dependence, call.record.replays
    if recorded.noted is None or dependence is None or recorded.kept:
        return None
    replay = replay_of(recorded.noted, engine, dependence, call.args, call.kwargs)
    if replay is not None:
        if len(replays) >= MAX_REPLAYS:
            replays.clear()
        replays[call.key, engine.backend.name] = replay
    return replay


def recorded_or_written(
    call: Call, engine: BackendEngine, *, noting: bool = False
) -> tuple[Recorded | Placed, float]:
    """Record a call, or make it as written if it cannot be recorded; return how long it took.

    `noting` says whether to keep what a replay needs.
    """
    from gpuforge.runtime.evaluation.observed import part
    from gpuforge.runtime.evaluation.recording import StartAgain, record
    from gpuforge.runtime.evaluation.replay import Noted

    function, start = call.function, perf_counter()
    kept = Noted if noting and function.dependence else None
    made: Recorded | Placed
    again: StartAgain | None = None
    try:
        with part("record", engine.backend):
            made = record(
                function.function, call.args, call.kwargs, engine,
                creates=function.options.convert, noting=kept,
            )  # fmt: skip
    except StartAgain as why:
        again = why.with_traceback(None)
    if again is not None:  # only here, or it would be the context of what the function raises
        made = _restart_as_written(call, again, perf_counter() - start)
    return made, perf_counter() - start


def _learn_from_recording(
    call: Call, decision: Decision, backend: Backend, recorded: Recorded, outcome: Outcome,
    seconds: float,
) -> None:  # fmt: skip
    """Learn from a recorded call: fallbacks, arrays that outlived it, its time and outcome."""
    note_recording(call.record, recorded)
    call.record.note_graphs(call.key, outcome)
    if recorded.kept:
        stay(call, recorded.recorder.trouble or KEPT)
    ran = bool(recorded.recorder.evaluated)
    learn_recorded(call, decision, backend.name, seconds, outcome, ran)


def engine_for(call: Call, backend: Backend, *, comparing: bool = False) -> BackendEngine:
    """Return an engine that evaluates the graphs of one call on a backend."""
    from gpuforge.runtime.evaluation.engine import BackendEngine

    session = call.session
    cell = call.record.kind.curve(backend.name).cell(call.key)
    return BackendEngine(
        backend, session.reference, session.programs,
        exact=call.exact, comparing=comparing, relaxed=call.relaxed,
        compiling=comparing or bool(call.pin) or not cell.ready,
        background=None if call.pin or session.plan is not None else session.background,
        pace=pace_of(call), timing=not call.pin,
        numpy_seconds=None if call.pin else numpy_seconds_of(call),
    )  # fmt: skip


def pace_of(call: Call) -> Pace | None:
    """Return the `Pace` that ends a recording if it takes too long and can be restarted."""
    as_written = numpy_seconds_of(call)
    if call.pin or call.session.plan is not None or as_written is None:
        return None
    if call.function.dependence is None or not call.function.dependence.holds():
        return None
    from gpuforge.runtime.evaluation.pace import Pace

    values = (*call.args, *call.kwargs.values())
    return Pace(as_written) if can_start_again(values) else None


def _restart_as_written(call: Call, why: StartAgain, lost: float) -> Placed:
    """Call the function as written because it cannot be recorded, now and from now on.

    If it raises the same kind of exception here, that is its own: recording was not the cause.
    """
    call.session.account.add(0.0, lost)
    published.retried()
    if why.factor:
        return _abandon_recording(call, why)
    reason = f"it needs a real NumPy array ({why})"
    try:
        placed = as_written(call, Decision(NUMPY, settled=True))
    except Exception as error:
        if type(error) is not why.kind:
            stay(call, reason)
        raise
    stay(call, reason)
    return placed


def _abandon_recording(call: Call, why: StartAgain) -> Placed:
    """Call the function as written because recording takes longer than NumPy's call.

    Calls of this kind run as written until NumPy takes longer than recording would.
    """
    placed = as_written(call, Decision(NUMPY, settled=True))
    note_overhead(call, why.factor * placed.seconds)
    _log.info("%s is called directly: %s", call.function.name, why)
    return placed


def stay(call: Call, reason: str) -> None:
    """Call a function as written for good, and remember why."""
    if call.function.stays:
        return
    call.function.stays = reason
    call.session.kept.keep(call.function.stays_key, reason)
    _log.warning("%s is called directly from now on: %s", call.function.name, reason)


def note_recording(kind: KindRecord, recorded: Recorded) -> None:
    """Count the operations that NumPy computed on host arrays within a recorded call."""
    for key, (line, times) in recorded.recorder.fallbacks.items():
        kind.fallbacks[key] = (line, kind.fallbacks.get(key, ("", 0))[1] + times)


def learn_recorded(
    call: Call, decision: Decision, name: str, seconds: float, outcome: Outcome, evaluated: bool
) -> None:
    """Learn from a call whose graphs were evaluated on a backend or settled by NumPy."""
    session, kind = call.session, call.record.kind
    comparing = bool(decision.trial)
    took = seconds - outcome.settled_seconds if comparing else seconds - outcome.recording_seconds
    moved = outcome.put_bytes, outcome.got_bytes
    published.transferred(name, outcome.transfer_seconds, *moved)
    with session.lock:
        curve = kind.curve(name)
        if outcome.died:
            session.notes.append(f"{call.function.name}: {outcome.settled}; NumPy ran the call")
        if outcome.lost:
            session.openings.lose(name, outcome.lost)
        if outcome.settled == COMPILING:
            _learn_waiting(call, name, seconds, outcome)
            return
        if outcome.settled:
            published.settled()
            times = call.record.settled.get(outcome.settled, 0) + 1
            call.record.settled[outcome.settled] = times
        else:
            call.record.settled.clear()
        if outcome.refused or _is_tired(call.record):
            refuse(call, name, outcome.refused or next(iter(call.record.settled)))
        elif not evaluated and not outcome.exhausted:
            refuse(call, name, "none of its operations run there")
        if curve.refused:
            charge(kind, call.key, name, seconds)
            call.function.add(NUMPY, 1, seconds)
            return
        curve.verified = curve.verified or outcome.compared or not comparing
        call.record.transfers[call.key, name] = outcome.transfer_seconds
        call.record.moved_bytes[call.key, name] = moved
        where = NUMPY if comparing or outcome.settled else name
        if outcome.compile_seconds or comparing:
            _learn_first(call, decision, name, where, took, seconds, outcome)
            return
    extra = outcome.recording_seconds
    learn(call, name, took, exploring=decision.exploring, where=where, extra=extra)


def _learn_waiting(call: Call, name: str, seconds: float, outcome: Outcome) -> None:
    """Learn from a call that NumPy settled because one of its graphs is being compiled."""
    if outcome.compilation is not None:
        call.record.compiling[call.key, name] = outcome.compilation
    call.record.kind.curve(name).cell(call.key).ready = False
    call.record.kind.busy_seconds += seconds
    call.function.add(NUMPY, 1, seconds)
    # The slowdown due to the compilation is charged when the compilation has finished.
    base = numpy_seconds_of(call) or seconds
    call.session.account.add(base, min(seconds, WAITING * base), name)


def _is_tired(record: KindRecord) -> bool:
    return sum(record.settled.values()) >= TIRING_SETTLEMENTS


def refuse(call: Call, name: str, reason: str) -> None:
    """Exclude a backend for a kind of call, and remember why for this version of its library."""
    curve = call.record.kind.curve(name)
    curve.refused, curve.verified = reason, False
    key = f"{refusal_key(call.function, call.record)}{name}@{call.session.libraries.version(name)}"
    call.session.kept.keep(key, reason)
    _log.warning("%s: %s is no longer used: %s", call.function.name, name, reason)


def _learn_first(
    call: Call, decision: Decision, name: str, where: str, took: float, seconds: float,
    outcome: Outcome,
) -> None:  # fmt: skip
    """Learn from a call that was compared or compiled, which takes longer than later calls."""
    kind = call.record.kind
    curve = kind.curve(name)
    curve.cell(call.key).ready = True
    steady = max(took - outcome.compile_seconds + outcome.unseen_seconds, 1e-9)
    if not outcome.settled:
        curve.add(call.key, call.signature.size, steady, first=True)
        kind.tell(name, call.key, call.signature.size)
        mark_unsaved(call, name)
    bought = decision.bought or not (decision.exploring or decision.trial)
    extra = took if decision.trial else outcome.compile_seconds
    charge(kind, call.key, name, extra, outcome.compile_seconds, bought=bought)
    kind.busy_seconds += seconds
    call.function.add(where, 1, seconds)
    call.session.account.add(numpy_seconds_of(call) or seconds - extra, seconds, name)


def numpy_seconds_of(call: Call) -> float | None:
    """Return NumPy's usual time for a call like this one; None if it is not known yet."""
    found = call.record.kind.estimate(Candidate(NUMPY), call.key, call.signature.size)
    return found.seconds if found else None


def learn(
    call: Call, name: str, seconds: float, *, first: bool = False, exploring: bool = False,
    where: str = "", extra: float = 0.0,
) -> None:  # fmt: skip
    """Learn how long a call took, unless other placed calls ran at the same time.

    `where` is the backend that gave the result, if it is not the measured one (`name`). `extra` are
    seconds that this call took and those after it will not.
    """
    session, kind, size = call.session, call.record.kind, call.signature.size
    with session.lock:
        call.function.add(where or name, 1, seconds + extra)
        if session.crowded or not session.settings.learn:
            return
        stays = call.function.stays or call.record.stays
        rivals = [Candidate(NUMPY)] if stays else candidates(call)
        if exploring:
            lost = seconds + extra - (numpy_seconds_of(call) or seconds)
            charge(kind, call.key, name, lost)
        if name == NUMPY:
            session.account.add(seconds * (1 + call.held), seconds * (1 + call.held))
        else:  # calls under the cached decision have been added already
            usual = kind.curve(name).cell(call.key)
            most = OUTLIER * usual.typical if usual.seconds else seconds
            took = min(seconds, most) + extra
            base = took if session.background.is_importing else numpy_seconds_of(call)
            session.account.add(base or seconds, took, name)
        observe(
            kind, call.key, size, name, seconds, rivals, calls=1 + call.held,
            first=first or session.background.is_importing, estimates=call.estimates,
        )  # fmt: skip
        mark_unsaved(call, name)
        again = kind.curve(NUMPY).cell(call.key).count > CALLS_OF_ITS_OWN
        wanted = name in NUMPYS_OWN and again and not (stays or call.pin or session.in_the_red)
    if wanted:
        from gpuforge.runtime.execution.probing import known_savings, open_or_probe

        refused = {name for name, curve in kind.curves.items() if curve.refused}
        isolate = call.function.options.isolate
        known = [found.seconds for one in rivals if (found := call.estimates.get(one.name))]
        base = seconds if name == NUMPY else numpy_seconds_of(call) or seconds
        desired, shares = _wanted(call, name, base, min([seconds, *known])), known_savings(call)
        library = session.want(desired, refused, shares, isolate)
        if library is not None:
            open_or_probe(call, library, desired, shares.get(library.name))
    session.flush()


def _wanted(call: Call, name: str, seconds: float, expected: float) -> Wanted:
    return Wanted(
        seconds, 1 + call.held, expected, call.function.operations, call.signature.size,
        call.signature.nbytes, call.record.kind.recording_seconds, name != NUMPY,
        call.record.varies(call.key),
    )  # fmt: skip


def mark_unsaved(call: Call, name: str) -> None:
    """Count a sample that is not in the history yet."""
    key = (call.key, name)
    call.record.unsaved[key] = call.record.unsaved.get(key, 0) + 1


def release_memory(session: Session, backend: Backend) -> bool:
    """Release the memory that a library caches after a call, if due; return whether it was due."""
    from gpuforge.runtime.evaluation.pressure import look, release

    chosen = session.settings
    try:
        look(backend, chosen.pressure_warning, chosen.pressure_critical)
        if chosen.memory_strategy == "pooled":
            return False
        if chosen.memory_strategy == "lazy":
            memory, share = backend.memory(), 1 - chosen.pressure_warning
            if memory is None or memory.free_bytes > share * memory.total_bytes:
                return False
        release(backend)
    except Exception as error:  # noqa: BLE001 - the result is valid even if this fails
        _log.warning("%s cannot release memory: %r", backend.name, error)
    return True


def calls_to_hold(call: Call, decision: Decision, seconds: float) -> int:
    """Return for how many calls a settled decision is cached.

    0 if this call took much longer than the ones before: the next decision must see the change.
    """
    if not decision.settled:
        return 0
    name = decision.backend
    cell = call.record.kind.curve(name).cell(call.key)
    if cell.seconds and seconds > SURPRISING * cell.typical:
        return 0
    most = MAX_HELD if name == NUMPY else MAX_HELD_ELSEWHERE
    calls = HOLD_SECONDS / max(seconds, 1e-7)
    if not call.session.may_open:
        calls = max(calls, min(decision.patience, LONG_HOLD * calls))
    return min(most, int(calls))
