"""A lock that allows one change at a time, so that none is undone while it is still being made."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gpuforge.changes.record import records_folder
from gpuforge.errors import PlanRefused

WAIT_SECONDS = 10.0
_STEP_SECONDS = 0.05


@contextmanager
def change_lock() -> Iterator[int]:
    """Hold this user's lock on changes, and yield its file descriptor.

    Child processes that inherit the descriptor hold the lock until they end.

    Raises
    ------
    PlanRefused
        If another change is still being made, or records cannot be written.
    """
    folder = records_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise PlanRefused(f"cannot record repairs in {folder}: {error}") from None
    try:
        _lock(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    if os.name != "posix":
        return
    import fcntl

    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise PlanRefused(
                    "another repair (pip or gpuforge doctor) is still running",
                    hint="wait until it has finished, then run the command again",
                ) from None
            time.sleep(_STEP_SECONDS)
