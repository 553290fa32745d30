"""Where a call runs: what stays, what is pinned, what the plan says, what finishes first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuforge.errors import BackendUnavailable
from gpuforge.log import logger
from gpuforge.runtime.backends import Backend, device_of
from gpuforge.runtime.call import Call
from gpuforge.runtime.placement import NUMPY, Candidate, Decision
from gpuforge.units import format_bytes

_log = logger("placement")
TELLING_SAMPLES = 3
"""A recorded plan names a backend that was measured this often."""


def decide(call: Call) -> Decision:
    """Return where a call runs."""
    session, record, options = call.session, call.record, call.function.options
    if record.stays:
        return Decision(NUMPY, settled=True)
    if call.pin and call.pin != NUMPY:
        return _pinned(call)
    limit = options.min_elements
    if call.signature.size < (session.settings.min_elements if limit is None else limit):
        return Decision(NUMPY, settled=True)
    if call.pin or not options.pure:
        return Decision(NUMPY, settled=bool(call.pin))
    if session.plan is not None:
        return _planned(call)
    if record.template is None:
        return Decision(NUMPY)
    policy = replace(session.policy, learn=False) if session.crowded else session.policy
    with session.lock:
        able = [one for one in candidates(call) if not too_large(call, one.name)]
        return policy.decide(record.kind, call.key, call.signature.size, able)


def candidates(call: Call) -> list[Candidate]:
    """Return the backends that may run this call; those that may not are refused with a reason."""
    found = call.session.candidates(call.function.options.device)
    for candidate in found:
        curve = call.record.kind.curve(candidate.name)
        if candidate.compiles and not curve.refused:
            curve.refused = _no_compiling(call)
    return found


def refusal(call: Call, name: str) -> str:
    """Return why a backend does not run this call; empty where nothing is known against it."""
    return too_large(call, name) or call.record.kind.curve(name).refused


def too_large(call: Call, name: str) -> str:
    """Return why a call's arguments are more than may lie on a GPU; empty where they are not."""
    limit = call.session.settings.memory_limit
    if not limit or device_of(name) == "cpu":
        return ""
    given = sum(leaf.nbytes for leaf in call.leaves if type(leaf) is np.ndarray)
    over = f"its arguments take {format_bytes(given)}, memory_limit is {format_bytes(limit)}"
    return over if given > limit else ""


def _no_compiling(call: Call) -> str:
    captures = call.function.captures
    if captures.changeable:
        name = captures.changeable[0]
        return f"captured {name} may change, and a compiled program would not see it"
    if call.signature.opaque:
        return f"an argument is a {call.signature.opaque[0]}, which cannot be compiled in"
    return "its arrays cannot be written to" if call.written else ""


def find_pinned(call: Call) -> Backend | None:
    """Return the pinned backend, or None where it is missing and NumPy takes over.

    Raises
    ------
    BackendUnavailable
        If it is missing and no fallback was asked for.
    """
    try:
        return call.session.find(call.pin)
    except BackendUnavailable as missing:
        if not (call.function.options.fallback or call.session.settings.fallback):
            raise
        note = f"{call.function.name} is pinned to {call.pin}, NumPy takes over: {missing}"
        if note not in call.session.notes:
            call.session.notes.append(note)
        return None


def _pinned(call: Call) -> Decision:
    backend = find_pinned(call)
    if backend is None:
        return Decision(NUMPY, settled=True)
    curve = call.record.kind.curve(backend.name)
    if backend.compiles and not curve.refused:
        curve.refused = _no_compiling(call)
    refused = too_large(call, backend.name) if call.relaxed else refusal(call, backend.name)
    if refused:
        if call.may_fall_back:
            return Decision(NUMPY, settled=True)
        raise BackendUnavailable(
            f"{call.function.name} is pinned to {backend.name}, which is left out: {refused}",
            hint="pass fallback=True, or numerics='relaxed' if the difference does not matter",
        )
    if curve.verified or call.relaxed or not call.function.options.pure:
        return Decision(backend.name, settled=True)
    return Decision(NUMPY, trial=backend.name)


def _planned(call: Call) -> Decision:
    """Follow the recorded plan; what it does not name yet is recorded from what was learned."""
    session = call.session
    assert session.plan is not None
    plan_key = f"{call.function.digest}/{call.record.digest}/{call.key}"
    name = session.plan.backend(plan_key)
    if name is None:
        name = _learned(call)
        session.plan.record(plan_key, name)
    if name == NUMPY:
        return Decision(NUMPY, settled=True)
    name = session.find(name).name
    if refusal(call, name):
        return Decision(NUMPY, settled=True)
    verified = call.record.kind.curve(name).verified
    return Decision(name, settled=True) if verified else Decision(NUMPY, trial=name)


def _learned(call: Call) -> str:
    """Return where runs that were free to choose found this signature to finish first.

    NumPy where they have not, where that library is not to be had now, or was refused.
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
