"""The folders that Python searches for modules before and after those of the packages."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpuforge.facts import known
from gpuforge.probe.files import text_of

if TYPE_CHECKING:
    from gpuforge.diagnose.site import Site


def folders_before(site: Site) -> list[Path]:
    """Return the folders that Python searches before the packages."""
    entries = site.probe.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = [Path(entry).absolute() for entry in entries if entry]
    with suppress(OSError):  # it may have been removed
        folders.append(Path.cwd())
    return [one for one in dict.fromkeys(folders) if one not in site.environment.folders]


def folders_after(site: Site) -> list[Path]:
    """Return the folders that ``.pth`` files put after the packages."""
    found = dict[Path, None]()
    for folder in site.environment.folders:
        for name in known(site.probe.list_dir(str(folder))) or ():
            content = known(site.probe.read_bytes(f"{folder}/{name}")) if _adds(name) else None
            lines = text_of(content or b"").splitlines()
            plain = (line.strip() for line in lines if not line.startswith(("import", "#")))
            found |= {folder / line: None for line in plain if line and (folder / line).is_dir()}
    own = {one.resolve() for one in site.environment.folders}
    return [one for one in found if one.resolve() not in own]


def _adds(name: str) -> bool:
    return name.endswith((".pth", ".egg-link"))
