"""Paths in tables, with variables as a shell has them: ``${KERAS_HOME:-~/.keras}/keras.json``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

_VARIABLE = re.compile(r"\$\{(\w+):-([^{}]*)\}")
DEEPEST = 4  # one default inside another


def table_path(text: str, environ: Mapping[str, str]) -> str:
    """Return the path that a table means here; a relative one is of the current folder."""
    for _ in range(DEEPEST if "$" in text else 0):
        text = _VARIABLE.sub(lambda one: environ.get(one[1]) or one[2], text)
    return os.path.expanduser(text)


def first_existing(path: Path) -> Path:
    """Return a path, or the nearest folder above it that exists."""
    return next(one for one in (path, *path.absolute().parents) if os.path.exists(one))


def is_writable(folder: Path) -> bool:
    """Return whether a folder is writable, also by its mode, since root passes all access tests."""
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)
