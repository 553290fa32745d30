"""What a program says when SIGTERM ends it, unless it handles the signal itself."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_tellers: dict[Any, tuple[int | None, Callable[[], None]]] = {}
"""Owner to the process that it belongs to, None for forked children too, and its function."""


def begin(owner: Any, tell: Callable[[], None], *, in_children: bool = False) -> None:
    """Call `tell`, which reports what finished, if SIGTERM comes before `end` of the same owner."""
    _tellers[owner] = None if in_children else os.getpid(), tell
    _replace(signal.SIG_DFL, _terminate)


def end(owner: Any) -> None:
    """Forget an owner; after the last one, SIGTERM ends the program at once again."""
    _tellers.pop(owner, None)
    if not _tellers:
        _replace(_terminate, signal.SIG_DFL)


def _replace(before: Any, handler: Any) -> None:
    main = threading.current_thread() is threading.main_thread()  # others may set no handler
    if main and signal.getsignal(signal.SIGTERM) is before:
        signal.signal(signal.SIGTERM, handler)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Report what finished, without locks that the interrupted code may hold; end as by default."""
    for process, tell in list(_tellers.values()):
        if process in (None, os.getpid()):
            with contextlib.suppress(Exception):  # stderr may be in use, or closed
                tell()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
