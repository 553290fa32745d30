"""The user's settings file, edited in place: comments and order stay, and nothing is lost.

A file that is no valid TOML is never written over. Every change replaces the file in one step, so
that a full disk or a crash leaves the old one. Two processes that change it take turns.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuforge import settings
from gpuforge.errors import InvalidSettings

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

# What each kind of machine wants that differs from the defaults, and why.
PRESETS: dict[str, dict[str, Any]] = {
    # Docks and power change within minutes; spare time, power and memory are the user's.
    "laptop": {
        "cache_seconds": 600.0,
        "explore_share": 0.005,
        "memory_strategy": "lazy",
        "monitor_interval": 10.0,
    },
    # Other people's load makes each try dearer and its timing less true; they wait for memory.
    "shared": {"explore_share": 0.0, "memory_strategy": "eager", "tame_threads": True},
    # Answers count more than the last percent; a missing device must not stop them; stderr is a
    # log that somebody reads.
    "service": {"explore_share": 0.001, "fallback": True, "log": "warning", "profiler": False},
    # Every run the same: nothing learned, nothing kept, no device.
    "ci": {"cpu_only": True, "explore_share": 0.0, "history": False, "learn": False},
}

TEMPLATE_HEAD = (
    "# Settings of gpuforge. Take away a '#' to set one; 'gpuforge config show' lists all.\n"
)


def change(path: Path, values: Mapping[str, Any], remove: tuple[str, ...] = ()) -> dict[str, str]:
    """Set `values` in the file at `path` and take away the keys of `remove`.

    Returns
    -------
    dict
        What each of these keys held before, as TOML text; keys that were not there are left out.

    Raises
    ------
    InvalidSettings
        If a value means nothing, the file is no valid TOML, or it cannot be written.
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
            _replace(path, document.as_string().rstrip("\n") + "\n")
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
        if not path.exists():
            parts = [TEMPLATE_HEAD]
            for name in settings.names():
                default = getattr(settings.Settings(), name)
                item = tomlkit.item(list(default) if isinstance(default, tuple) else default)
                parts.append(f"\n# {settings.describe(name)}\n# {name} = {item.as_string()}\n")
            _replace(path, "".join(parts))


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
            f"{path} is not valid TOML and is left as it is: {error}",
            hint="mend it with 'gpuforge config edit'",
        ) from None


def _replace(path: Path, text: str) -> None:
    """Write `text` to a new file beside `path` and put it in place in one step."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            os.chmod(name, path.stat().st_mode & 0o7777)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into an error that names the file."""
    try:
        yield
    except OSError as error:
        raise InvalidSettings(
            f"{path} cannot be written: {error.strerror or error}; it is left as it was",
            hint="check the folder's permissions and the free space of its disk",
        ) from None


@contextlib.contextmanager
def _taking_turns(path: Path) -> Iterator[None]:
    """Lock the folder of `path`, where the system and the file system have such locks."""
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
