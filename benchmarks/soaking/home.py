"""Folders of its own for one run, removed at the very end.

It is imported before gpuforge, whose sessions keep what they learned as the program ends: what was
registered first is called last.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_taken: list[Path] = []


def take() -> Path:
    """Return a new folder, which is also that of caches, settings and counters."""
    folder = Path(tempfile.mkdtemp(prefix="gpuforge-soak-"))
    _taken.append(folder)
    for name in ("CACHE", "CONFIG", "DATA"):
        os.environ[f"XDG_{name}_HOME"] = str(folder / name.lower())
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
    return folder


@atexit.register
def _remove() -> None:
    for folder in _taken:
        shutil.rmtree(folder)
