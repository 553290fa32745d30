"""The first calls of a program, before the modules that place calls are imported.

Reading settings, opening the history and importing those modules takes some 50 ms, which a short
program never regains. So calls run as written, and are counted, until those that are long enough to
be placed have taken `SECONDS` in all; and from then on until a separate thread has imported those
modules, which goes on while NumPy computes. A pinned function, a setting or a session ends the
prelude at once; with ``GPUFORGE_WARMUP`` alone, the import begins after the first call.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from functools import partial
from threading import Lock, Thread, current_thread
from time import perf_counter
from typing import Any
from weakref import ref

from gpuforge import trace
from gpuforge.runtime.short import ShortCalls

SECONDS, LONG_SECONDS = 0.3, 30e-6
"""The prelude ends when calls longer than the second have taken the first in all. After a shorter
call, most calls of the function skip inspection: see `ShortCalls`."""
SEEN_SECONDS, SEEN_EVERY_SECONDS = 5.0, 1.0
"""A prelude of short calls that lasts as long as the first is published, and again at the second:
it may last as long as the program, which other processes shall see. The import takes 5 ms."""
_WARMUP, _ON = "GPUFORGE_WARMUP", ("1", "true", "yes", "on")
_INERT = ("GPUFORGE_CACHE_FOLDER", "GPUFORGE_CORPUS", _WARMUP)
_PROJECT_FILE = "gpuforge.toml"


class Early:
    """The calls of one function during the prelude.

    Attributes
    ----------
    calls, seconds : the timed calls, and those added to them
    short : the untimed calls since
    published : how many of `calls` other processes can see
    repeating : what counts the calls while tracing is on
    said : the attributes of their spans
    """

    __slots__ = ("calls", "owner", "published", "repeating", "said", "seconds", "short")

    def __init__(self, owner: Any) -> None:
        self.owner = ref(owner)
        self.calls = self.published = 0
        self.seconds = 0.0
        self.short = ShortCalls()
        self.repeating: trace.Repeating | None = None
        self.said: dict[str, Any] = {}

    def add_untimed(self) -> None:
        """Add the untimed calls, which take as long as the timed ones, to these."""
        if self.calls:
            untimed = self.short.take_skipped()
            self.seconds *= 1 + untimed / self.calls
            self.calls += untimed

    def call_traced(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the function in a span; of many short calls, most are only counted."""
        repeating = self.repeating
        if repeating is None or repeating.is_retired:
            name, written = trace.defined(function)
            home = f"{getattr(function, '__module__', '?')}.{name}"
            self.said = {"function": home, "backend": "numpy", **written}
            repeating = self.repeating = trace.repeating(self, name)
        if self.seconds < trace.COUNTED_SECONDS * self.calls and repeating.is_counted():
            return repeating.call(self.said, None, function, args, kwargs)[0]
        from gpuforge import flow  # not needed unless calls are traced

        origin = flow.sources((*args, *kwargs.values()))
        with trace.span(repeating.name, **self.said, **origin) as span:
            result = function(*args, **kwargs)
        if isinstance(span, trace.OpenSpan):
            repeating.kept(span)
            flow.returned(repeating.name, result)
        return result


class Prelude:
    """The functions called before the first call that may be placed.

    Attributes
    ----------
    over : whether the prelude has ended, so that calls may be placed
    forked : whether this process was forked from one that had made calls
    load : imports the modules that place calls, ends the prelude, and warms up if that is set
    warms : whether a warm-up is set
    """

    def __init__(self) -> None:
        self.load: Callable[[], object] = self.end
        self._loading: Thread | None = None
        self._begun = False
        self.over = False
        self.forked = False
        self._left = SECONDS
        self._began = self._seen_at = math.inf
        self._checked = self.warms = False
        self._lock = Lock()
        self._early: dict[int, Early] = {}

    def lasts(self, pinned: object) -> bool:
        """Return whether a function's calls still run as written; pinned ones do not."""
        if self.over:
            return False
        configured = not self._checked and _is_configured()
        if not self._checked and os.environ.get(_WARMUP, "").lower() in _ON:
            self.warms = True
        self._checked = True
        if configured or pinned:
            self.end()
        return not self.over

    def end(self) -> None:
        """End the prelude: all calls may be placed from now on."""
        self.over = True
        self.look()

    def look(self) -> None:
        """Inspect the next call of each function, however short the previous one was."""
        for owner in self.owners():
            owner._short = None

    def begin(self, owner: Any, pinned: object) -> Early | None:
        """Start to count the calls of a function; return None if they may be placed."""
        if not self.lasts(pinned):
            return None
        with self._lock:
            found = self._early.get(id(owner))
            if found is None or found.owner() is not owner:
                found = self._early[id(owner)] = Early(owner)
            owner._early = found
            self._seen_at = min(self._seen_at, perf_counter() + SEEN_SECONDS)
        return found

    def call(self, owner: Any, early: Early, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function as written, and count the call."""
        function = owner._function
        if trace.enabled:
            function = partial(early.call_traced, function)
        start = perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            seconds = perf_counter() - start
            with self._lock:
                early.calls += 1
                early.seconds += seconds
            short = seconds < LONG_SECONDS and not (self.over or trace.enabled)
            owner._short = early.short if short else None
            if seconds > LONG_SECONDS:
                self.spend(seconds)
            if start > self._seen_at:
                self._publish(start)
            if self.warms and not self._begun:
                self._begun = True
                self._begin_to_load()

    def _publish(self, now: float) -> None:
        """Let other processes see the calls so far."""
        from gpuforge import published

        with self._lock:
            self._seen_at = now + SEEN_EVERY_SECONDS
            for early in self._early.values():
                early.add_untimed()
                if new := early.calls - early.published:
                    published.count("numpy", new, early.seconds / early.calls)
                    early.published += new

    def spend(self, seconds: float) -> None:
        """Add the time of calls; a map adds calls that are short one by one but long together."""
        now = perf_counter()
        with self._lock:
            self._left -= seconds
            self._began = min(self._began, now - seconds)
            # Functions that call each other count several times, so the wall time counts too.
            over = self._left < 0 and now - self._began >= SECONDS
            begins = over and not (self._begun or self.over)
            self._begun = self._begun or begins
        if begins:
            self._begin_to_load()

    def _begin_to_load(self) -> None:
        thread = Thread(target=self._load, name="gpuforge aside")
        try:
            thread.start()
        except RuntimeError:  # no thread can be started: the next call imports them
            self.end()
        else:
            self._loading = thread

    def _load(self) -> None:
        try:
            self.load()
        except Exception:  # noqa: BLE001 - the next call imports them again, and raises
            self.end()

    def wait(self) -> None:
        """Wait until nothing is being imported: a fork would leave the import locks held."""
        if self._loading is not None and self._loading is not current_thread():
            self._loading.join()

    def taken(self, owner: Any) -> tuple[int, float]:
        """Return the number and seconds of one function's calls, and reset them."""
        with self._lock:
            found = self._early.pop(id(owner), None)
            owner._early = owner._short = None
        if found is None or found.owner() is not owner or not found.calls:
            return 0, 0.0
        found.add_untimed()
        if found.published:  # whoever counts them from now on publishes them again
            from gpuforge import published

            published.count("numpy", -found.published, found.seconds / found.calls)
        return found.calls, found.seconds

    def owners(self) -> list[Any]:
        """Return the functions that were called and still exist."""
        return [
            owner for early in list(self._early.values()) if (owner := early.owner()) is not None
        ]

    def fork(self) -> None:
        """Continue in a forked child with a fresh lock."""
        self._lock, self._loading = Lock(), None
        for early in self._early.values():  # the parent's calls are not published by the child
            early.add_untimed()
            early.published = early.calls
        self.forked = self.forked or bool(self._early)


def _is_configured() -> bool:
    """Return whether an environment variable or a file may set anything; True if unknown."""
    if any(name.startswith("GPUFORGE_") and name not in _INERT for name in os.environ):
        return True
    if sys.platform != "linux":
        return True
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    if os.path.exists(os.path.join(home, "gpuforge")):
        return True
    try:
        folder = os.getcwd()
    except OSError:  # the current folder is gone
        return True
    while not _has_settings(folder):
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
    return True


def _has_settings(folder: str) -> bool:
    if os.path.exists(os.path.join(folder, _PROJECT_FILE)):
        return True
    try:
        with open(os.path.join(folder, "pyproject.toml"), "rb") as file:
            return b"gpuforge" in file.read()
    except FileNotFoundError:
        return False
    except OSError:
        return True  # reading the settings will report the error


prelude = Prelude()
trace.when_switched(prelude.look)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=prelude.wait, after_in_child=prelude.fork)
