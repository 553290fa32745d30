"""The ``gpuforge`` logger: standard `logging`, silent until a setting opens it.

Level INFO is what ``--verbose`` shows: the time of each phase, what was taken from a cache, what
was skipped. DEBUG is for the log alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuforge.settings import Settings
from gpuforge.units import format_seconds

if TYPE_CHECKING:
    import logging

ROOT = "gpuforge"
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def logger(part: str = "") -> logging.Logger:
    """Return the logger of one part of gpuforge, silent unless it or the root was opened."""
    import logging

    root = logging.getLogger(ROOT)
    if not root.handlers:
        root.addHandler(logging.NullHandler())
    return logging.getLogger(f"{ROOT}.{part}" if part else ROOT)


def open_log(settings: Settings) -> None:
    """Write the log to stderr as `settings` say, replacing what an earlier call opened.

    ``log`` names the level; ``verbose`` asks for INFO at least.
    """
    if _is_unheard() and not settings.log and not settings.verbose:
        return
    import logging

    from gpuforge.log_handler import StderrHandler

    root = logger()
    for handler in [h for h in root.handlers if isinstance(h, StderrHandler)]:
        root.removeHandler(handler)
    levels = [_LEVELS[settings.log]] if settings.log else []
    levels += [logging.INFO] if settings.verbose else []
    root.setLevel(min(levels, default=logging.NOTSET))
    if levels:
        root.addHandler(StderrHandler())


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Log how long the enclosed work took, at level INFO, also when it fails."""
    start = time.perf_counter()
    try:
        yield
    finally:
        if not _is_unheard():
            logger().info("%s took %s", name, format_seconds(time.perf_counter() - start))


def _is_unheard() -> bool:
    """Return whether nobody can be listening: `logging` takes 4 ms to import, a listener has it."""
    return "logging" not in sys.modules
