"""The progress of a long map, as a terminal line that is erased at the end."""

from __future__ import annotations

import contextlib
import sys
from time import perf_counter

AFTER_SECONDS, EVERY_SECONDS = 1.0, 0.1


class Progress:
    """The progress line of one map; none if stderr is not a terminal, or the map is short."""

    def __init__(self, name: str, total: int | None) -> None:
        self._name, self._total = name, total
        self._began = perf_counter()
        self._due = self._began + AFTER_SECONDS
        self._shown = False

    def update(self, done: int) -> None:
        """Show that `done` items have finished, if an update is due."""
        now = perf_counter()
        if now < self._due:
            return
        self._due = now + EVERY_SECONDS
        if not _is_terminal():
            return
        rate = done / (now - self._began)
        share = f" of {self._total} ({100 * done // self._total} %)" if self._total else ""
        say(f"\r\x1b[K{self._name}: {done}{share}, {rate:.3g} items/s")
        self._shown = True

    def close(self) -> None:
        """Erase the line."""
        if self._shown:
            say("\r\x1b[K")
            self._shown = False


def say_ended(name: str, done: int, total: int | None, cause: str = "interrupted") -> None:
    """Report on stderr how many items of a map had finished when it was cut short."""
    of = f" of {total}" if total is not None else ""
    say(f"gpuforge: {name} was {cause}: {done}{of} items finished\n")


def say(text: str) -> None:
    """Write to stderr, unless there is none, it is closed, or nobody reads it."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


def _is_terminal() -> bool:
    """Return whether stderr is a terminal; a program's own stand-in may have no such method."""
    with contextlib.suppress(AttributeError, ValueError):
        return sys.stderr.isatty()
    return False
