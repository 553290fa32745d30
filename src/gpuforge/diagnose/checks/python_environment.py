"""May packages be installed where they should be?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.facts import known

SUMMARY = "the active environment may be changed and its tools work"


def check(site: Site) -> Iterator[Finding]:
    """Return whether this is an environment, whether it is writable, and whether pip is there."""
    folder = known(site.packages_folder)
    if folder is None:
        yield Finding("skipped", site.packages_folder.reason)  # type: ignore[union-attr]
        return
    mark = next(site.prefix.glob("lib/python3*/EXTERNALLY-MANAGED"), None)
    if mark and not site.is_environment:
        yield of_cause("externally_managed_environment", "warning", evidence=(str(mark),))
    elif not _is_writable(folder):
        yield of_cause("site_packages_permission_denied", "error", evidence=(str(folder),))
    elif not (folder / "pip").is_dir() and not (site.prefix / "conda-meta").is_dir():
        steps = (f"{site.python} -m ensurepip, or work with uv, which needs no pip inside.",)
        yield Finding("warning", "the environment has no pip", "", (str(folder),), steps)
    else:
        kind = "environment" if site.is_environment else "Python"
        yield Finding("ok", f"the {kind} {site.prefix} may be changed")


def _is_writable(folder: Path) -> bool:
    """Return whether the folder is writable by mode as well: root passes every access test."""
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)
