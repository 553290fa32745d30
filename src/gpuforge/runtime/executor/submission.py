"""Turn calls into tasks."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from gpuforge.errors import InvalidSettings
from gpuforge.runtime.executor.future import TaskFuture
from gpuforge.runtime.executor.running import options_of
from gpuforge.runtime.executor.task import DEFAULT, Task, Terms, check_terms
from gpuforge.runtime.function.key import hot_key
from gpuforge.runtime.session import current_session

if TYPE_CHECKING:
    from gpuforge.runtime.executor.dispatcher import Dispatcher
    from gpuforge.runtime.executor.places import Places

SMALL_BYTES = 4 << 20
"""Calls over more bytes are not batched."""
OPTIONS = ("priority", "timeout", "memory", "name")
_own_names: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()
_ndarray = np.ndarray


def make_task(
    places: Places, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
    terms: Terms,
) -> Task:  # fmt: skip
    """Return the task of a call, which runs in the session and context of the caller."""
    bound = getattr(function, "__self__", None)
    inner = getattr(function, "__func__", None)
    options = options_of(inner or function)
    if bound is not None and options is not None:  # an offloaded method
        function, args = inner or function, (bound, *args)
    task = Task(function, args, kwargs, terms, copy_context())
    session = current_session()
    task.lanes = places.lanes(options, session)
    if options is None:
        return task
    task.killable = bool(options.isolate) and terms.timeout is not None
    task.limit_bytes = session.settings.memory_limit
    nbytes = 0
    for value in (*args, *kwargs.values()) if kwargs else args:
        if type(value) is _ndarray:
            nbytes += value.nbytes
    if terms.memory is None:
        task.need_bytes = nbytes
    key = hot_key(args, kwargs)
    if key is not None:
        task.kind = (id(function), key)
        if nbytes and nbytes <= SMALL_BYTES and options.pure and not options.isolate:
            task.group = (id(function), terms.priority, key)
    return task


def submit(
    dispatcher: Dispatcher, places: Places, function: Callable[..., Any], args: tuple[Any, ...],
    kwargs: dict[str, Any], terms: Terms = DEFAULT, home: Any = None,
) -> TaskFuture[Any]:  # fmt: skip
    """Queue a call and return its future."""
    task = make_task(places, function, args, kwargs, terms)
    task.home = home
    future: TaskFuture[Any] = TaskFuture(task, dispatcher)
    task.ending = future
    dispatcher.put(task)
    return future


def terms_for(function: Any, priority: Any, timeout: Any, memory: Any, name: Any) -> Terms:
    """Return the terms that were passed along with a function's arguments.

    Raises
    ------
    InvalidSettings
        If a value is invalid, or the function has a parameter of that name.
    """
    if (
        priority == 0
        and timeout is None
        and memory is None
        and name == ""
        and priority is not False
    ):
        return DEFAULT
    own = _own_names.get(function)
    if own is None:
        own = _own_names[function] = _parameters(function)
    given = zip(OPTIONS, (priority, timeout, memory, name), strict=True)
    for option, value in given:
        if option in own and value is not None and value not in (0, ""):
            raise InvalidSettings(
                f"{option}= is an option of submit and a parameter of {function!r}",
                hint=f"gf.executor().with_options({option}=A).submit(f, x, {option}=B) gives A to"
                " the task and B to the function",
            )
    return check_terms(priority, timeout, memory, name)


def _parameters(function: Any) -> frozenset[str]:
    from inspect import signature

    try:
        return frozenset(signature(function._function).parameters) & frozenset(OPTIONS)
    except ValueError:  # a function of a C extension may have no signature
        return frozenset()
