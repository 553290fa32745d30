"""What tracing is told of placed calls: a span around each, and which backend was chosen for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np

from gpuforge import trace
from gpuforge.dataclass import replace
from gpuforge.runtime.execution.call import Call
from gpuforge.runtime.placement.policy import NUMPY, Decision
from gpuforge.runtime.record import FunctionRecord, Held


def call_span(
    function: FunctionRecord, label: int, given: Iterable[Any], **said: Any
) -> trace.OpenSpan | trace.Nothing:
    """Return what keeps a span around one call of a user's function."""
    if not trace.enabled:
        return trace.NOTHING
    name, about = _about(function, given)
    return trace.within(name, label, **about, **said)


def _about(function: FunctionRecord, given: Iterable[Any]) -> tuple[str, dict[str, Any]]:
    """Return what the span of a call is called, and what is said of it."""
    name, file, line = _home(function.function)
    from gpuforge.runtime.evaluation.observed import described

    arrays = described([one for one in given if type(one) is np.ndarray])
    return name, {"function": function.name, "file": file, "line": line, **arrays}


def _home(function: Callable[..., Any]) -> tuple[str, str, int]:
    """Return a function's name, and the file and line where it is written."""
    plain = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None)
    name = getattr(plain, "__qualname__", type(plain).__qualname__)
    return (name, code.co_filename, code.co_firstlineno) if code else (name, "", 0)


def chosen(call: Call, decision: Decision, backend: str, seconds: float) -> trace.Choice:
    """Tell which backend made a call, and return the choice for calls that follow it."""
    predicted = {
        row.backend: row.estimate.seconds for row in decision.rows if row.estimate is not None
    }
    refused = [f"{row.backend}: {row.refused}" for row in decision.rows if row.refused]
    why = decision.why or next(
        (row.estimate.evidence for row in decision.rows
         if row.backend == backend and row.estimate is not None), "",
    )  # fmt: skip
    if decision.trial:
        why = f"{decision.trial} is tried and compared with NumPy"
    reason = "; ".join([*([why] if why else ["nothing has been measured yet"]), *refused])
    made = trace.Choice(
        perf_counter_ns(), call.function.name, call.signature.text, backend, predicted, reason
    )
    trace.chose(made, seconds, call.record.transfers.get((call.key, backend), 0.0))
    return made


def telling(call: Call, backend: str, again: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes held calls with a span around each, and tells what they took.

    They are of one signature, so what is said of them is made once.
    """
    label = trace.HOST if backend == NUMPY else trace.OVERHEAD
    name, about = _about(call.function, (*call.args, *call.kwargs.values()))
    said = {**about, "backend": backend}
    transfer = call.record.transfers.get((call.key, backend), 0.0)
    before = replace(call, args=(), kwargs={})

    def told(held: Held, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        start = perf_counter()
        with trace.within(name, label) as span:
            if isinstance(span, trace.OpenSpan):
                span.attributes = said
            result = again(before, held, args, kwargs)
        if held.choice is not None:
            trace.chose(held.choice, perf_counter() - start, transfer)
        return result

    return told
