"""Reading a library's files into memory ahead of its import, in a process of its own.

An import holds the interpreter's lock while the disk is read; another process does not. The system
is asked to read, which takes next to no processor time; what is in memory is not read again.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

BESIDE = {"jax": ("jaxlib",), "dpnp": ("dpctl",), "cupy": ("cupy_backends",)}
"""Packages that the import of a library loads, too, and that are large."""
_PROGRAM = """
import os, sys
for folder in sys.argv[1:]:
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith('.pyc') or '.so' in name:
                try:
                    file = os.open(os.path.join(place, name), os.O_RDONLY)
                except OSError:
                    continue
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
                os.close(file)
"""


def read_ahead(library: str) -> subprocess.Popen[bytes] | None:
    """Begin to read the files of a library; None where the system cannot be asked to."""
    folders = [folder for name in (library, *BESIDE.get(library, ())) for folder in _folders(name)]
    if not hasattr(os, "posix_fadvise") or not folders:
        return None
    import subprocess

    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROGRAM, *folders],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,  # Ctrl-C is for the program alone
    )


def _folders(name: str) -> list[str]:
    spec = find_spec(name.partition(".")[0])
    found = list(spec.submodule_search_locations or ()) if spec is not None else []
    return found + [f"{folder}.libs" for folder in found if os.path.isdir(f"{folder}.libs")]
