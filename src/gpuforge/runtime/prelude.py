"""The first calls of a program, before anything of gpuforge is loaded that places them.

Reading settings, opening the history and loading what places calls takes some 50 ms, which a short
program never gets back. So calls are made as written, and counted, until those that are long enough
to be placed have taken `SECONDS` in all. A pinned function, a setting or a session ends that at
once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from threading import Lock
from time import perf_counter
from typing import Any
from weakref import ref

from gpuforge import trace

SECONDS, LONG_SECONDS = 0.3, 30e-6
"""Calls of at least the second are summed up; nothing is loaded before they reach the first."""
TINY_SECONDS, TIMED_EVERY = 10e-6, 63
"""After a call shorter than the first, one call of the function in so many, and one, is timed."""
_INERT = ("GPUFORGE_CACHE_FOLDER", "GPUFORGE_CORPUS")
_PROJECT_FILE = "gpuforge.toml"


class Prelude:
    """What was called before the first call that may be placed.

    Attributes
    ----------
    over : whether calls may be placed from now on
    forked : whether this process was forked by one that had made calls
    """

    def __init__(self) -> None:
        self.over = False
        self.forked = False
        self._left = SECONDS
        self._checked = False
        self._lock = Lock()
        self._counts: dict[int, tuple[Any, list[float]]] = {}

    def lasts(self, pinned: object) -> bool:
        """Return whether calls are still made as written; not those pinned to a place."""
        if self.over:
            return False
        configured = not self._checked and _is_configured()
        self._checked = True
        if configured or pinned or self._left < 0:
            self.end()
        return not self.over

    def end(self) -> None:
        """Let every call be placed from now on."""
        self.over = True
        for owner in self.owners():
            owner._tiny = False

    def call(
        self, owner: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """Make a call as written, and count it."""
        start = perf_counter()
        try:
            with _span(function) if trace.enabled else trace.NOTHING:
                return function(*args, **kwargs)
        finally:
            seconds = perf_counter() - start
            with self._lock:
                found = self._counts.get(id(owner))
                if found is None or found[0]() is not owner:
                    found = self._counts[id(owner)] = ref(owner), [0, 0.0]
                found[1][0] += 1
                found[1][1] += seconds
                owner._tiny = seconds < TINY_SECONDS and not (self.over or trace.enabled)
                if seconds > LONG_SECONDS:
                    self._left -= seconds

    def spend(self, seconds: float) -> None:
        """Sum up calls that are too short by themselves, but not together: a map batches them."""
        with self._lock:
            self._left -= seconds

    def taken(self, owner: Any) -> tuple[int, float]:
        """Return the calls of one function so far, and their seconds, and forget them."""
        with self._lock:
            found = self._counts.pop(id(owner), None)
        if found is None or found[0]() is not owner:
            return 0, 0.0
        timed, seconds = found[1]
        ticks = owner._tick()
        untimed = ticks - (ticks + TIMED_EVERY) // (TIMED_EVERY + 1)
        return int(timed) + untimed, seconds * (1 + untimed / timed)

    def owners(self) -> list[Any]:
        """Return the functions that were called and are still there."""
        return [owner for found, _ in list(self._counts.values()) if (owner := found()) is not None]

    def fork(self) -> None:
        """Go on in a forked child, with a lock that nobody holds."""
        self._lock = Lock()
        self.forked = self.forked or bool(self._counts)


def _span(function: Any) -> Any:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    home = f"{getattr(function, '__module__', '?')}.{name}"
    return trace.span(name, function=home, backend="numpy")


def _is_configured() -> bool:
    """Return whether a variable or a file may set anything; true where that is not known."""
    if any(name.startswith("GPUFORGE_") and name not in _INERT for name in os.environ):
        return True
    if sys.platform != "linux":
        return True
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    if os.path.exists(os.path.join(home, "gpuforge")):
        return True
    try:
        folder = os.getcwd()
    except OSError:  # it is gone
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
        return True  # what reads the settings says what is wrong with it


prelude = Prelude()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=prelude.fork)
