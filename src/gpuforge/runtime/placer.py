"""The considered way of a call: look it up, decide, run, settle what fails, learn from it."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from gpuforge.errors import ArgumentWritten, BackendUnavailable
from gpuforge.log import logger
from gpuforge.runtime.backends import Backend
from gpuforge.runtime.call import Call
from gpuforge.runtime.decision import candidates, decide
from gpuforge.runtime.execution import Program, describe_error, raised_by_user, try_backend
from gpuforge.runtime.placement import (
    NUMPY,
    Candidate,
    Decision,
    charge,
    observe,
)
from gpuforge.runtime.priors import CANCELLING_CLASSES, classify
from gpuforge.runtime.readonly import explain_read_only, give_back
from gpuforge.runtime.record import Count
from gpuforge.runtime.reference import CANCELLING, ELEMENTWISE, Disagreement, describe
from gpuforge.runtime.session import Session
from gpuforge.runtime.structure import flatten, rebuild

_log = logger("placement")
HOLD_SECONDS = 10e-3
MAX_HELD, MAX_HELD_ELSEWHERE = 2000, 150
SURPRISING = 1.5
"""A call that took this many times the median of the ones before is looked into at once."""
_NO_LIMIT = nullcontext()
inside = threading.local()
"""``inside.placed`` is set while a backend other than NumPy runs a user's function."""


@dataclass
class Placed:
    """The outcome of a considered call: its result, and how long the choice may be held."""

    result: Any
    backend: str
    seconds: float = 0.0
    hold: int = 0
    program: Program | None = None


def place(call: Call) -> Placed:
    """Run one call where it finishes first, or where the user pinned it.

    Raises whatever the user's function raises on NumPy, or by a ``raise`` statement of its own.
    """
    decision = decide(call)
    if decision.backend == NUMPY:
        return _run_reference(call, decision)
    return _run_elsewhere(call, decision)


def _run_reference(call: Call, decision: Decision) -> Placed:
    """Run on NumPy, learn its time and template, and try another backend besides if decided."""
    before = call.originals() if decision.trial else call.leaves
    first = call.record.template is None
    result, seconds = run_numpy(call)
    if first:
        described = describe(result, call.leaves)
        if isinstance(described, str):
            call.record.stays = call.record.stays or described
        else:
            call.record.template = described
    learn(call, NUMPY, seconds, first=first)
    if decision.trial:
        _try(call, decision.trial, before, result, seconds)
    return Placed(result, NUMPY, seconds, _hold(call, decision, seconds))


def run_numpy(call: Call) -> tuple[Any, float]:
    """Return the function's result on read-only views of its arguments, and its seconds."""
    put, written = call.session.reference.put, call.written
    views = [
        put(leaf, share=True) if type(leaf) is np.ndarray and place not in written else leaf
        for place, leaf in enumerate(call.leaves)
    ]
    args, kwargs = rebuild(call.signature.spec, iter(views))
    try:
        with call.session.blas.one_thread() if limits_threads(call) else _NO_LIMIT:
            start = perf_counter()
            result = call.function.function(*args, **kwargs)
            seconds = perf_counter() - start
    except ValueError as error:
        explain_read_only(error)
        raise
    return give_back(result, views, call.leaves), seconds


def limits_threads(call: Call) -> bool:
    """Return whether a NumPy call runs with one BLAS thread, to leave cores to other backends.

    Never in deterministic mode: the number of threads shows in the last bits.
    """
    session, cell = call.session, call.record.kind.curve(NUMPY).cells.get(call.key)
    if cell is None or not cell.seconds or session.plan is not None or not session.backends():
        return False
    operations = classify(call.function.captures.operations)
    # The shortest sample: one that met another library's workers says nothing of the call.
    return session.settings.tame_threads and session.blas.needed(operations, min(cell.seconds))


def _try(
    call: Call, name: str, leaves: tuple[Any, ...], expected: Any, reference_seconds: float
) -> None:
    """Compare a backend's result with NumPy's, and admit it or leave it out."""
    template, session = call.record.template, call.session
    backend = _backend(session, name)
    if template is None or backend is None:
        return
    program = program_for(call, backend)
    cancelling = classify(call.function.captures.operations) in CANCELLING_CLASSES
    if call.written:
        leaves = tuple(v.copy(order="K") if i in call.written else v for i, v in enumerate(leaves))
    inside.placed = True
    try:
        outcome = try_backend(
            program, leaves, template, expected,
            floor=CANCELLING if cancelling else ELEMENTWISE, exact=not call.relaxed,
        )  # fmt: skip
    finally:
        inside.placed = False
    give_memory_back(session, backend)
    with session.lock:
        curve = call.record.kind.curve(name)
        curve.refused, curve.verified = outcome.refused, not outcome.refused
        charge(call.record.kind, call.key, name, outcome.lost_seconds, outcome.first_seconds)
        if not outcome.refused:
            curve.cell(call.key).ready = True
            curve.add(call.key, call.signature.size, outcome.seconds)
            call.record.kind.tell(name, call.key, call.signature.size)
            call.record.transfers[call.key, name] = outcome.transfer_seconds
            _freshen(call, name)
    _log.info("%s on %s: %s", call.function.name, name, outcome.refused or "agrees with NumPy")


def _backend(session: Session, name: str) -> Backend | None:
    return next((backend for backend in session.backends() if backend.name == name), None)


def program_for(call: Call, backend: Backend) -> Program:
    """Return the function prepared for a backend; a compiled one is made anew per signature."""
    captures = call.function.captures
    if backend.compiles and captures.changed():
        captures = call.function.read_again()
    key = (backend.name, call.signature.exact if backend.compiles else None)
    program = call.record.programs.get(key)
    if program is None:
        copies = captures.may_write or bool(call.written)
        program = Program(
            backend, call.function.function, call.signature.spec, copies, call.written
        )
        call.record.programs[key] = program
    return program


def _run_elsewhere(call: Call, decision: Decision) -> Placed:
    """Run on another backend; what goes wrong there is settled by NumPy."""
    session, record, name = call.session, call.record, decision.backend
    backend = _backend(session, name)
    if backend is None:
        return _run_reference(call, Decision(NUMPY))
    program = program_for(call, backend)
    fresh = backend.compiles and not record.kind.curve(name).cell(call.key).ready
    start = perf_counter()
    trouble: Exception | None = None
    inside.placed = True
    try:
        result = _result_of(call, program)
    except ArgumentWritten:
        raise
    except Exception as error:  # noqa: BLE001 - any failure of a library is settled by NumPy
        trouble = error
    finally:
        inside.placed = False
    if trouble is not None:
        return settle(call, backend, trouble)
    given_back = give_memory_back(session, backend)
    seconds = perf_counter() - start
    if fresh:
        _learn_first(call, name, seconds, bought=decision.bought or not decision.exploring)
    else:
        learn(call, name, seconds, exploring=decision.exploring)
    # Where memory has to be given back, each call is looked at.
    hold = record.template is not None and not call.relaxed and not given_back
    return Placed(result, name, seconds, _hold(call, decision, seconds) if hold else 0, program)


def _result_of(call: Call, program: Program) -> Any:
    """Return NumPy's kind of result, or the backend's own kind where NumPy's is not asked for."""
    template = call.record.template
    if template is not None and not call.relaxed:
        return program.run(call.leaves, template)
    inputs = program.put(call.leaves)
    backend = program.backend
    with backend.scope():
        made = program.call(inputs)
        described: list[Any] = []
        spec = flatten(made, described)
        arrays = [backend.get(v) if backend.is_array(v) else v for v in described]
    return rebuild(spec, iter(arrays))


def settle(call: Call, backend: Backend, trouble: Exception) -> Placed:
    """Return what NumPy makes of a call that failed on `backend`, and leave that backend out.

    What a ``raise`` statement of the user's own code raised is raised again unchanged.
    """
    if raised_by_user(trouble, backend) and not isinstance(trouble, Disagreement):
        raise trouble
    if not call.function.options.pure:
        raise trouble
    give_memory_back(call.session, backend, now=backend.exhausted(trouble))
    result, seconds = run_numpy(call)
    with call.session.lock:
        curve = call.record.kind.curve(backend.name)
        curve.refused = describe_error(trouble)
        curve.verified = False
        call.function.counts.setdefault(NUMPY, Count()).add(1, seconds)
    _log.warning("%s: %s is left out: %s", call.function.name, backend.name, curve.refused)
    if call.pin and not call.may_fall_back:
        raise BackendUnavailable(
            f"{call.function.name} is pinned to {backend.name}, which failed where NumPy does not:"
            f" {curve.refused}",
            hint="pass fallback=True to let NumPy take over",
        ) from trouble
    return Placed(result, NUMPY)


def _learn_first(call: Call, name: str, seconds: float, *, bought: bool) -> None:
    """Take in the first call of a new signature on a compiling backend: compiled, not a sample."""
    kind = call.record.kind
    with call.session.lock:
        curve = kind.curve(name)
        expected = kind.estimate(Candidate(name), call.key, call.signature.size)
        extra = max(0.0, seconds - (expected.seconds if expected else 0.0))
        curve.cell(call.key).ready = True
        charge(kind, call.key, name, extra, extra, bought=bought)
        kind.busy_seconds += seconds
        call.function.counts.setdefault(name, Count()).add(1, seconds)


def learn(
    call: Call, name: str, seconds: float, *, first: bool = False, exploring: bool = False
) -> None:
    """Take in how long a call took; drop it when other placed calls ran at the same time."""
    session, kind, size = call.session, call.record.kind, call.signature.size
    with session.lock:
        call.function.counts.setdefault(name, Count()).add(1, seconds)
        if session.crowded or not session.settings.learn:
            return
        rivals = candidates(call) if not call.record.stays else [Candidate(NUMPY)]
        if exploring:
            reference = kind.estimate(Candidate(NUMPY), call.key, size)
            charge(kind, call.key, name, seconds - (reference.seconds if reference else seconds))
        observe(kind, call.key, size, name, seconds, rivals, calls=1 + call.held, first=first)
        _freshen(call, name)
        if name == NUMPY and not call.record.stays and call.function.options.pure:
            operations = frozenset(call.function.captures.operations)
            session.want(seconds * (1 + call.held), operations, size)
    session.flush()


def _freshen(call: Call, name: str) -> None:
    key = (call.key, name)
    call.record.fresh[key] = call.record.fresh.get(key, 0) + 1


def give_memory_back(session: Session, backend: Backend, *, now: bool = False) -> bool:
    """Give back what a library kept after a call if that is due; return whether it was."""
    chosen = session.settings
    if chosen.memory_strategy == "pooled" and not now:
        return False
    try:
        if chosen.memory_strategy == "lazy" and not now:
            memory = backend.memory()
            if (
                memory is None
                or memory.free_bytes > (1 - chosen.pressure_warning) * memory.total_bytes
            ):
                return False
        backend.release()
    except Exception as error:  # noqa: BLE001 - a device that died must not take the result along
        _log.warning("%s gives no memory back: %s", backend.name, describe_error(error))
    return True


def _hold(call: Call, decision: Decision, seconds: float) -> int:
    """Return for how many calls a settled choice is kept without a look at the clock.

    None where this call took much longer than the ones before it: what has changed must show soon.
    """
    name = decision.backend
    cell = call.record.kind.curve(name).cell(call.key)
    if not decision.settled or (cell.seconds and seconds > SURPRISING * cell.typical):
        return 0
    most = MAX_HELD if name == NUMPY else MAX_HELD_ELSEWHERE
    return min(most, int(HOLD_SECONDS / max(seconds, 1e-7)))
