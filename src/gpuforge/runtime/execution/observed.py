"""Trace placed calls: a span around each, and the backend chosen for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np

from gpuforge import trace
from gpuforge.dataclass import replace
from gpuforge.runtime.execution.call import Call
from gpuforge.runtime.placement.policy import NUMPY, Decision
from gpuforge.runtime.record import CachedDecision, FunctionRecord


def call_span(
    function: FunctionRecord, label: int, given: Sequence[Any], **said: Any
) -> trace.OpenSpan | trace.Nothing:
    """Return a context manager that traces one call of a user's function as a span."""
    if not trace.enabled:
        return trace.NOTHING
    from gpuforge import flow

    name, about = _span_attributes(function, given)
    return trace.within(name, label, **about, **said, **flow.sources(given))


def _span_attributes(function: FunctionRecord, given: Iterable[Any]) -> tuple[str, dict[str, Any]]:
    """Return the name and the attributes of a call's span."""
    name, written = trace.defined(function.function)
    from gpuforge.runtime.evaluation.observed import described

    arrays = described([one for one in given if type(one) is np.ndarray])
    return name, {"function": function.name, **written, **arrays}


def record_choice(call: Call, decision: Decision, backend: str, seconds: float) -> trace.Choice:
    """Trace which backend made a call, and return that choice for the calls that follow."""
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


def traced_call(call: Call, backend: str, call_held: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `call_held` so that each call under a cached decision is traced with its time.

    All these calls have one signature, so the span's attributes are built once.
    """
    from gpuforge import flow  # not needed unless calls are traced

    label = trace.HOST if backend == NUMPY else trace.OVERHEAD
    name, said = _held_attributes(call, backend)
    transfer = call.record.transfers.get((call.key, backend), 0.0)
    before = replace(call, args=(), kwargs={})
    repeating = trace.repeating(call.record, name)

    def traced(held: CachedDecision, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        start = perf_counter()
        with trace.within(name, label) as span:
            if isinstance(span, trace.OpenSpan):
                span.attributes = {**said, **flow.sources((*args, *kwargs.values()))}
            result = call_held(before, held, args, kwargs)
        if held.choice is not None:
            trace.chose(held.choice, perf_counter() - start, transfer)
        if isinstance(span, trace.OpenSpan):
            repeating.kept(span)
            flow.returned(name, result)
        return result

    return traced


def counted_call(call: Call, call_held: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `call_held` as `traced_call` does, for short calls on NumPy: most are only counted."""
    name, said = _held_attributes(call, NUMPY)
    function, repeating = call.function.function, trace.repeating(call.record, name)
    traced = traced_call(call, NUMPY, call_held)

    def counted(held: CachedDecision, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not repeating.is_counted():
            return traced(held, args, kwargs)
        if held.limit is None:
            result, ns = repeating.call(said, held.choice, function, args, kwargs)
        else:
            with held.limit.one_thread():
                result, ns = repeating.call(said, held.choice, function, args, kwargs)
        if held.is_timed:
            held.timed.append(ns / 1e9)
        return result

    return counted


def _held_attributes(call: Call, backend: str) -> tuple[str, dict[str, Any]]:
    name, about = _span_attributes(call.function, (*call.args, *call.kwargs.values()))
    return name, {**about, "backend": backend}
