"""What tracing is told of placed calls: a span around each, and which backend was chosen for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np

from gpuforge import trace
from gpuforge.runtime.evaluation.observed import described
from gpuforge.runtime.execution.call import Call
from gpuforge.runtime.placement.policy import NUMPY, Decision
from gpuforge.runtime.record import FunctionRecord, Held


def call_span(
    function: FunctionRecord, label: int, given: Iterable[Any], **said: Any
) -> trace.OpenSpan | trace.Nothing:
    """Return what keeps a span around one call of a user's function."""
    if not trace.enabled:
        return trace.NOTHING
    name, file, line = _home(function.function)
    arrays = described([one for one in given if type(one) is np.ndarray])
    return trace.within(name, label, function=function.name, file=file, line=line, **arrays, **said)


@cache
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
        why = f"{decision.trial} is tried, and compared with NumPy"
    reason = "; ".join([*([why] if why else ["nothing is known yet"]), *refused])
    made = trace.Choice(
        perf_counter_ns(), call.function.name, call.signature.text, backend, predicted, reason
    )
    trace.chose(made, seconds, call.record.transfers.get((call.key, backend), 0.0))
    return made


def again_told(
    before: Call, again: Callable[..., Any], held: Held, args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    """Make a held call with a span around it, and tell what it took."""
    label = trace.HOST if held.backend == NUMPY else trace.OVERHEAD
    start = perf_counter()
    given = (*args, *kwargs.values())
    with call_span(before.function, label, given, backend=held.backend):
        result = again(before, held, args, kwargs)
    if held.choice is not None:
        transfer = before.record.transfers.get((before.key, held.backend), 0.0)
        trace.chose(held.choice, perf_counter() - start, transfer)
    return result
