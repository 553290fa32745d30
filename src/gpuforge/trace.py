"""What happens on the way of a call: spans and counts of this process, kept in memory while on.

A *span* is a stretch of wall time with a name; one that begins inside another of the same thread is
its child. Nothing is kept while tracing is off, and a place in the code then costs the look at
`enabled`::

    if trace.enabled:
        with trace.span("run", backend=name):
            return run()
    return run()
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter, deque
from contextvars import ContextVar
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple

MOST_SPANS = 100_000
"""Spans kept until they are drained; then the oldest are dropped, and counted as ``dropped``."""

enabled = False
"""Whether spans and counts are kept. Set by `enable`."""


class Span(NamedTuple):
    """A finished span.

    Attributes
    ----------
    number, parent : its own and that of the span around it, 0 where there is none
    start, end : seconds, as ``time.perf_counter`` gives them
    thread : ``threading.get_ident()``
    attributes : what was said of it; ``error`` names the exception that ended it
    """

    name: str
    number: int
    parent: int
    start: float
    end: float
    thread: int
    attributes: dict[str, Any]


class Trace(NamedTuple):
    """What was kept since the last `drain`: spans in the order in which they ended, and counts."""

    spans: list[Span]
    counts: dict[str, int]


_finished: deque[Span] = deque(maxlen=MOST_SPANS)
_counts: Counter[str] = Counter()
_lock = threading.Lock()
_numbers = itertools.count(1)
_inside: ContextVar[int] = ContextVar("gpuforge_span", default=0)


class _Open:
    """A span on its way."""

    __slots__ = ("attributes", "name", "number", "parent", "start")

    def __init__(self, name: str, attributes: dict[str, Any]) -> None:
        self.name, self.attributes = name, attributes

    def __enter__(self) -> _Open:
        self.number, self.parent = next(_numbers), _inside.get()
        _inside.set(self.number)
        self.start = perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        end = perf_counter()
        _inside.set(self.parent)
        if kind is not None:
            self.attributes["error"] = kind.__name__
        _keep(
            Span(
                self.name, self.number, self.parent, self.start, end, threading.get_ident(),
                self.attributes,
            )
        )  # fmt: skip


class _Nothing:
    """A span while tracing is off."""

    __slots__ = ()

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        pass


_NOTHING = _Nothing()


def span(name: str, **attributes: Any) -> _Open | _Nothing:
    """Return what keeps a span around a ``with`` block; nothing is kept while tracing is off."""
    return _Open(name, attributes) if enabled else _NOTHING


def count(name: str, number: int = 1) -> None:
    """Add `number` to the count `name`; nothing is kept while tracing is off."""
    if enabled:
        with _lock:
            _counts[name] += number


def keep(name: str, start: float, end: float, **attributes: Any) -> None:
    """Keep a span that was timed already, as a child of the one around this place."""
    if enabled:
        here = threading.get_ident()
        _keep(Span(name, next(_numbers), _inside.get(), start, end, here, attributes))


def enable(on: bool = True) -> None:
    """Begin or cease to keep spans and counts; what was kept stays until it is drained."""
    global enabled
    enabled = on


def drain() -> Trace:
    """Return what was kept since the last time, and forget it."""
    with _lock:
        spans, counts = list(_finished), dict(_counts)
        _finished.clear()
        _counts.clear()
    return Trace(spans, counts)


def _keep(finished: Span) -> None:
    with _lock:
        if len(_finished) == MOST_SPANS:
            _counts["dropped"] += 1
        _finished.append(finished)
