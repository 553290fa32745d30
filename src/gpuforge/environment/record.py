"""The record of how an environment was created: a JSON file in its folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gpuforge import stored
from gpuforge.errors import InvalidSettings

FILE = "gpuforge-environment.json"
PIXI_HOME = Path(".pixi") / "envs" / "default"
_PIXI_FILES = {FILE, ".pixi", "pixi.toml", "pixi.lock", ".gitignore", ".gitattributes"}


@dataclass(frozen=True)
class Record:
    """How an environment was created.

    Attributes
    ----------
    base : folder name of the environment that this one was switched from; its own if from none
    installer : the program that created it
    pins : installed versions by package
    """

    profile: str
    framework: str
    accelerator: str
    python: str
    base: str
    installer: str
    pins: dict[str, str]


def write_record(folder: Path, record: Record) -> None:
    """Write `record` into an environment's folder."""
    stored.write(folder / FILE, stored.dumps(record, indent=1) + "\n")


def read_record(folder: Path) -> Record | None:
    """Return the record of an environment, or None if there is none.

    Raises
    ------
    InvalidSettings
        If the file is damaged or unreadable.
    """
    path = folder / FILE
    try:
        return stored.loads_as(Record, path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InvalidSettings(
            f"{path} cannot be read: {error}",
            hint="create the environment again with 'gpuforge env create --replace'",
        ) from None


def python_of(folder: Path) -> Path:
    """Return the path of an environment's interpreter, which may not exist."""
    home = folder / PIXI_HOME if os.path.isdir(folder / PIXI_HOME) else folder
    windows = (home / "Scripts" / "python.exe", home / "python.exe")
    return next((path for path in windows if os.path.exists(path)), home / "bin" / "python")


def is_environment(folder: Path) -> bool:
    """Return whether a folder is a Python environment, by any tool, without the user's own files.

    A pixi workspace counts only if gpuforge created it and no other file was added since.
    """
    if os.path.isdir(folder / PIXI_HOME):
        return os.path.isfile(folder / FILE) and {*os.listdir(folder)} <= _PIXI_FILES
    return os.path.isfile(folder / "pyvenv.cfg") or os.path.isdir(folder / "conda-meta")
