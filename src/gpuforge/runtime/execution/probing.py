"""Before a library is imported: what recording a call takes, and how long the library would."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuforge.dataclass import replace
from gpuforge.log import logger
from gpuforge.runtime.demand import MAX_SENT_BYTES, Wanted
from gpuforge.runtime.evaluation.pace import MOST_CALLS, TELLING_SECONDS
from gpuforge.runtime.execution.call import Call, note_overhead
from gpuforge.runtime.execution.decision import MAX_GRAPHS, has_effects
from gpuforge.runtime.execution.pipeline import (
    KEPT,
    Placed,
    mark_unsaved,
    may_be_replayed,
    numpy_seconds_of,
    pace_of,
    recorded_or_written,
    refuse,
    stay,
)
from gpuforge.runtime.function.reading import LOOP
from gpuforge.runtime.libraries import Library
from gpuforge.runtime.placement.policy import FAR_SPREAD, NUMPY, UNBOUNDED, charge

if TYPE_CHECKING:
    from gpuforge.runtime.evaluation.engine import BackendEngine
    from gpuforge.runtime.evaluation.recording import Recorded
    from gpuforge.runtime.evaluation.replay import Noted, Replay
    from gpuforge.runtime.workers.trial import Preparing, Timing, Trial

_log = logger("placement")
_RECORDING = "gpuforge.runtime.evaluation.engine"
MARGIN = 0.1
"""Share of a call that a library must save before it counts: what its sample does not contain, such
as guards, and what a single sample may be wrong by."""
GAINING = "calls that it may speed up"
UNPAID = "recording each call would take longer than it could save"


def open_or_probe(call: Call, library: Library, wanted: Wanted, known: float | None = None) -> None:
    """Try a library on such a call in a process of its own; if that is not possible, open it.

    It is opened in the background, after measuring what recording such a call takes.
    """
    session = call.session
    if _risk(call) > session.allowance() or has_effects(call):
        return
    if not library.is_numpy and session.demand.is_tried_first(library, wanted, known):
        device = call.function.options.device
        session.trials.begin(library, call.record, call.key, wanted.seconds, device)
    elif _RECORDING in sys.modules:
        _open_or_record(call, library)
    else:  # importing it takes 60 ms, which NumPy's calls need not wait for
        bare = replace(call, args=(), kwargs={})
        session.background.start(partial(_open_or_record, bare, library), computes=False)


def _risk(call: Call) -> float:
    """Return how long recording this call may take before it is given up, if its function loops."""
    if LOOP not in call.function.operations or call.record.probed:
        return 0.0
    calls = UNBOUNDED if call.record.kind.unbounded else MOST_CALLS
    return calls * (numpy_seconds_of(call) or 0.0) + TELLING_SECONDS


def _open_or_record(call: Call, library: Library) -> None:
    import_module(_RECORDING)
    record, function = call.record, call.function
    if record.probed or function.dependence is None or call.session.plan is not None:
        _open(call, library)
    else:
        record.probing = library
        function.drop_decisions()  # so that the next call is the probe


def due(call: Call) -> Callable[[], Placed] | None:
    """Return what makes this call as a probe, or as a step of a trial; None if neither is due."""
    session, library = call.session, call.record.probing
    if library is not None:
        return partial(_probe_recording, call, library)
    trial = session.trials.of(call.record, call.key)
    disturbed = session.crowded or session.background.is_importing
    if trial is None or disturbed or not trial.waits:
        return None
    if trial.is_over or trial.is_hopeless:
        if trial.is_hopeless:
            _learn_tried(call, trial, trial.expected_seconds or 0.0)
        session.trials.end(trial)
        return None
    return partial(_time_in_trial if trial.is_ready else _record_for_trial, call, trial)


def _open(call: Call, library: Library) -> None:
    """Open a library in the background, after NumPy in blocks."""
    call.session.openings.open_in_background([*_quick(call), library], GAINING)


def _quick(call: Call) -> list[Library]:
    """Return the libraries that open in milliseconds: NumPy in blocks.

    If each call has to be recorded, a try in blocks may take several times as long as the call.
    """
    libraries = call.session.libraries
    quick = [one for one in libraries.values() if one.is_numpy and not libraries.is_no_choice(one)]
    return [] if call.record.kind.recording_seconds else quick


def _probe_recording(call: Call, library: Library) -> Placed:
    """Record a call and evaluate it on NumPy, before a library is loaded for calls like it."""
    from gpuforge.runtime.evaluation.engine import BackendEngine

    session = call.session
    call.record.probing = None
    reference = session.reference
    engine = BackendEngine(
        reference, reference, session.programs, exact=call.exact, pace=pace_of(call)
    )
    made, recorded = _recorded_on_numpy(call, engine)
    if recorded is not None:
        _open(call, library)
    return made


def _record_for_trial(call: Call, trial: Trial) -> Placed:
    """Record a call and evaluate it on NumPy, and have its graphs compiled in another process."""
    from gpuforge.runtime.workers.trial import Preparing

    session, backend = call.session, trial.backend
    assert backend is not None
    engine = Preparing(
        backend, session.reference, trial.programs, exact=call.exact, pace=pace_of(call)
    )
    try:
        made, recorded = _recorded_on_numpy(call, engine)
    except BaseException:
        session.trials.end(trial)
        raise
    if recorded is None:
        if call.record.kind.recording_seconds:
            call.record.kind.curve(trial.device).refused = UNPAID
        session.trials.end(trial)
    elif backend.compiles and len(engine.graphs) > MAX_GRAPHS:
        refuse(call, trial.device, "its graphs are too many, or too large, to be compiled")
        session.trials.end(trial)
    elif engine.nbytes > MAX_SENT_BYTES:
        trial.fail("its arrays are too large to be copied")
        session.trials.end(trial)
    else:
        trial.replay = _replay_for_trial(call, recorded.noted, engine)
        session.trials.prepare(trial, engine.graphs)
        session.openings.open_in_background(_quick(call), GAINING)
    return made


def _replay_for_trial(call: Call, noted: Noted | None, engine: Preparing) -> Replay | None:
    """Return what the next call is timed by if recording it again would take longer than it."""
    from gpuforge.runtime.evaluation.replay import replay_of

    dependence, kind = call.function.dependence, call.record.kind
    is_slow = kind.first_recording_seconds > (numpy_seconds_of(call) or 0.0)
    if noted is None or dependence is None or not is_slow:
        return None
    return replay_of(noted, engine, dependence, call.args, call.kwargs)


def _recorded_on_numpy(call: Call, engine: BackendEngine) -> tuple[Placed, Recorded | None]:
    """Record a call that NumPy evaluates; return it, also as recorded if a library may gain."""
    pace = engine.pace
    call.record.probed = True
    recorded, seconds = recorded_or_written(call, engine, noting=True)
    if isinstance(recorded, Placed):
        return recorded, None
    pays = False
    if LOOP in call.function.operations:
        call.record.kind.unbounded = False
        call.record.kind.first_recording_seconds = max(
            0.0, seconds - (numpy_seconds_of(call) or 0.0)
        )
    if recorded.kept:
        stay(call, recorded.recorder.trouble or KEPT)
    elif not recorded.recorder.evaluated:  # it computes nothing that a library could
        note_overhead(call, seconds)
    elif pace is not None and pace.graphs > 1 and not _can_be_replayed(recorded):
        note_overhead(call, pace.recording_seconds())
    else:
        pays = True
    return _counted(call, recorded.result, seconds), recorded if pays else None


def _can_be_replayed(recorded: Recorded) -> bool:
    return bool(recorded.noted and recorded.noted.is_plain and recorded.recorder.evaluations)


def _counted(call: Call, result: Any, seconds: float) -> Placed:
    """Count a call that NumPy made, and return it."""
    with call.session.lock:
        call.function.add(NUMPY, 1, seconds)
        call.record.kind.busy_seconds += seconds
        call.session.account.add(numpy_seconds_of(call) or seconds, seconds)
    return Placed(result, NUMPY, seconds)


def _time_in_trial(call: Call, trial: Trial) -> Placed:
    """Make a call on NumPy, and in another process to learn how long a library takes for it."""
    from gpuforge.runtime.workers.trial import Timing

    session, backend = call.session, trial.backend
    assert backend is not None
    # Without a pace: recording it was measured before, and what is sent takes time, too.
    engine = Timing(
        backend, session.reference, trial.programs, exact=call.exact, relaxed=call.relaxed,
        comparing=True, numpy_seconds=numpy_seconds_of(call),
    )  # fmt: skip
    start = perf_counter()
    try:
        if trial.replay is not None and may_be_replayed(trial.replay, call.args, call.kwargs):
            result = _replayed_there(call, trial.replay, engine)
        else:
            recorded, _ = recorded_or_written(call, engine)
            if isinstance(recorded, Placed):
                return recorded
            if recorded.kept:
                stay(call, recorded.recorder.trouble or KEPT)
            result = recorded.result
        seconds = perf_counter() - start
        _learn_from_trial(call, trial, engine)
    finally:
        session.trials.end(trial)
    with session.lock:
        lost = max(0.0, seconds - (numpy_seconds_of(call) or seconds))
        charge(call.record.kind, call.key, trial.device, lost)
    return _counted(call, result, seconds)


def _replayed_there(call: Call, replay: Replay, engine: Timing) -> Any:
    """Call the function as written, after it was replayed in another process; compare the two."""
    values = [*call.args, *call.kwargs.values()]
    hosts = engine.replayed(replay, list(values))
    result = call.function.function(*call.args, **call.kwargs)
    if hosts is not None:
        made, wanted = _arrays(replay.form.made(hosts, values)), _arrays(result)
        made += [hosts[index] for _, index in replay.writes]
        wanted += [values[place] for place, _ in replay.writes]
        engine.compare(replay, wanted, made)
    return result


def _arrays(result: Any) -> list[Any]:
    several = result if isinstance(result, tuple | list) else [result]
    return [np.asarray(one) for one in several if one is not None]


def _learn_from_trial(call: Call, trial: Trial, engine: Timing) -> None:
    outcome, curve = engine.outcome, call.record.kind.curve(trial.device)
    _log.info("%s on %s: %s", call.function.name, trial.device, outcome)
    if engine.was_busy:
        trial.fail("other programs used the cores")
    elif outcome.died:
        curve.refused = f"its process ended, or took too long: {outcome.settled}"
    elif engine.trouble is not None and not engine.failed_there:
        curve.refused = f"it could not be tried: {outcome.settled}"
    elif outcome.refused:
        refuse(call, trial.device, outcome.refused)
    elif outcome.settled:  # the values of other calls may be fine, perhaps in the next run
        curve.refused = outcome.settled
    elif not outcome.programs:
        refuse(call, trial.device, "none of its operations run there")
    else:
        _learn_tried(call, trial, outcome.run_seconds + outcome.unseen_seconds)


def _learn_tried(call: Call, trial: Trial, seconds: float) -> None:
    """Learn how long a library takes, and count what it would have saved so far."""
    session, kind, name = call.session, call.record.kind, trial.device
    assert trial.backend is not None
    with session.lock:
        session.libraries.tried[name] = trial.backend.version
        kind.curve(name).add(call.key, call.signature.size, max(seconds, 1e-9))
        kind.tell(name, call.key, call.signature.size)
        mark_unsaved(call, name)
        call.record.shares.pop((call.key, name), None)
        trial.library.missed_seconds += kind.potential(name)


def known_savings(call: Call) -> dict[str, float]:
    """Return the share of this call's time that unopened libraries save, where that is known.

    It is computed once: a machine that becomes slower later makes NumPy slower, not the sample.
    """
    kind, key, size = call.record.kind, call.key, call.signature.size
    base = numpy_seconds_of(call)
    known: dict[str, float] = {}
    for name, curve in kind.curves.items():
        library = call.session.libraries.get(name.split(":")[0])
        if library and library.isolated != name.endswith(":worker"):
            continue
        found = curve.estimate(key, size, kind.curve(NUMPY)) if library else None
        near = found is not None and (found.samples or found.spread <= FAR_SPREAD)
        if base and found and near and library and not library.opened:
            share = 1 - MARGIN - found.seconds / base
            share = max(0.0, call.record.shares.setdefault((key, name), share))
            known[library.name] = max(share, known.get(library.name, 0.0))
    return known
