"""Checking and opening the path of a session file, without loading other modules.

A program that is recorded imports this and what it imports; paths are text here, as `pathlib` takes
three milliseconds.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import IO

from gpuforge.errors import WorkloadError

MAGIC = b"\x89GFP\r\n\x1a\n"
"""The first bytes of a session file."""


def check_target(target: str | os.PathLike[str]) -> None:
    """Check a path as `Writer` would, as far as possible without writing.

    Raises
    ------
    WorkloadError
        If the folder does not exist, it or an existing file cannot be written, or the file is not
        a session file.
    """
    path = os.fspath(target)
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise unwritable(path, FileNotFoundError(f"no folder {folder!r}"))
    _check(path)
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise unwritable(path, PermissionError("you have no permission to write there"))


def _check(path: str) -> None:
    try:
        start = _start(path)
        if start and start != MAGIC:
            raise WorkloadError(
                f"{path!r} exists and is not a session file; it was not overwritten",
                hint="name another file",
            )
    except FileNotFoundError:
        pass
    except OSError as error:
        raise unwritable(path, error) from None


def _start(path: str) -> bytes:
    with open(path, "rb") as old:
        return old.read(len(MAGIC))


def check_report(target: str | os.PathLike[str]) -> None:
    """Raise `WorkloadError` if a report would replace a session file, perhaps its own."""
    path = os.fspath(target)
    with suppress(OSError):
        if os.path.isfile(path) and _start(path) == MAGIC:  # reading from a pipe would wait
            raise WorkloadError(
                f"{path!r} is a session file; it was not overwritten with a report",
                hint="name another file",
            )


def opened(path: str) -> IO[bytes]:
    """Open the file for writing and truncate it; raise as `check_target` does."""
    _check(path)
    try:
        return open(path, "wb", buffering=0)
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: str, error: OSError) -> WorkloadError:
    """Return the error for a session file that cannot be written."""
    return WorkloadError(
        f"the session file {path!r} cannot be written: {error.strerror or error}",
        hint="name a file in another folder",
    )
