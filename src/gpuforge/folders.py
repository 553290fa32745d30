"""The folders for a user's gpuforge files, by the conventions of each system."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# The same as `platformdirs` gives on Linux, where importing it takes 7 ms of every command.
_LINUX = {
    "config": ("XDG_CONFIG_HOME", "~/.config"),
    "cache": ("XDG_CACHE_HOME", "~/.cache"),
    "data": ("XDG_DATA_HOME", "~/.local/share"),
}
# A path that cannot exist: a user without a home folder has no such files.
_NOWHERE = Path(os.devnull, "no-home-folder")


def user_folder(kind: str) -> Path:
    """Return gpuforge's folder for ``config``, ``cache`` or ``data``, which need not exist."""
    if sys.platform == "linux" and not hasattr(sys, "getandroidapilevel"):
        variable, usual = _LINUX[kind]
        chosen = os.environ.get(variable, "").strip()
        found = expanded(chosen if chosen.startswith("/") else usual) / "gpuforge"
        return found if found.is_absolute() else _NOWHERE
    import platformdirs

    try:
        ways = platformdirs.PlatformDirs("gpuforge", appauthor=False)
        return expanded(getattr(ways, f"user_{kind}_dir"))
    except RuntimeError:  # there is no home folder
        return _NOWHERE


def expanded(text: str) -> Path:
    """Return the folder that `text` names; without a home folder, one that cannot exist."""
    path = os.path.expanduser(text)
    # An unexpanded "~" would become a folder of that name in the current one.
    return _NOWHERE if path.startswith("~") else Path(path)
