"""Tracing: spans, counts and choices of a running program, kept in memory while it is on.

A *span* is a named interval of wall time; one that begins inside another is its child, in threads
and in tasks of an event loop. While tracing is off, nothing is kept, and a place in the code costs
only the check of `enabled`::

    if trace.enabled:
        with trace.within("run", trace.WAIT, backend=name):
            return run()
    return run()

Spans take no lock: beginning one appends it to a deque, and ending one sets its end. Readers take
all spans out with `drain`; `drainer` is called when they become too many.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

MOST_SPANS = 100_000
"""Spans kept until they are drained; then the oldest go, and are counted as ``dropped spans``."""
REPEATS_KEPT = 256
"""Short spans of one kind in a row that are kept one by one; those after them are counted."""
COUNTED_SECONDS = 1e-3
"""Calls on NumPy that take less are short: most are counted instead of kept as spans."""
HOST, WAIT, TRANSFER, OVERHEAD, DEVICE = range(5)
"""Labels of a thread's time: the program's own work, waiting for a device, transfers, gpuforge's
own work. The last is for lanes of devices: busy."""

enabled = False
"""Whether spans, counts and choices are kept. Set by `enable`."""
drainer: Callable[[], object] | None = None
"""Takes the spans out; called by the thread whose span makes them too many."""
peaks: Callable[[Iterable[str], bool], dict[str, Any]] | None = None
"""Returns the peaks of backends: stored ones and, if the second argument is true, links measured
now. Set by the runtime.
"""

Listener = tuple[
    Callable[[str], Any], "Callable[[Any, OpenSpan], object]", Callable[[], bool] | None
]
"""callbacks at the start and end of a span, and whether they are active; None: always"""


class Span(NamedTuple):
    """A finished span.

    Attributes
    ----------
    label : `HOST`, `WAIT`, `TRANSFER`, `OVERHEAD`; `DEVICE` on the lanes of devices
    number, parent : its number and its parent's, 0 for none; numbers grow in order of start
    start_ns, end_ns : on the clock of ``time.perf_counter_ns``
    thread : unique number of the thread in this process; below 0 for a device's lane
    nbytes : bytes moved
    attributes : its attributes; ``error`` names the exception that ended it
    """

    name: str
    label: int
    number: int
    parent: int
    start_ns: int
    end_ns: int
    thread: int
    nbytes: int
    attributes: dict[str, Any] | None


class Choice(NamedTuple):
    """A backend that was chosen for calls of one signature.

    Attributes
    ----------
    at_ns : time on the clock of ``time.perf_counter_ns``
    predicted_seconds : candidate to the expected time of one call there
    reason : why this backend was chosen
    """

    at_ns: int
    function: str
    signature: str
    backend: str
    predicted_seconds: dict[str, float]
    reason: str


class Reading(NamedTuple):
    """One value of something that changes over time: ``memory`` in ``bytes`` of ``host``."""

    name: str
    unit: str
    device: str
    at_ns: int
    value: float


class Repeated(NamedTuple):
    """Spans of one kind inside one parent, of which only the number and the total time are known.

    Attributes
    ----------
    span : as long as all of them together
    times : how many there were
    choice : the choice by which these calls were made
    """

    span: Span
    times: int
    choice: Choice | None


class Trace(NamedTuple):
    """What was kept since the last `drain`.

    Attributes
    ----------
    spans : finished spans in order of start
    repeated : spans that were counted
    standing : open spans in order of start; their end is 0
    lanes : names of all threads and device lanes by number
    choices : each choice with the seconds of one call and of its transfers
    notes : what a reader must be told
    """

    spans: list[Span]
    repeated: list[Repeated]
    counts: dict[str, int]
    lanes: dict[int, str]
    choices: list[tuple[Choice, float, float]]
    readings: list[Reading]
    notes: list[str]
    standing: list[Span]


_next_number = itertools.count(1).__next__
_begun: deque[OpenSpan] = deque()
_standing: list[OpenSpan] = []
"""Spans that were open when spans were last taken out."""
_counts: Counter[str] = Counter()
_choices: deque[tuple[Choice, float, float]] = deque(maxlen=MOST_SPANS)
_readings: deque[Reading] = deque(maxlen=MOST_SPANS)
_repeating: dict[int, Repeating] = {}
_notes: dict[str, bool] = {}
_lanes: dict[int, str] = {}
_devices: dict[str, _Lane] = {}
_lock = threading.RLock()
_inside: ContextVar[OpenSpan | None] = ContextVar("gpuforge_span", default=None)
_inside_here, _go_inside, _begin = _inside.get, _inside.set, _begun.append
_tuple = tuple.__new__
_MOST_WRAPPERS = 16
_LOOK_EVERY = (1 << 10) - 1
"""Bit mask: one in 1024 spans checks whether there are too many."""
_switched: list[Callable[[], object]] = []
_listeners: list[Listener] = []
_ENDINGS = (StopIteration, StopAsyncIteration, GeneratorExit)
"""Exceptions that signal an end, not a failure."""


class _Lane:
    """A thread or a device: its number, its latest span, and the end of those timed otherwise."""

    __slots__ = ("last", "number", "timed_ns")

    def __init__(self, number: int, name: str) -> None:
        self.number, self.timed_ns = number, 0
        self.last: OpenSpan | None = None
        _lanes[number] = name


class _Here(threading.local):
    """The lane of this thread, created at its first span."""

    def __init__(self) -> None:
        self.lane = _Lane(next(_thread_numbers), threading.current_thread().name)
        _threads[threading.get_ident()] = self.lane


_thread_numbers = itertools.count(1)
_threads: dict[int, _Lane] = {}
_here = _Here()


class OpenSpan:
    """An open span; `nbytes` may be set until it ends."""

    __slots__ = (
        "attributes", "end", "label", "lane", "name", "nbytes", "number", "parent", "start",
    )  # fmt: skip
    name: str
    label: int
    lane: _Lane
    number: int
    parent: OpenSpan | None
    start: int
    end: int
    nbytes: int
    attributes: dict[str, Any] | None

    def note(self, **attributes: Any) -> None:
        """Add attributes to this span."""
        self.attributes = {**(self.attributes or {}), **attributes}

    def __enter__(self) -> OpenSpan:
        parent = _inside_here()
        while parent is not None and parent.end:
            parent = parent.parent
        self.parent = parent if parent is not self else None  # entered twice
        self.lane = lane = _here.lane
        lane.last = self
        self.end = 0
        _begin(self)
        if len(_begun) > MOST_SPANS:
            _make_room()
        # Not reset at the end, which would cost as much again: the next span searches for its open
        # parent.
        _go_inside(self)
        self.start = perf_counter_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, traceback: Any) -> None:
        if kind is None:
            self.end = perf_counter_ns()
            return
        end = perf_counter_ns()
        if not issubclass(kind, _ENDINGS):
            self.note(error=kind.__name__)
        self.end = end


def _above(span: OpenSpan | None) -> OpenSpan | None:
    """Return the innermost ancestor of an ended span that is still open."""
    while span is not None and span.end:
        span = span.parent
    return span


class _Heard(OpenSpan):
    """A span that is reported to listeners."""

    __slots__ = ("heard",)

    def __enter__(self) -> OpenSpan:
        self.heard: list[tuple[Callable[[Any, OpenSpan], object], Any]] | None = None
        for begin, end, is_on in _listeners:
            if is_on is None or is_on():
                self.heard = [*(self.heard or ()), (end, begin(as_text(self.name)))]
        return _enter(self)

    def __exit__(self, kind: type[BaseException] | None, error: Any, traceback: Any) -> None:
        _exit(self, kind, error, traceback)
        for end, token in reversed(self.heard or ()):
            end(token, self)


_enter, _exit = OpenSpan.__enter__, OpenSpan.__exit__


def _is_heard() -> bool:
    """Return whether a listener would be told of a span that begins now."""
    return any(is_on is None or is_on() for _, _, is_on in _listeners)


class Nothing:
    """A span while tracing is off.

    It is entered and left by C functions found on the class that take no `self`, at half the cost
    of Python methods.
    """

    __slots__ = ("__weakref__",)
    nbytes = property(lambda self: 0, lambda self, value: None)

    def note(self, **attributes: Any) -> None:
        """Do nothing."""

    if TYPE_CHECKING:

        def __enter__(self) -> Nothing: ...
        def __exit__(self, *_: object) -> None: ...


NOTHING = Nothing()
if not TYPE_CHECKING:
    Nothing.__enter__ = weakref.ref(NOTHING)
    Nothing.__exit__ = memoryview(b"").__exit__
_kind: type[OpenSpan] = OpenSpan


def span(name: str, /, **attributes: Any) -> OpenSpan | Nothing:
    """Return a context manager that traces a ``with`` block as a span, if tracing is on.

    Parameters
    ----------
    name
        Name of the work: spans with one name and the same parents are shown together.
    **attributes
        Further facts: numbers, texts. ``note`` of the object that ``with`` returns adds more.
    """
    if not enabled:
        return NOTHING
    made = _kind()
    made.name, made.label, made.nbytes = name, 0, 0
    made.attributes = attributes or None
    return made


def within(name: str, label: int, /, **attributes: Any) -> OpenSpan | Nothing:
    """Return a context manager as `span` does, for a span with a label."""
    if not enabled:
        return NOTHING
    made = _kind()
    made.name, made.label, made.nbytes = name, label, 0
    made.attributes = attributes or None
    return made


def defined(function: Any) -> tuple[str, dict[str, Any]]:
    """Return a function's name, and the file and line of its definition as attributes of a span."""
    plain = inner = getattr(function, "__func__", function)
    name = getattr(plain, "__qualname__", type(plain).__qualname__)
    for _ in range(_MOST_WRAPPERS):  # `inspect.unwrap` raises if a function wraps itself
        inner = getattr(inner, "__wrapped__", inner)
    code = getattr(inner, "__code__", None)
    return name, {"file": code.co_filename, "line": code.co_firstlineno} if code else {}


def keep(
    name: str, label: int, start_ns: int, end_ns: int, nbytes: int = 0, /, **attributes: Any
) -> None:
    """Add a span that was timed already, as a child of the current one."""
    if enabled:
        _keep(name, label, start_ns, end_ns, nbytes, attributes, _here.lane)


def keep_device(lane: str, name: str, start_ns: int, end_ns: int, /, **attributes: Any) -> None:
    """Add busy time of a device's queue: ``torch:cuda:0 compute``, ``torch:cuda:0 copy``."""
    if not enabled:
        return
    device = _devices.get(lane)
    if device is None:
        with _lock:
            device = _devices.setdefault(lane, _Lane(-1 - len(_devices), lane))
    _keep(name, DEVICE, start_ns, end_ns, 0, attributes, device)


def _keep(
    name: str, label: int, start_ns: int, end_ns: int, nbytes: int, attributes: dict[str, Any],
    lane: _Lane,
) -> None:  # fmt: skip
    made = OpenSpan()
    made.name, made.label, made.nbytes, made.attributes = name, label, nbytes, attributes or None
    made.parent, made.lane = _above(_inside_here()), lane
    made.start, made.end = start_ns, end_ns
    lane.timed_ns = max(lane.timed_ns, end_ns)
    _begun.append(made)


class Repeating:
    """Short spans of one kind, counted instead of kept after `REPEATS_KEPT` without a span inside.

    A span that is counted need not be taken out and written, which takes longer than to time it.
    """

    __slots__ = ("_kept_first", "_kind", "_latest", "_left", "_sums", "name")

    def __init__(self, kind: object, name: str) -> None:
        self._kind = kind  # else another object might get its id
        self.name = name
        self._left = self._kept_first = REPEATS_KEPT
        self._latest: _Sum | None = None
        self._sums: dict[tuple[OpenSpan | None, _Lane, int], _Sum] = {}

    def is_counted(self) -> bool:
        """Return whether the next span is to be counted; not while a listener hears of spans."""
        return self._left <= 0 and enabled and (_kind is OpenSpan or not _is_heard())

    def kept(self, span: OpenSpan) -> None:
        """Note that a span of this kind was kept."""
        lane = span.lane
        alone = lane.last is span and lane.timed_ns <= span.start
        self._left = self._left - 1 if alone else self._kept_first

    @property
    def is_retired(self) -> bool:
        """Whether tracing was switched off, or on anew, since this was made."""
        return self._kept_first == sys.maxsize

    def retire(self) -> None:
        """Count nothing any more: a call that still holds this would count where nobody looks."""
        self._left = self._kept_first = sys.maxsize

    def call(
        self, attributes: dict[str, Any], choice: Choice | None, function: Callable[..., Any],
        args: tuple[Any, ...], kwargs: dict[str, Any],
    ) -> tuple[Any, int]:  # fmt: skip
        """Call a function, and count the time of the call instead of keeping a span.

        Returns the result and the nanoseconds. A call that raises is kept.
        """
        before, start = _here.lane.last, perf_counter_ns()
        try:
            result = function(*args, **kwargs) if kwargs else function(*args)
        except BaseException as error:
            about = {**attributes, "error": type(error).__name__}
            keep(self.name, HOST, start, perf_counter_ns(), **about)
            raise
        end = perf_counter_ns()
        if not self.add(before, attributes, choice, start, end) and choice is not None:
            chose(choice, (end - start) / 1e9)
        return result, end - start

    def add(
        self, before: OpenSpan | None, attributes: dict[str, Any], choice: Choice | None,
        start_ns: int, end_ns: int,
    ) -> bool:  # fmt: skip
        """Count a span, and return whether it was. `before` is what `latest` returned at its start.

        One with another span inside, kept or counted, is left out: its time is its parent's own,
        and what is inside counts as inside the parent.
        """
        lane = _here.lane
        if lane.last is not before or lane.timed_ns > start_ns:
            self._left = self._kept_first
            return False
        lane.timed_ns = end_ns
        inside, found = _inside_here(), self._latest
        if (
            found is None
            or found.inside is not inside
            or found.choice is not choice
            or found.lane is not lane
            or (found.parent is not None and found.parent.end)
        ):
            parent = _above(inside)
            key = parent, lane, id(choice)
            found = self._sums.get(key) or _Sum(parent, lane, attributes, choice)
            self._sums[key] = found
            self._latest = found
            found.inside = inside
        if found.count == found.told[0]:  # the first since the last `take`
            found.start = start_ns
        found.count += 1
        found.duration += end_ns - start_ns
        return True

    def take(self) -> Iterable[tuple[_Sum, int, int, int]]:
        """Yield each sum with its start, spans and nanoseconds since the last call."""
        for key, found in self._sums.copy().items():
            count, duration = found.count - found.told[0], found.duration - found.told[1]
            if count:
                found.told = found.told[0] + count, found.told[1] + duration
                yield found, found.start, count, duration
            elif found.is_idle and found is not self._latest:
                del self._sums[key]
            found.is_idle = not count  # a thread may be about to add to one that it has looked up


class _Sum:
    """The spans of one kind with one parent, added up by the thread of one lane."""

    __slots__ = (
        "attributes", "choice", "count", "duration", "inside", "is_idle", "lane", "parent", "start",
        "told",
    )  # fmt: skip

    def __init__(
        self, parent: OpenSpan | None, lane: _Lane, attributes: dict[str, Any],
        choice: Choice | None,
    ) -> None:  # fmt: skip
        self.parent, self.lane = parent, lane
        self.inside = parent  # or an ended span inside it
        self.attributes, self.choice = attributes, choice
        self.start = self.count = self.duration = 0
        self.told, self.is_idle = (0, 0), False


def repeating(kind: object, name: str) -> Repeating:
    """Return what counts the short spans of a kind, the same one while tracing is on."""
    with _lock:
        return _repeating.setdefault(id(kind), Repeating(kind, name))


def _retire_repeating() -> None:
    for one in _repeating.values():
        one.retire()
    _repeating.clear()


def latest() -> OpenSpan | None:
    """Return the span that began last in this thread."""
    return _here.lane.last


def count(name: str, number: int = 1) -> None:
    """Add `number` to the count `name`, if tracing is on."""
    if enabled:
        with _lock:
            _counts[name] += number


def chose(choice: Choice, seconds: float, transfer_seconds: float = 0.0) -> None:
    """Add a choice with the time of one call made by it."""
    if enabled:
        _choices.append((choice, seconds, transfer_seconds))


def read(name: str, unit: str, device: str, value: float) -> None:
    """Add a reading at this moment."""
    if enabled:
        _readings.append(Reading(name, unit, device, perf_counter_ns(), value))


def tell(note: str) -> None:
    """Add a note for readers of the trace, once."""
    if enabled:
        _notes.setdefault(note, True)


def enable(on: bool = True) -> None:
    """Switch tracing on or off; what was kept stays until it is drained."""
    global enabled
    changed, enabled = enabled != on, on
    if changed:
        for tell_of_it in _switched:
            tell_of_it()


def when_switched(function: Callable[[], None]) -> Callable[[], None]:
    """Call a function whenever tracing was switched on or off; return it."""
    _switched.append(function)
    return function


def listen(
    begin: Callable[[str], Any],
    end: Callable[[Any, OpenSpan], object],
    is_on: Callable[[], bool] | None = None,
) -> Callable[[], None]:
    """Report spans that begin from now on; call the returned function to stop.

    Parameters
    ----------
    begin, end
        `begin` is called with the span's name, `end` with what `begin` returned and the span, in
        the span's thread. They must not raise.
    is_on
        Called at the start of each span: whether to report it; None to report all.
    """
    global _kind
    heard = (begin, end, is_on)
    _listeners.append(heard)
    _kind = _Heard

    def stop() -> None:
        global _kind
        if heard in _listeners:
            _listeners.remove(heard)
        _kind = _Heard if _listeners else OpenSpan

    return stop


def waiting() -> int:
    """Return the number of spans that have not been taken out."""
    return len(_begun)


def current(ident: int = 0) -> str:
    """Return the name of a thread's innermost open span; empty if there is none.

    Parameters
    ----------
    ident
        ``threading.get_ident()`` of the thread; 0 for the calling one.
    """
    lane = _threads.get(ident or threading.get_ident())
    span = _above(lane.last) if lane is not None else None
    return span.name if span is not None else ""


def drain() -> Trace:
    """Return and clear what was kept since the last call."""
    global _standing
    with _lock:
        # Before the spans, so that the parents of what was counted are among them.
        sums = [(kind, *sum_) for kind in _repeating.values() for sum_ in kind.take()]
        ended: list[OpenSpan] = []
        standing: list[OpenSpan] = []
        for span in _standing + _take(len(_begun)):
            (ended if span.end else standing).append(span)
        _standing = standing
        surplus = len(ended) - MOST_SPANS
        if surplus > 0 and drainer is None:
            ended.sort(key=lambda span: span.end)
            del ended[:surplus]
            _counts["dropped spans"] += surplus
        spans = _told(ended)
        # A span that is just beginning has no start; one that ended since is returned next time.
        opened = _told([span for span in standing if hasattr(span, "start")])
        opened = [span._replace(end_ns=0) for span in opened]
        repeated = [_repeated(*sum_) for sum_ in sums]
        if not enabled:
            _retire_repeating()
        counts, lanes = dict(_counts), _lanes.copy()
        choices = [_choices.popleft() for _ in range(len(_choices))]
        readings = [_readings.popleft() for _ in range(len(_readings))]
        notes = [note for note, new in _notes.items() if new]
        _notes.update(dict.fromkeys(notes, False))
        _counts.clear()
        return Trace(spans, repeated, counts, lanes, choices, readings, notes, opened)


def restart() -> None:
    """Clear everything and number spans from 1; open spans are dropped."""
    global _next_number
    with _lock:
        drain()
        for span in _standing:
            span.number = 0
        _standing.clear()
        _retire_repeating()
        _next_number = itertools.count(1).__next__


def _take(most: int) -> list[OpenSpan]:
    """Take out the first spans and number them."""
    take = _begun.popleft
    taken = [take() for _ in range(most)]
    for span in taken:
        span.number = _next_number()
    return taken


def _repeated(kind: Repeating, found: _Sum, start: int, many: int, duration: int) -> Repeated:
    """Return what was counted of one kind inside one parent, as one span."""
    parent = found.parent.number if found.parent else 0
    span = Span(
        kind.name, HOST, _next_number(), parent, start, start + duration, found.lane.number, 0,
        found.attributes,
    )  # fmt: skip
    return Repeated(span, many, found.choice)


def _told(spans: Iterable[OpenSpan]) -> list[Span]:
    return [
        _tuple(Span, (
            span.name if type(span.name) is str else as_text(span.name), span.label, span.number,
            span.parent.number if span.parent else 0, span.start, span.end, span.lane.number,
            span.nbytes, span.attributes,
        ))
        for span in spans
    ]  # fmt: skip


def as_text(value: object) -> str:
    """Return a value of the traced program as text, whatever its ``__str__`` does."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the program must not fail because it is traced
        return f"<{type(value).__name__}>"


def _make_room() -> None:
    """Have the spans taken out; drop the oldest if there is no `drainer`."""
    if len(_begun) & _LOOK_EVERY:
        return
    if drainer is not None:
        drainer()
    elif _lock.acquire(blocking=False):  # else another thread is taking them out
        try:
            surplus = _take(len(_begun) - MOST_SPANS)
            standing = [span for span in surplus if not span.end]
            _standing.extend(standing)
            _counts["dropped spans"] += len(surplus) - len(standing)
        finally:
            _lock.release()


def _fork() -> None:
    """Continue in a forked child without the parent's spans."""
    global _lock, drainer, enabled, _kind
    _lock, drainer, enabled, _kind = threading.RLock(), None, False, OpenSpan
    _take(len(_begun))  # they may be parents of the child's spans
    for lane in _threads.values():
        lane.last = None
    for kept in (_standing, _counts, _choices, _readings, _repeating, _notes, _listeners):
        kept.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fork)
