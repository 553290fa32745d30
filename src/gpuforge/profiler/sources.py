"""The user's source lines that a profile refers to, read from the disk if they still exist."""

from __future__ import annotations

import os
import stat
import tokenize
from typing import NamedTuple

from gpuforge.profiler.model import Profile

LARGEST_BYTES = 4 << 20
AROUND = 2
_SUFFIXES = (".py", ".pyw")


class Source(NamedTuple):
    """Source lines, or why there are none.

    Attributes
    ----------
    lines : numbers and texts
    absent : why the lines cannot be shown; empty if they can
    changed : whether the file was written after the recording began
    """

    lines: tuple[tuple[int, str], ...] = ()
    absent: str = ""
    changed: bool = False


def source(profile: Profile, file: str, line: int) -> Source:
    """Return `line` and `AROUND` lines before and after it.

    A session file may come from somebody else and name any file on this machine, so only Python
    files are read.
    """
    if not file.endswith(_SUFFIXES):
        return Source(absent="it is not a Python file")
    try:
        about = os.stat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST_BYTES:
            return Source(absent="it is not a file of a usual size")
        with tokenize.open(file) as opened:
            found = tuple(
                (number, text.rstrip())
                for number, text in enumerate(opened, 1)
                if abs(number - line) <= AROUND
            )
    except (OSError, ValueError, SyntaxError) as error:
        return Source(absent=f"it cannot be read here ({type(error).__name__})")
    if all(number != line for number, _ in found):
        return Source(absent="it no longer has this line")
    started = profile.header.get("started")
    return Source(found, changed=isinstance(started, int | float) and about.st_mtime > started)
