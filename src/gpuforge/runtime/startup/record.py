"""What happened at the start of a program, stored for ``gpuforge startup`` and its next run.

It is stored in the shared history under the host's name instead of a machine's fingerprint, because
computing the latter imports NumPy, which a program with lazy imports may never do.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from gpuforge import settings
from gpuforge.digest import digest
from gpuforge.ending import stay_interrupted
from gpuforge.errors import InvalidSettings
from gpuforge.history import History

LAST = "start:last"
_kept: dict[str, Any] = {}


class Imported(Protocol):
    """A deferred import, as in `gpuforge.runtime.startup.lazy`."""

    module: str
    imported_at: str
    used_at: str
    seconds: float | None
    failure: str


def program() -> str:
    """Return the path of the program that this process runs; empty if it is not a file."""
    script = sys.argv[0] if getattr(sys, "argv", None) else ""
    return os.path.realpath(script) if os.path.isfile(script) else ""


def since_start() -> float | None:
    """Return the seconds since this process was started; None if the system does not report it."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, IndexError, ValueError):
        return None


def store() -> History:
    """Return the history for start-ups, which stores nothing if the settings say so."""
    try:
        chosen = settings.load().settings
    except InvalidSettings:  # the command or session that reads them raises it
        return History(None, "")
    folder = settings.cache_folder(chosen) if chosen.history else None
    return History(folder, f"start-up on {platform.node()}")


def of_program(path: str) -> dict[str, Any]:
    """Return what the last run of a program stored; empty if there is nothing."""
    found = store().constant(_name(path))
    return found if isinstance(found, dict) else {}


def last() -> dict[str, Any]:
    """Return what the last program stored; empty if there is nothing."""
    history = store()
    name = history.constant(LAST)
    found = history.constant(name) if isinstance(name, str) else None
    return found if isinstance(found, dict) else {}


def keep(part: str, value: dict[str, Any]) -> None:
    """Store one part of this run's record, in addition to the parts stored before."""
    history, path = store(), program()
    if Path(path).stem == "gpuforge" or path.endswith(os.path.join("gpuforge", "__main__.py")):
        return  # a command of gpuforge is not the user's last program
    _kept.setdefault(part, {}).update(value)
    found = {"program": path, "ended": time.time(), **_kept}
    history.keep_constants({_name(path): found, LAST: _name(path)})
    stay_interrupted()


def keep_imports(deferred: Iterable[Imported]) -> None:
    """Store the outcome of deferred imports; a library whose import failed is switched off."""
    found = {one.module: dict(vars(one)) for one in deferred}
    constants: dict[str, Any] = {}
    for name, one in found.items():
        if one["failure"]:
            constants[f"off:{name}"] = one["failure"]
        elif one["seconds"] is not None and "." not in name:
            constants[f"import:{name}"] = one["seconds"]
    store().keep_constants(constants)
    keep("imports", found)


def keep_import_seconds(seconds: dict[str, float]) -> None:
    """Store the import times of libraries, measured in separate processes."""
    store().keep_constants({f"import:{name}": value for name, value in seconds.items()})


def import_seconds() -> dict[str, float]:
    """Return the last measured import times of libraries by name."""
    found = store().constants("import:")
    return {name.partition(":")[2]: value for name, value in found.items()}


def switched_off() -> dict[str, str]:
    """Return the modules whose deferred import failed before, and how."""
    found = store().constants("off:")
    return {name.partition(":")[2]: f"it failed before: {why}" for name, why in found.items()}


def _name(path: str) -> str:
    return f"start:{digest(path, 8)}"
