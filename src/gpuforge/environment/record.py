"""What an environment says of itself: one JSON file in its folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from gpuforge.errors import InvalidSettings

FILE = "gpuforge-environment.json"
PIXI_HOME = Path(".pixi") / "envs" / "default"
_PIXI_FILES = {FILE, ".pixi", "pixi.toml", "pixi.lock", ".gitignore", ".gitattributes"}


@dataclass(frozen=True)
class Record:
    """How an environment was made.

    Attributes
    ----------
    base : folder name of the environment that this one was switched from; its own when from none
    installer : the program that made it
    pins : package to installed version
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
    document = {"schema_version": 1, **asdict(record)}
    (folder / FILE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_record(folder: Path) -> Record | None:
    """Return the record of an environment, None where there is none.

    Raises
    ------
    InvalidSettings
        If the file is there and is no record.
    """
    path = folder / FILE
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        return Record(
            **{name: table[name] for name in Record.__dataclass_fields__},
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidSettings(
            f"{path} is no record of an environment: {error}", hint="create it again with --replace"
        ) from None


def python_of(folder: Path) -> Path:
    """Return the interpreter of an environment, which need not exist."""
    home = folder / PIXI_HOME if (folder / PIXI_HOME).is_dir() else folder
    windows = (home / "Scripts" / "python.exe", home / "python.exe")
    return next((path for path in windows if path.exists()), home / "bin" / "python")


def is_environment(folder: Path) -> bool:
    """Return whether a folder holds a Python environment of any maker, and no work of a user.

    A workspace of pixi is one when gpuforge made it and nothing was put into it since.
    """
    if (folder / PIXI_HOME).is_dir():
        return (folder / FILE).is_file() and {e.name for e in folder.iterdir()} <= _PIXI_FILES
    return (folder / "pyvenv.cfg").is_file() or (folder / "conda-meta").is_dir()
