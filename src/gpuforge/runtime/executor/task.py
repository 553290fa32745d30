"""A task: one submitted call and its terms."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from numbers import Integral
from typing import Any, NamedTuple, Protocol

from gpuforge.errors import InvalidSettings
from gpuforge.runtime.function.naming import name_of
from gpuforge.units import parse_bytes, parse_seconds

WAITING, RUNNING, ENDED = range(3)
LONGEST_SECONDS = 1e9
"""Thirty years: a longer wait overflows what locks take."""
LEAST_PRIORITY, MOST_PRIORITY = -100, 100


class Terms(NamedTuple):
    """The options of a submitted call.

    Attributes
    ----------
    priority : higher goes first
    timeout : seconds that the call may run; None for no limit
    memory : bytes that it needs; None for the size of its arrays
    name : its name in messages; empty for the function's
    """

    priority: int = 0
    timeout: float | None = None
    memory: int | None = None
    name: str = ""


DEFAULT = Terms()


def check_terms(priority: Any, timeout: Any, memory: Any, name: Any) -> Terms:
    """Validate the terms that a caller gave and return them.

    Raises
    ------
    InvalidSettings
        If a value is invalid.
    """
    whole = isinstance(priority, Integral) and not isinstance(priority, bool)
    if not whole or not LEAST_PRIORITY <= priority <= MOST_PRIORITY:
        raise InvalidSettings(
            f"priority={priority!r} is not an integer from {LEAST_PRIORITY} to {MOST_PRIORITY}",
            hint="higher goes first; 0 is the default",
        )
    if not isinstance(name, str):
        raise InvalidSettings(f"name={name!r} is not text")
    return Terms(int(priority), check_timeout(timeout), check_memory(memory), name)


def check_timeout(timeout: Any) -> float | None:
    """Validate a timeout and return it in seconds; None for no limit."""
    if timeout is None:
        return None
    try:
        seconds = parse_seconds(timeout)
    except InvalidSettings:
        seconds = 0.0
    if not seconds:
        raise InvalidSettings(
            f"timeout={timeout!r} is not a positive duration",
            hint="use seconds or a text such as '250ms'; None waits without limit",
        )
    return min(seconds, LONGEST_SECONDS)


def check_memory(memory: Any) -> int | None:
    """Validate a size of memory and return it in bytes; None for no limit."""
    if memory is None:
        return None
    try:
        return parse_bytes(memory)
    except InvalidSettings as error:
        raise InvalidSettings(
            f"memory={memory!r} is not a size in bytes", hint=error.hint
        ) from None


class Ending(Protocol):
    """Receives how a task ended, once."""

    def set_running_or_notify_cancel(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: BaseException | None, /) -> None: ...
    def mark_cancelled(self) -> None: ...
    def left_to_parent(self) -> None: ...


class Task:
    """One submitted call.

    Attributes
    ----------
    ending : receives the result
    home : the executor that it was submitted to; None for the shared one
    killable : whether it runs in a worker process, which is killed at its timeout
    kind : key of calls with the same expected time; None if unknown
    group : key of calls that may be batched together; None if it cannot be batched
    context : the context variables of the caller, including the session
    need_bytes, limit_bytes : what it needs, and the session's limit; 0 for no limit
    lanes : names of the lanes that may run it
    order : position in the queue; lower is sooner
    """

    __slots__ = (
        "args", "context", "ending", "function", "group", "home", "killable", "kind", "kwargs",
        "lanes", "limit_bytes", "need_bytes", "order", "queued_at", "started_at", "state", "terms",
    )  # fmt: skip

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        terms: Terms,
        context: Context | None = None,
    ) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.terms, self.context = terms, context
        self.ending: Ending
        self.home: Any = None
        self.killable = False
        self.kind: Any = None
        self.group: Any = None
        self.lanes: tuple[str, ...] = ()
        self.need_bytes = terms.memory or 0
        self.limit_bytes = 0
        self.order: tuple[float, int] = (0.0, 0)
        self.queued_at = self.started_at = 0.0
        self.state = WAITING

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.terms.name or name_of(self.function)

    def forget(self) -> None:
        """Drop the arguments. Hold no lock meanwhile: their destructors may submit tasks."""
        self.args, self.kwargs, self.context = (), {}, None
