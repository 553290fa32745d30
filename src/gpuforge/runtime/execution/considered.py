"""Make a call for which no decision is cached: sign it, decide where it runs, count it."""

from __future__ import annotations

from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from gpuforge import trace
from gpuforge.runtime.context import current
from gpuforge.runtime.execution import pipeline
from gpuforge.runtime.execution.call import Call, open_call
from gpuforge.runtime.execution.observed import call_span
from gpuforge.runtime.function.key import Place, generalize, hot_key
from gpuforge.runtime.function.naming import name_of
from gpuforge.runtime.function.options import Options
from gpuforge.runtime.function.signature import INSIDE, AsWritten, is_recorded_array, sign
from gpuforge.runtime.placement.policy import NUMPY
from gpuforge.runtime.record import CachedDecision, FunctionRecord
from gpuforge.runtime.session import Session, current_session
from gpuforge.runtime.short import ShortCalls

if TYPE_CHECKING:
    from gpuforge.runtime.execution.explanation import Explanation

_KEPT_KEYS = 4096


class Offloaded(Protocol):
    """A function with the options that it was offloaded with.

    Attributes
    ----------
    _hot : the session that `offload` last saw, the choices cached there, and the arguments whose
        numbers keep changing
    _short : the short calls that bypass their choice
    """

    _function: Any
    _options: Options
    _hot: Any
    _short: ShortCalls | None


def consider(offloaded: Offloaded, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make a call where it finishes first, and cache the decision if it is settled."""
    began = perf_counter_ns() if trace.enabled else 0
    session = current_session()
    if not session.warms:
        return _consider(session, offloaded, args, kwargs, began)
    try:
        return _consider(session, offloaded, args, kwargs, began)
    finally:
        warm_as_set()


def warm_as_set() -> None:
    """Start the warm-up that the setting ``warmup`` requests, after a session's first call."""
    session = current_session()
    if session.warms:
        from gpuforge.runtime.warmup import begin_as_set

        begin_as_set(session)


def _consider(
    session: Session, offloaded: Offloaded, args: tuple[Any, ...], kwargs: dict[str, Any],
    began: int,
) -> Any:  # fmt: skip
    start = perf_counter()
    written = offloaded._function
    if not session.settings.enabled:
        return written(*args, **kwargs)
    known = session.functions.get(id(offloaded))
    if known is not None and known.waits and _may_wait(known, offloaded, args, kwargs):
        return _wait(session, known, args, kwargs)
    changing = known.numbers.changing if known is not None else frozenset()
    signature = sign(args, kwargs, offloaded._options.convert, changing)
    if signature is INSIDE:
        return written(*args, **kwargs)
    function = session.functions.of(offloaded, written, offloaded._options)
    if function.waits and not began and not isinstance(signature, AsWritten):
        return _wait(session, function, args, kwargs)
    function.end_waiting()
    label, said = trace.OVERHEAD, {}
    if isinstance(signature, AsWritten):
        label, said = trace.HOST, {"backend": "numpy", "reason": signature.reason}
    traced = call_span(function, label, (*args, *kwargs.values()), **said)
    if began:
        trace.keep("sign", trace.OVERHEAD, began, perf_counter_ns())
    if offloaded._options.isolate and not offloaded._options.pure:
        return _call_whole(function, args, kwargs)
    if isinstance(signature, AsWritten):
        _note_as_written(function, signature, args, kwargs)
        with traced as span:
            return _returned(span, written(*args, **kwargs))
    with traced as span:
        changing = _changing(session, function, args, kwargs)
        hot = hot_key(args, kwargs, changing)
        held_before = function.held.pop(hot, None)
        call = open_call(session, function, signature, args, kwargs)
        if held_before:
            _learn_from_cached(call, held_before)
        with session.running:
            placed = pipeline.place(call)
        span.note(backend=placed.backend)
        if hot is not None and placed.hold:
            held = pipeline.hold(call, placed)
            if held.plain:
                held.short = ShortCalls(*generalize(args, kwargs, changing))
            _hold(offloaded, function, hot, held)
        if placed.backend == NUMPY and not began:
            _note_decision(call, perf_counter() - start - placed.seconds)
        return _returned(span, placed.result)


def _note_as_written(
    function: FunctionRecord, signature: AsWritten, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Count a call that cannot be placed, and leave most of those like it uninspected."""
    function.note_as_written(signature.reason)
    if trace.enabled:
        function.inspect_waiting()
    elif signature.by_types:
        function.leave_aside(args, kwargs)


def _changing(
    session: Session, function: FunctionRecord, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> frozenset[Place]:
    """Return the arguments whose numbers keep changing, after a look at those of this call."""
    if session.plan is None and function.numbers.note(args, kwargs):
        function.drop_decisions()
        session.kept.keep(function.numbers_key, function.numbers.text(), later=True)
    return function.numbers.changing


def _returned(span: trace.OpenSpan | trace.Nothing, result: Any) -> Any:
    """Note in a trace what a call returned."""
    if isinstance(span, trace.OpenSpan):
        from gpuforge import flow

        flow.returned(span.name, result)
    return result


def _note_decision(call: Call, seconds: float) -> None:
    """Note what a decision took, and let the function's calls wait if all take too long.

    Not while a library is tried, which goes on at the next calls.
    """
    session = call.session
    if call.record.probing is not None or session.trials.current is not None:
        return
    session.account.deciding_seconds += seconds  # threads may lose one's: it is a threshold
    call.function.note_decision(seconds, too_long=session.account.decides_too_long)


def _may_wait(
    known: FunctionRecord, offloaded: Offloaded, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Return whether a call may run as written; not if it is traced, or made in a recorded one."""
    if trace.enabled or known.owner() is not offloaded:
        return False
    return not any(map(is_recorded_array, (*args, *kwargs.values())))


def _wait(
    session: Session, function: FunctionRecord, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a call as written, since deciding about it may take as long."""
    start = perf_counter()
    try:
        return function.function(*args, **kwargs)
    finally:
        seconds = perf_counter() - start
        counted = function.wait(seconds)
        if function.waits and seconds <= function.short_seconds:
            function.leave_uninspected(args, kwargs)
        else:
            function.inspect_waiting()
        with session.lock:
            session.account.add(counted, counted)


def _call_whole(function: FunctionRecord, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function that must not be recorded in a worker process."""
    from gpuforge.runtime.workers.functions import call_isolated

    start = perf_counter()
    try:
        return call_isolated(function.function, args, kwargs)
    finally:
        function.add("worker", 1, perf_counter() - start)


def _hold(offloaded: Offloaded, function: FunctionRecord, hot: Any, held: CachedDecision) -> None:
    context, table, changing = offloaded._hot
    now = function.numbers.changing
    if context is not current.get() or table is not function.held or changing is not now:
        offloaded._hot = (current.get(), function.held, now)
    if len(function.held) >= _KEPT_KEYS:
        function.drop_decisions()
    function.hold(hot, held)
    if held.plain:
        offloaded._short = held.short


def explain(offloaded: Offloaded, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
    """Return where a call would run and why, without running it.

    Raises
    ------
    TypeError
        If the function does not take these arguments.
    """
    from gpuforge.runtime.execution.explanation import Explanation, explain_call

    session, written = current_session(), offloaded._function
    _check_arguments(written, args, kwargs)
    if not session.settings.enabled:
        return Explanation.as_written(name_of(written), "GPUFORGE_ENABLED is off")
    function = session.functions.of(offloaded, written, offloaded._options)
    signature = sign(args, kwargs, offloaded._options.convert, function.numbers.changing)
    if isinstance(signature, AsWritten):
        return Explanation.as_written(name_of(written), signature.reason)
    return explain_call(open_call(session, function, signature, args, kwargs))


def _check_arguments(written: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    import inspect

    try:
        form = inspect.signature(written)
    except (TypeError, ValueError):  # many functions written in C have none
        return
    try:
        form.bind(*args, **kwargs)
    except TypeError as error:
        name = name_of(written)
        raise TypeError(f"explain takes the arguments of a call of {name}: {error}") from None


def stats(offloaded: Offloaded) -> FunctionRecord:
    """Return what the current session knows about a function."""
    found = current_session().functions.of(offloaded, offloaded._function, offloaded._options)
    found.count_held()
    return found


def _learn_from_cached(call: Call, held: CachedDecision) -> None:
    """Learn from the calls that were made under a cached decision."""
    times = sorted(held.timed)
    made = call.function.end(held)
    if times and not call.session.crowded and call.session.settings.learn:
        middle = times[len(times) // 2]
        with call.session.lock:
            call.record.kind.curve(held.backend).add(call.key, call.signature.size, middle)
            pipeline.mark_unsaved(call, held.backend)
    call.held = made
