"""What a program says when SIGTERM ends it, and Ctrl-C held back; its own handlers stay."""

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


def _replace(before: Any, handler: Any, number: int = signal.SIGTERM) -> None:
    main = threading.current_thread() is threading.main_thread()  # others may set no handler
    if main and signal.getsignal(number) == before:
        signal.signal(number, handler)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Report what finished, without locks that the interrupted code may hold; end as by default."""
    for process, tell in list(_tellers.values()):
        if process in (None, os.getpid()):
            with contextlib.suppress(Exception):  # stderr may be in use, or closed
                tell()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class Held:
    """A block in which other code must not be interrupted: Ctrl-C ends it when it is left.

    Python ignores an exception in a destructor or in a callback of the garbage collector, and Dask
    has both: its map would go on. In the middle of a lock, an exception leaves that locked.
    With `open` set, Ctrl-C ends the block at once, as a second one always does.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._came = self.open = False

    def __enter__(self) -> None:
        _replace(signal.default_int_handler, self._interrupt, signal.SIGINT)

    def __exit__(self, *_: object) -> None:
        _replace(self._interrupt, signal.default_int_handler, signal.SIGINT)
        if self._came:
            raise KeyboardInterrupt from None

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        again, self._came = self._came, True
        self._wake()
        if again or self.open:
            raise KeyboardInterrupt
