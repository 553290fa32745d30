"""The formats in which a profile can be written, one module per format, named after it.

Each module defines ``SUMMARY`` (one line for the list of formats), ``SUFFIX`` (of its files) and
``render(profile) -> str``. A ``_`` in a module's name is a ``-`` in the format's name.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType

from gpuforge import registry, stored
from gpuforge.errors import UnknownName
from gpuforge.profiler.model import Profile
from gpuforge.profiler.session_path import check_report


def names() -> tuple[str, ...]:
    """Return the sorted names of the formats."""
    return tuple(name.replace("_", "-") for name in registry.names(__name__))


def module(name: str) -> ModuleType:
    """Return the module of a format.

    Raises
    ------
    UnknownName
        If there is no format of that name.
    """
    if name not in names():
        raise UnknownName.among("format", name, names())
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")


def render(profile: Profile, name: str) -> str:
    """Return `profile` in the format `name`.

    Raises
    ------
    UnknownName
        If there is no format of that name.
    """
    return module(name).render(profile)  # type: ignore[no-any-return]


def write(path: str | os.PathLike[str], content: str) -> None:
    """Write a report to a file.

    Raises
    ------
    WorkloadError
        If it cannot be written, or would replace a session file.
    """
    check_report(path)
    stored.write_output(Path(path), content)
