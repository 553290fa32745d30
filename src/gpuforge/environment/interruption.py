"""Ctrl-C while an environment is made: it ends the installers at once and is raised between steps.

Raised at any place, as Python does it, it is lost in a fork, or leaves a temporary folder whose
removal was just going to be arranged.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_running: set[subprocess.Popen[str]] = set()
_heard, _waiting = threading.Event(), threading.Event()


@contextmanager
def deferred() -> Iterator[None]:
    """Make the first Ctrl-C end the running installers, and have `check` raise it.

    A second one is raised at once. Does nothing in other threads, and in programs that handle
    SIGINT themselves.
    """
    python = signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or (
        signal.getsignal(signal.SIGINT) is not python
    ):
        yield
        return

    def hear(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, python)
        _heard.set()
        for process in tuple(_running):
            process.terminate()
        if _waiting.is_set():  # for output, which the installer's own children may hold open
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, hear)
    try:
        yield
        check()
    except Exception:
        check()  # what fails because its installer was ended is not the news
        raise
    finally:
        signal.signal(signal.SIGINT, python)
        _heard.clear()


def check() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was pressed since `deferred` began."""
    if _heard.is_set():
        raise KeyboardInterrupt


@contextmanager
def ended_by_it(process: subprocess.Popen[str]) -> Iterator[None]:
    """End `process` when Ctrl-C is pressed, also if that was while it started."""
    _running.add(process)
    is_main = threading.current_thread() is threading.main_thread()
    try:
        if _heard.is_set():
            process.terminate()
        elif is_main:
            _waiting.set()
        yield
    finally:
        if is_main:
            _waiting.clear()
        _running.discard(process)
    check()
