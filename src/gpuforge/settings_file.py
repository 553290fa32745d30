"""Edit the user's settings file in place, keeping comments and order.

A file that is not valid TOML is never overwritten. Every change replaces the file atomically, so
that the old one survives a full disk or a crash. Processes that change it take turns.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuforge import settings
from gpuforge.errors import InvalidSettings
from gpuforge.stored import write

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

# Presets: for each kind of machine, what differs from the defaults, and why.
PRESETS: dict[str, dict[str, Any]] = {
    # Docks and power supplies change within minutes; time, power and memory are scarce.
    "laptop": {
        "cache_seconds": 600.0,
        "explore_share": 0.005,
        "memory_strategy": "lazy",
        "monitor_interval": 10.0,
    },
    # Other users' load makes trials cost more and timings less accurate; others wait for memory.
    "shared": {
        "explore_share": 0.0,
        "memory_strategy": "eager",
        "kept_memory": 0,
        "compiler_process": False,
    },
    # Availability matters more than the last percent of speed; a missing device must not stop the
    # service; stderr is a log.
    "service": {"explore_share": 0.001, "fallback": True, "log": "warning", "profiler": False},
    # Reproducible runs: nothing learned, nothing stored, no device.
    "ci": {"cpu_only": True, "explore_share": 0.0, "history": False, "learn": False},
}

TEMPLATE_HEAD = (
    "# Settings of gpuforge. Remove a '#' to set one; 'gpuforge config show' lists all.\n"
)


def change(path: Path, values: Mapping[str, Any], remove: tuple[str, ...] = ()) -> dict[str, str]:
    """Set `values` in the file at `path` and delete the keys of `remove`.

    Returns
    -------
    dict
        The previous value of each of these keys as TOML text; keys that did not exist are left out.

    Raises
    ------
    InvalidSettings
        If a value is invalid, the file is not valid TOML, or it cannot be written.
    """
    checked = {name: settings.parse(name, value) for name, value in values.items()}
    path = Path(os.path.realpath(path))  # a link stays a link
    with _refusing(path), _taking_turns(path):
        document = _read(path)
        before = {k: _source(document[k]) for k in (*checked, *remove) if k in document}
        for name, value in checked.items():
            document[name] = list(value) if isinstance(value, tuple) else value
        for name in remove:
            document.pop(name, None)
        if checked or before:
            write(path, document.as_string().rstrip("\n") + "\n")
    return before


def create(path: Path) -> None:
    """Write a file that lists every setting with its meaning and default, all commented out.

    Raises
    ------
    InvalidSettings
        If it cannot be written. A file that is there is left as it is.
    """
    import tomlkit

    with _refusing(path), _taking_turns(path):
        if not os.path.exists(path):
            parts = [TEMPLATE_HEAD]
            for name in settings.names():
                default = getattr(settings.Settings(), name)
                item = tomlkit.item(list(default) if isinstance(default, tuple) else default)
                parts.append(f"\n# {settings.describe(name)}\n# {name} = {item.as_string()}\n")
            write(path, "".join(parts))


def _source(value: Any) -> str:
    import tomlkit

    return str(tomlkit.item(value).as_string()).strip()


def _read(path: Path) -> TOMLDocument:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        return tomlkit.document()
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise InvalidSettings(
            f"{path} is not valid TOML and was not changed: {error}",
            hint="correct it with 'gpuforge config edit'",
        ) from None


@contextlib.contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Turn errors of the operating system into one that names the file."""
    try:
        yield
    except OSError as error:
        raise InvalidSettings(
            f"{path} cannot be written: {error.strerror or error}; it was not changed",
            hint="check the folder's permissions and the free space of its disk",
        ) from None


@contextlib.contextmanager
def _taking_turns(path: Path) -> Iterator[None]:
    """Lock the folder of `path`, if the system and the file system support it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems lock no folders
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
