"""Can packages write their caches, without which they fail rather than go on?"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuforge.diagnose.distribution import Distribution
from gpuforge.diagnose.finding import Finding, State
from gpuforge.diagnose.site import NOT_RECORDED, Site
from gpuforge.diagnose.table_paths import first_existing, is_writable, table_path
from gpuforge.facts import known

SUMMARY = "packages can write their caches"

SHOWN = 5
Row = dict[str, Any]


def check(site: Site) -> Iterator[Finding]:
    """Yield each package that cannot write the cache it needs, by a table."""
    if not site.live or os.name != "posix":
        yield Finding("skipped", NOT_RECORDED.reason if not site.live else "not read on Windows")
        return
    text = Path(__file__).with_name("cache_folders.json").read_text(encoding="utf-8")
    named = ((row, n) for row in json.loads(text)["cache"] for n in row["packages"])
    found = [
        f for row, name in named if name in site.packages for f in _unwritable(site, row, name)
    ]
    yield from found or [Finding("ok", "packages can write their caches")]


def _unwritable(site: Site, row: Row, package: str) -> Iterator[Finding]:
    environ, variable = site.probe.environ, row["variable"]
    if environ.get(variable):
        return  # what it must be is in the table of variables
    folder = Path(table_path(row["folder"], environ))
    there = first_existing(folder)
    if there.is_dir() and is_writable(there):
        return
    step = f"Name a folder of this user's: export {variable}={row.get('value', 'FOLDER')}"
    if "marks" in row:
        modules = [*filter(None, (_cached_module(site, o, row) for o in _users(site, package)))]
        if modules:
            message = (
                f"{package} can write its cache neither beside {modules[0]} nor in {folder}, so"
                f" {row['fails']}"
            )
            yield _finding("error", message, *modules[:SHOWN], there, step=step)
    elif row.get("at_once") or there not in (home := Path.home(), *home.parents):
        # A home folder that cannot be written is found elsewhere.
        message = f"{package} cannot write its cache {folder}, so {row['fails']}"
        state: State = "error" if row.get("at_once") else "warning"
        yield _finding(state, message, there, step=f"{step}; or make {there} writable")


def _users(site: Site, package: str) -> list[Distribution]:
    """Return the packages that require another one."""
    like = re.compile(rf"{package}(?![\w.-])", re.IGNORECASE)
    return [one for one in site.distributions if any(map(like.match, one.requirements))]


def _cached_module(site: Site, one: Distribution, row: Row) -> Path | None:
    """Return the first module of a package that is cached and beside which nothing can be written.

    Only modules in folders that cannot be written are read.
    """
    fixed = dict[Path, bool]()
    for path in (one.folder / module for module in one.modules):
        if path.parent not in fixed:
            beside = first_existing(path.parent / "__pycache__")
            fixed[path.parent] = not is_writable(beside)
        content = known(site.probe.read_bytes(str(path))) if fixed[path.parent] else None
        if row["marks"].encode() in (content or b""):
            return path
    return None


def _finding(state: State, message: str, *folders: Path, step: str) -> Finding:
    return Finding(state, message, "cache_not_writable", tuple(map(str, folders)), (f"{step}.",))
