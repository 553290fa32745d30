"""The ``gpuforge`` logger: standard `logging`, silent until a setting opens it.

Level INFO is what ``--verbose`` shows: the time of each phase, cache hits, what was skipped. DEBUG
is for the log only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import logging

    from gpuforge.settings import Settings

ROOT = "gpuforge"
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Logger:
    """The logger of one part, which does nothing until the program has imported `logging`."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def info(self, text: str, *values: Any) -> None:
        """Log an action at level INFO."""
        if "logging" in sys.modules:
            _of_python(self._name).info(text, *values, stacklevel=2)

    def warning(self, text: str, *values: Any) -> None:
        """Log something that the user may want to change, at level WARNING."""
        if "logging" in sys.modules:
            _of_python(self._name).warning(text, *values, stacklevel=2)


def logger(part: str = "") -> Logger:
    """Return the logger of one part of gpuforge, silent unless it or the root was opened."""
    return Logger(f"{ROOT}.{part}" if part else ROOT)


_PROPAGATES = True


def keep_apart() -> None:
    """Keep the records from the program's own handlers, for a program that knows no gpuforge."""
    global _PROPAGATES
    _PROPAGATES = False


@cache
def _of_python(name: str) -> logging.Logger:
    import logging

    root = logging.getLogger(ROOT)
    root.propagate = _PROPAGATES
    if not root.handlers:
        root.addHandler(logging.NullHandler())
    return logging.getLogger(name)


@cache
def _handler() -> logging.Handler:
    """Return a handler that writes to the current ``sys.stderr``, which a program may replace."""
    import logging

    class StderrHandler(logging.StreamHandler[TextIO]):
        def __init__(self) -> None:
            logging.Handler.__init__(self)
            self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

        @property
        def stream(self) -> TextIO:
            return sys.stderr

        @stream.setter
        def stream(self, value: TextIO) -> None:
            raise AttributeError("the stream is sys.stderr")

    return StderrHandler()


def open_log(settings: Settings) -> None:
    """Write the log to stderr as `settings` say, replacing what an earlier call opened.

    ``log`` names the level; ``verbose`` asks for INFO at least.
    """
    levels = [_LEVELS[settings.log]] if settings.log else []
    levels += [_LEVELS["info"]] if settings.verbose else []
    if not levels and "logging" not in sys.modules:
        return
    root = _of_python(ROOT)
    root.removeHandler(_handler())
    root.setLevel(min(levels, default=0))
    if levels:
        root.addHandler(_handler())


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Log how long the enclosed work took, at level INFO, also when it fails."""
    start = time.perf_counter()
    try:
        yield
    finally:
        from gpuforge.units import format_seconds

        logger().info("%s took %s", name, format_seconds(time.perf_counter() - start))
