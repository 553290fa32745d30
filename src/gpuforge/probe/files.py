"""Bounded reads of regular files; a pipe or device cannot block the reader."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gpuforge.facts import Absent, Failed, Reading

FILE_LIMIT_BYTES = 64 * 2**20
USUAL_BYTES = 2**16
# Windows opens files in text mode by default.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read(path: str | Path, shown: str) -> Reading[bytes]:
    """Return the content of a regular file, named `shown` in messages; a pipe could block."""
    try:
        # `open` would take twice as long, and doctor reads four small files for each package.
        file = os.open(path, _FLAGS)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                return Failed(f"{shown} is not a regular file")
            content = _content(file, status.st_size)
        finally:
            os.close(file)
    except (FileNotFoundError, NotADirectoryError):
        return Absent(f"no file {shown}")
    except IsADirectoryError:
        return Failed(f"{shown} is not a regular file")
    except (OSError, ValueError) as error:
        return Failed(f"{shown}: {error}")
    if len(content) > FILE_LIMIT_BYTES:
        return Failed(f"{shown} is larger than {FILE_LIMIT_BYTES // 2**20} MiB")
    return content


def _content(file: int, size: int) -> bytes:
    """Return the content of a file of that size; at most one byte more than the limit."""
    # `os.read` allocates as much as it is asked for. Kernel files report a size of 0.
    wanted = min(size or USUAL_BYTES, FILE_LIMIT_BYTES) + 1
    content = os.read(file, wanted)
    if len(content) == size:
        return content
    while len(content) <= FILE_LIMIT_BYTES and (
        more := os.read(file, min(wanted, FILE_LIMIT_BYTES + 1 - len(content)))
    ):
        content += more
    return content


def decoded(content: Reading[bytes]) -> Reading[str]:
    """Return the text of `content`, or why there is none."""
    return text_of(content) if isinstance(content, bytes) else content


def text_of(content: bytes) -> str:
    """Decode UTF-8, or UTF-16 with or without a byte order mark; line endings become ``\\n``."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = content.decode("utf-16", "replace")
    elif content[1:2] == b"\0" != content[:1] and content[3:4] == b"\0":
        text = content.decode("utf-16-le", "replace")
    else:
        text = content.decode("utf-8", "replace").removeprefix("\ufeff")
    return text.replace("\r\n", "\n")
