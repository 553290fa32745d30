"""A line on the terminal that shows how far a wait is, and is erased at the end."""

from __future__ import annotations

import contextlib
import os
import sys
from shutil import get_terminal_size
from time import monotonic

STALE_SECONDS = 5.0
"""A line that was not updated for so long, such as that of an abandoned map, is replaced."""


class ProgressLine:
    """A progress line on stderr. There is one at a time: others are not shown meanwhile."""

    _shown: ProgressLine | None = None
    _updated = 0.0

    def show(self, text: str) -> None:
        """Show a text instead of the last one, if stderr is a terminal that can erase a line."""
        is_free = ProgressLine._shown in (None, self)
        if (is_free or monotonic() - ProgressLine._updated > STALE_SECONDS) and _draws():
            ProgressLine._shown, ProgressLine._updated = self, monotonic()
            say(f"\r\x1b[K{text[: get_terminal_size().columns - 1]}")  # more could not be erased

    def erase(self) -> None:
        """Erase the line, if it is shown."""
        if ProgressLine._shown is self:
            ProgressLine._shown = None
            say("\r\x1b[K")


def say(text: str) -> None:
    """Write to stderr, unless there is none, it is closed, or nobody reads it."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


def _draws() -> bool:
    """Return whether stderr can erase a line; a program's own stand-in may have no `isatty`."""
    with contextlib.suppress(AttributeError, ValueError):
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return False
