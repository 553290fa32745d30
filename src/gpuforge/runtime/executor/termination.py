"""What a program says when SIGTERM ends it, unless it handles the signal itself."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

tellers: dict[Any, Callable[[], None]] = {}
"""Functions that report on stderr what had finished, each under a key of its owner's."""


def watch() -> None:
    """Make SIGTERM report what finished before the process ends."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Report what finished, without locks that the interrupted code may hold; end as by default."""
    for tell in list(tellers.values()):
        with contextlib.suppress(Exception):  # stderr may be in use, or closed
            tell()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=tellers.clear)
