"""One change at a time, and none is undone while it is still being made."""

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
def sole_change() -> Iterator[int]:
    """Hold the lock of all changes of this user, as an open file.

    A process that gets the file holds the lock as well: it is free once all of them have ended.

    Raises
    ------
    PlanRefused
        If another change is still being made, or no records can be written.
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
