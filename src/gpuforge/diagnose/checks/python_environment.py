"""Does the active environment have a working Python, and may packages be installed in it?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gpuforge.diagnose.finding import Finding, State, of_cause
from gpuforge.diagnose.site import NOT_RECORDED, Site
from gpuforge.facts import known

SUMMARY = "the active environment works and may be changed"

CREATE = "Create an environment for your packages: gpuforge env create --path FOLDER"


def check(site: Site) -> Iterator[Finding]:
    """Return whether the environment runs, is writable and has pip."""
    if not site.live:
        yield Finding("skipped", NOT_RECORDED.reason)
        return
    environment, folder = site.environment, known(site.packages_folder)
    prefix = environment.prefix
    mark = next(prefix.glob("lib/python3*/EXTERNALLY-MANAGED"), None)
    if environment.fault:
        leave = (f"Or leave it: unset {environment.named_by}",) if environment.named_by else ()
        steps = (f"Create the environment again: python -m venv --clear {prefix}", *leave)
        yield Finding("error", environment.fault, "environment_broken", (str(prefix),), steps)
    elif folder is None:
        reason = site.packages_folder.reason  # type: ignore[union-attr]
        yield Finding("error", reason, "environment_broken", (str(prefix),), (CREATE,))
    elif mark and environment.kind == "system Python":
        cause = "externally_managed_environment"
        # Nothing is wrong with it, unless an error text says that something was to be installed.
        state: State = "warning" if cause in site.asked else "ok"
        yield of_cause(cause, state, evidence=(str(mark),))
    elif not _is_writable(folder):
        yield of_cause("site_packages_permission_denied", "error", evidence=(str(folder),))
    elif environment.refusal:
        yield Finding("ok", environment.refusal)
    elif not environment.has_pip and not environment.made_by_uv and "conda" not in environment.kind:
        steps = (f"{environment.python} -m ensurepip, or use uv, which needs no pip inside.",)
        yield Finding("warning", "the environment has no pip", "pip_missing", (str(folder),), steps)
    else:
        yield Finding("ok", f"packages can be installed in {prefix}")


def _is_writable(folder: Path) -> bool:
    """Return whether the folder is writable by mode as well: root passes every access test."""
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)
