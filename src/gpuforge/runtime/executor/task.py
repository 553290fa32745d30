"""A task: one call that was asked for, and on which terms."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any, NamedTuple, Protocol

from gpuforge.errors import InvalidSettings
from gpuforge.runtime.function.naming import name_of
from gpuforge.units import parse_bytes, parse_seconds

WAITING, RUNNING, ENDED = range(3)
LEAST_PRIORITY, MOST_PRIORITY = -100, 100


class Terms(NamedTuple):
    """On which terms a call is made.

    Attributes
    ----------
    priority : higher goes first
    timeout : seconds that the call may run; None: as long as it takes
    memory : bytes that it needs; None: those of its arrays
    name : what messages call it; empty: the name of its function
    """

    priority: int = 0
    timeout: float | None = None
    memory: int | None = None
    name: str = ""


DEFAULT = Terms()


def check_terms(priority: Any, timeout: Any, memory: Any, name: Any) -> Terms:
    """Return the terms that a caller gave.

    Raises
    ------
    InvalidSettings
        If a value means nothing.
    """
    whole = isinstance(priority, int) and not isinstance(priority, bool)
    if not whole or not LEAST_PRIORITY <= priority <= MOST_PRIORITY:
        raise InvalidSettings(
            f"priority={priority!r} is not an integer from {LEAST_PRIORITY} to {MOST_PRIORITY}",
            hint="higher goes first; 0 is the default",
        )
    if not isinstance(name, str):
        raise InvalidSettings(f"name={name!r} is not text")
    return Terms(priority, check_timeout(timeout), _memory(memory), name)


def check_timeout(timeout: Any) -> float | None:
    """Return the seconds that a caller gave as timeout; None for no limit."""
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
    return seconds


def _memory(memory: Any) -> int | None:
    if memory is None:
        return None
    try:
        return parse_bytes(memory)
    except InvalidSettings as error:
        raise InvalidSettings(
            f"memory={memory!r} is not a size in bytes", hint=error.hint
        ) from None


class Ending(Protocol):
    """What is told how a task ended, once."""

    def set_running_or_notify_cancel(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: BaseException | None, /) -> None: ...
    def mark_cancelled(self) -> None: ...
    def left_to_parent(self) -> None: ...


class Task:
    """One call that was asked for.

    Attributes
    ----------
    ending : what is told the result
    home : the executor that it was given to; None for the shared one
    killable : whether it is made in a worker process, which is killed at its timeout
    kind : calls that are expected to take as long are of one kind; None where that is not known
    group : calls that may be made together have the same; None: it is made alone
    context : the context variables of the place that asked for it, the session among them
    need_bytes, limit_bytes : what it needs, and what the session may use; 0: no limit
    lanes : names of the lanes that may run it
    order : the queue's order; less is sooner
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
        """What messages call it."""
        return self.terms.name or name_of(self.function)

    def forget(self) -> None:
        """Let go of the arguments: whoever keeps the future does not keep them."""
        self.args, self.kwargs, self.context = (), {}, None
