"""Decide where a call runs: on NumPy for good, pinned, by the recorded plan, or by estimates."""

from __future__ import annotations

from gpuforge import trace
from gpuforge.errors import BackendUnavailable
from gpuforge.log import logger
from gpuforge.runtime.backends import Backend, device_of
from gpuforge.runtime.execution.call import Call
from gpuforge.runtime.placement.policy import (
    NUMPY,
    NUMPYS_OWN,
    SHARE_FELT,
    Candidate,
    Decision,
    Policy,
    Row,
    charge_compiled,
)
from gpuforge.units import format_bytes

_log = logger("placement")
WAITS = "its calls were too short so far to decide where they run"
WAITS_AGAIN = "deciding where its calls run has taken too large a share of their time so far"
EFFECTS = "it gets no array, and a recording that has to start again would repeat its effects"
COMPILE_SECONDS = 3.0
"""Limit for compiling one graph."""
MAX_GRAPHS = 16
"""Limit for the graphs of one signature: a loop that reads values makes a new one per iteration."""
TELLING_SAMPLES = 3
"""A recorded plan only names a backend with this many samples."""


def decide(call: Call, *, every: bool = False) -> Decision:
    """Return where a call runs, with what is known about each backend.

    With `every`, and while tracing is on, also for those that cannot be faster than NumPy.
    """
    session, kind = call.session, call.record.kind
    session.openings.collect()
    with session.lock:
        found = call.candidates
        if kind.peer is None and len(found) > 1:
            session.equip(call.function, call.record)
        if call.record.compiling:
            _collect_compilations(call)
        refused = {one.name: refusal(call, one.name) for one in found}
        call.able = [one for one in found if not refused[one.name]]
        known = call.estimates = kind.estimates(
            call.able, call.key, call.signature.size, every=every or trace.enabled
        )
        made, numpy = _choose(call), known[NUMPY]
        made.rows = [Row(name, None if why else known.get(name, numpy), why)
                     for name, why in refused.items()]  # fmt: skip
        return made


def _choose(call: Call) -> Decision:
    session, options = call.session, call.function.options
    stays = call.function.stays or call.record.stays
    if stays:
        return Decision(NUMPY, settled=True, why=stays)
    if call.function.waits:
        return Decision(NUMPY, why=WAITS_AGAIN if call.function.waits_again else WAITS)
    if call.pin and (call.pin != NUMPY or options.isolate):
        return _pinned(call)
    limit = session.settings.min_elements if options.min_elements is None else options.min_elements
    if call.signature.size < limit and call.signature.has_arrays:
        return Decision(NUMPY, settled=True, why=f"fewer than {limit} elements (min_elements)")
    if call.pin:
        return Decision(NUMPY, settled=True, why="pinned to numpy")
    if session.plan is not None:
        return _planned(call)
    crowded = session.crowded
    disturbed = crowded or session.background.is_importing  # a try would take too long
    learn = session.policy.learn and not disturbed
    policy = Policy(learn=learn)
    if len(call.estimates) > 1:
        explores = bool(session.settings.explore_share)
        policy = Policy(session.allowance(), learn, explores, known_only=session.in_the_red)
    able = call.able or []
    if crowded:  # the program's own threads use the cores
        able = [one for one in able if one.name == NUMPY or one.name not in NUMPYS_OWN]
    made = policy.decide(call.record.kind, call.key, call.signature.size, able, call.estimates)
    made.settled = made.settled and not crowded
    return made


def _collect_compilations(call: Call) -> None:
    """Collect the graphs of this signature whose compilation in the background has finished."""
    record, key = call.record, call.key
    for name in [name for at, name in record.compiling if at == key]:
        compilation = record.compiling[key, name]
        if not compilation.done:
            continue
        del record.compiling[key, name]
        curve = record.kind.curve(name)
        felt = SHARE_FELT * compilation.seconds
        charge_compiled(record.kind, name, felt)
        call.session.account.add(0.0, felt, name)
        record.compiled[key, name] = record.compiled.get((key, name), 0) + 1
        curve.cell(key).ready = not compilation.failure
        if compilation.failure:
            curve.refused = compilation.failure
        elif compilation.seconds > COMPILE_SECONDS or record.compiled[key, name] > MAX_GRAPHS:
            curve.refused = "its graphs are too many, or too large, to be compiled"


def lost_seconds(decision: Decision, backend: str, seconds: float) -> float | None:
    """Return a call's regret: how much longer it took than it would on the best known backend.

    None if no backend is known besides the one that made the call.
    """
    known = {row.backend: row.estimate.seconds for row in decision.rows if row.estimate is not None}
    if not known.keys() - {backend}:
        return None
    best = min(known, key=known.__getitem__)
    return 0.0 if best == backend and not decision.trial else max(seconds - known[best], 0.0)


def candidates(call: Call) -> list[Candidate]:
    """Return the backends that may run this call."""
    if call.able is None:
        call.able = [one for one in call.candidates if not refusal(call, one.name)]
    return call.able


def refusal(call: Call, name: str) -> str:
    """Return why a backend does not run this call; empty if it may."""
    if name == NUMPY:
        return ""
    stays = call.function.stays or call.record.stays or has_effects(call)
    known = stays or too_large(call, name) or call.record.kind.curve(name).refused
    if not known and call.record.varies(call.key) and not call.pin and call.session.plan is None:
        backend = call.session.backend(name)
        known = "each call has another graph to compile" if backend and backend.compiles else ""
    return known or (_worker_refusal(call, name) if name.endswith(":worker") else "")


def has_effects(call: Call) -> str:
    """Return why a call without arrays is made as written: starting again would repeat effects."""
    if not call.signature.has_arrays and call.function.dependence is None:
        call.record.stays = call.record.stays or EFFECTS
    return call.record.stays


def _worker_refusal(call: Call, name: str) -> str:
    backend = call.session.backend(name)
    return backend.away() if backend is not None else ""


def too_large(call: Call, name: str) -> str:
    """Return why a call's arguments exceed ``memory_limit`` on a GPU; empty if they do not."""
    limit = call.session.settings.memory_limit
    if not limit or device_of(name) == "cpu":
        return ""
    given = call.signature.nbytes
    over = f"its arguments take {format_bytes(given)}; memory_limit is {format_bytes(limit)}"
    return over if given > limit else ""


def find_pinned(call: Call) -> Backend | None:
    """Return the pinned backend, or None if it is missing and NumPy takes over.

    Raises
    ------
    BackendUnavailable
        If it is missing and no fallback was requested.
    """
    try:
        options = call.function.options
        return call.session.find(call.pin, options.isolate, options.device)
    except BackendUnavailable as missing:
        if not (call.function.options.fallback or call.session.settings.fallback):
            raise
        note = f"{call.function.name} is pinned to {call.pin}, but runs on NumPy: {missing}"
        if note not in call.session.notes:
            call.session.notes.append(note)
        return None


def _pinned(call: Call) -> Decision:
    backend = find_pinned(call)
    if backend is None:
        return Decision(NUMPY, settled=True, why=f"{call.pin} cannot be used")
    refused = refusal(call, backend.name)
    if refused:
        return Decision(NUMPY, settled=True, why=refused)
    return Decision(backend.name, settled=True)


def _planned(call: Call) -> Decision:
    """Follow the recorded plan; a signature that is not in it yet is added from learned timings."""
    session = call.session
    assert session.plan is not None
    plan_key = f"{call.function.digest}/{call.record.digest}/{call.key}"
    name = session.plan.backend(plan_key)
    if name is None:
        name = _fastest_learned(call)
        session.plan.record(plan_key, name)
    if name == NUMPY:
        return Decision(NUMPY, settled=True)
    name = session.find(name).name
    if refusal(call, name):
        return Decision(NUMPY, settled=True)
    verified = call.record.kind.curve(name).verified
    return Decision(name, settled=True) if verified else Decision(NUMPY, trial=name)


def _fastest_learned(call: Call) -> str:
    """Return the backend that learned timings show to finish this signature first.

    NumPy if there are none, or if the faster libraries are unavailable or refused.
    """
    known = {
        name: cell.typical
        for name, curve in call.record.kind.curves.items()
        if (cell := curve.cells.get(call.key)) and len(cell.seconds) >= TELLING_SAMPLES
    }
    if NUMPY not in known:
        return NUMPY
    for name in sorted(known, key=known.__getitem__):
        if name == NUMPY:
            break
        try:
            if not call.record.kind.curve(call.session.find(name).name).refused:
                return name
        except BackendUnavailable as missing:
            _log.info("the plan cannot name %s: %s", name, missing)
    return NUMPY
