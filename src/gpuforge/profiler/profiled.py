"""``@gf.profiled``: records a span for each call of a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, TypeVar, overload

from gpuforge import flow, trace
from gpuforge.errors import WorkloadError

F = TypeVar("F", bound=Callable[..., Any])
_left: dict[object, int] = {}
"""For each function, in how many more calls of this recording the data flow is noted."""
trace.when_switched(_left.clear)


@overload
def profiled(function: F, /) -> F: ...
@overload
def profiled(name: str = ..., /, **attributes: Any) -> Callable[[F], F]: ...


def profiled(function: Any = "", /, **attributes: Any) -> Any:
    """Record a span for each call of a function while a profile is recorded.

    Parameters
    ----------
    function
        A function, coroutine function or generator function; or the name of the span, by default
        the function's name. The span of a coroutine lasts until it ends, waits included. A
        generator has a span for each step that it runs.
    **attributes
        Attributes of the span.

    Raises
    ------
    WorkloadError
        If what is decorated is no function, but for example a class or a property.
    """
    if isinstance(function, str):
        return lambda wrapped: _wrapped(wrapped, function, attributes)
    return _wrapped(function, "", attributes)


def _wrapped(function: Any, name: str, attributes: dict[str, Any]) -> Any:
    if isinstance(function, type) or not callable(function):
        raise WorkloadError(
            f"gpuforge.profiled takes a function, not {function!r}",
            hint="decorate the functions inside, below decorators such as @property",
        )
    own, written = trace.defined(function)
    span = functools.partial(trace.span, name or own, **{**written, **attributes})
    kinds = (
        (inspect.iscoroutinefunction, _coroutine),
        (inspect.isgeneratorfunction, _generator),
        (inspect.isasyncgenfunction, _asynchronous_generator),
    )
    make = next((make for is_it, make in kinds if is_it(function)), _plain)
    return functools.wraps(function)(make(function, span))


def _plain(function: Any, span: Any) -> Callable[..., Any]:
    name, key = span.args[0], object()

    def call(*args: Any, **kwargs: Any) -> Any:
        if noted := trace.enabled and _notes_flow(key):
            opened = span(**flow.sources((*args, *kwargs.values())))
        else:
            opened = span() if trace.enabled else trace.NOTHING
        with opened:  # a traceback is the same with a profile and without
            result = function(*args, **kwargs)
        if noted:
            flow.returned(name, result)
        return result

    return call


def _coroutine(function: Any, span: Any) -> Callable[..., Any]:
    name, key = span.args[0], object()

    async def call(*args: Any, **kwargs: Any) -> Any:
        if noted := trace.enabled and _notes_flow(key):
            opened = span(**flow.sources((*args, *kwargs.values())))
        else:
            opened = span() if trace.enabled else trace.NOTHING
        with opened:  # a traceback is the same with a profile and without
            result = await function(*args, **kwargs)
        if noted:
            flow.returned(name, result)
        return result

    return call


def _notes_flow(key: object) -> bool:
    """Return whether this call of a function notes the data flow: only the first calls do."""
    left = _left.get(key, trace.REPEATS_KEPT)
    if left:
        _left[key] = left - 1
    return bool(left)


def _generator(function: Any, span: Any) -> Callable[..., Any]:
    """Run a generator with a span for each step, forwarding sent values and thrown exceptions."""

    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        running = function(*args, **kwargs)
        step, given = running.send, None
        while True:
            try:
                with span():
                    value = step(given)
            except StopIteration as ended:
                return ended.value
            try:
                given, step = (yield value), running.send
            except GeneratorExit:
                running.close()
                raise
            except BaseException as error:  # noqa: BLE001 - it is the generator's to handle
                given, step = error, running.throw

    return call


def _asynchronous_generator(function: Any, span: Any) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        running = function(*args, **kwargs)
        step, given = running.asend, None
        while True:
            try:
                with span():
                    value = await step(given)
            except StopAsyncIteration:
                return
            try:
                given, step = (yield value), running.asend
            except GeneratorExit:
                await running.aclose()
                raise
            except BaseException as error:  # noqa: BLE001 - it is the generator's to handle
                given, step = error, running.athrow

    return call
