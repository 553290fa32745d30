"""The folders that Python searches for modules before and after those of the packages."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpuforge.facts import known
from gpuforge.probe.files import text_of

if TYPE_CHECKING:
    from gpuforge.diagnose.site import Site

# A package that does this has parts in other folders. The attribute of another module is not its
# own, and neither is what a comment says.
_EXTENDS = rb"(?m)^[^#\n]*(?:(?<![\w.])__path__\b|declare_namespace|extend_path)"


def extends_path(content: bytes) -> bool:
    """Return whether the ``__init__.py`` of a package lets it have parts in other folders."""
    return re.search(_EXTENDS, content) is not None


def folders_before(site: Site) -> list[Path]:
    """Return the folders that Python searches before the packages."""
    entries = site.probe.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = [Path(entry).absolute() for entry in entries if entry]
    with suppress(OSError):  # it may have been removed
        folders.append(Path.cwd())
    return [one for one in dict.fromkeys(folders) if one not in site.environment.folders]


def folders_after(site: Site, *, by_hand: bool = False) -> list[Path]:
    """Return the folders that ``.pth`` files, or those of no package, put after the packages."""
    found = dict[Path, None]()
    for folder in site.environment.folders:
        for name in known(site.probe.list_dir(str(folder))) or ():
            taken = _adds(name) and not (by_hand and _is_of_a_package(site, folder, name))
            content = known(site.probe.read_bytes(f"{folder}/{name}")) if taken else None
            lines = text_of(content or b"").splitlines()
            plain = (line.strip() for line in lines if not line.startswith(("import", "#")))
            found |= {folder / line: None for line in plain if line and (folder / line).is_dir()}
    own = {one.resolve() for one in site.environment.folders}
    return [one for one in found if one.resolve() not in own]


def _is_of_a_package(site: Site, folder: Path, name: str) -> bool:
    """Return whether a ``.pth`` file was written by an installation, as of an editable project."""
    by_tool = name.startswith(("__editable__", "easy-install")) or name.endswith(".egg-link")
    here = (one for one in site.distributions if one.folder == folder)
    return by_tool or any(one.entry(name) for one in here)


def _adds(name: str) -> bool:
    return name.endswith((".pth", ".egg-link"))
