"""Read a library's files into memory before its import, in a separate process.

An import holds the interpreter's lock while it waits for the disk; another process does not. The
kernel is asked to read, which uses almost no CPU time. If some of the files are in memory, they
were read recently, and nothing is done.

Source: preadv2(2), RWF_NOWAIT (Linux 4.14): fail where a page would have to be read from disk.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import IO

BESIDE = {"jax": ("jaxlib",), "dpnp": ("dpctl",), "cupy": ("cupy_backends",)}
"""Large packages that the import of a library loads too."""
_SAMPLE = 8
"""Number of files of a folder that are checked."""
_PROGRAM = """
import os, select, sys
if os.fork():
    os._exit(0)
for folder in sys.argv[1:]:
    for place, _, names in os.walk(folder):
        if select.select([0], [], [], 0)[0]:
            sys.exit()
        for name in names:
            if name.endswith('.pyc') or '.so' in name:
                try:
                    file = os.open(os.path.join(place, name), os.O_RDONLY)
                except OSError:
                    continue
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
                os.close(file)
"""


def read_ahead(library: str) -> IO[bytes] | None:
    """Start to read a library's files; None if they are in memory or cannot be read ahead.

    The reading ends when the returned file is closed, at the latest with this process. The reader
    is not a child process, so a program that waits for any child, as `os.wait` does, never sees it.
    """
    folders = [folder for name in (library, *BESIDE.get(library, ())) for folder in _folders(name)]
    if not hasattr(os, "posix_fadvise") or not folders or all(map(_is_in_memory, folders)):
        return None
    import subprocess

    starting = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROGRAM, *folders],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,  # Ctrl-C is for the program alone
    )
    starting.wait()
    return starting.stdin


def _is_in_memory(folder: str) -> bool:
    """Return whether the files at the top of a folder are in memory; False if unknown."""
    if not hasattr(os, "RWF_NOWAIT"):
        return False
    with os.scandir(folder) as found:
        files = [one.path for one in found if one.is_file() and one.stat().st_size]
    for path in files[:_SAMPLE]:
        file = os.open(path, os.O_RDONLY)
        try:
            os.preadv(file, [bytearray(1)], os.fstat(file).st_size // 2, os.RWF_NOWAIT)
        except OSError:  # not in memory, or not supported by the file system
            return False
        finally:
            os.close(file)
    return True


def _folders(name: str) -> list[str]:
    spec = find_spec(name.partition(".")[0])
    found = list(spec.submodule_search_locations or ()) if spec is not None else []
    return found + [f"{folder}.libs" for folder in found if os.path.isdir(f"{folder}.libs")]
