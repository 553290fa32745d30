"""Can packages write their caches, without which they fail, and read what is in them?"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from glob import iglob
from pathlib import Path
from typing import Any

from gpuforge import registry
from gpuforge.diagnose.distribution import Distribution
from gpuforge.diagnose.finding import Finding, State
from gpuforge.diagnose.site import NOT_RECORDED, Site
from gpuforge.diagnose.table_paths import first_existing, is_writable, table_path
from gpuforge.facts import known

SUMMARY = "packages can write their caches and read what is in them"

SHOWN = 5
# What one run spends on the files of a cache, in seconds of processor time. A check that is named
# looks at all of them.
SECONDS_SPENT = 0.002
ZIP_HEAD, ZIP_END, ZIP_TAIL_BYTES = b"PK\x03\x04", b"PK\x05\x06", 2**16 + 22
Row = dict[str, Any]


def check(site: Site) -> Iterator[Finding]:
    """Yield each package that cannot write its cache, or read a file in it, by a table."""
    if not site.live or os.name != "posix":
        yield Finding("skipped", NOT_RECORDED.reason if not site.live else "not read on Windows")
        return
    looks = {"cache": _unwritable, "file": _unreadable}
    named = ((look, row, name) for kind, look in looks.items()
             for row in registry.rows(__file__, "cache_folders", kind)
             for name in row["packages"])  # fmt: skip
    found = [f for look, row, n in named if n in site.packages for f in look(site, row, n)]
    yield from found or [Finding("ok", "packages can use their caches")]


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


def _unreadable(site: Site, row: Row, package: str) -> Iterator[Finding]:
    """Find archives of which the end is missing, links to what is not there, and old locks."""
    faults = {"zip": (_is_cut, "cut off"), "link": (_is_dangling, "a link to what does not exist"),
              "lock": (_is_left, "a lock that nobody holds any more")}  # fmt: skip
    is_broken, what = faults[row["format"]]
    broken, end = list[str](), time.thread_time() + SECONDS_SPENT
    for path in iglob(table_path(row["files"], site.probe.environ)):
        broken += [path] if is_broken(path) else []
        if time.thread_time() > end and not site.thorough:
            break
    if broken:
        count = f" ({len(broken)} in all)" if broken[1:] else ""
        message = f"{broken[0]} of {package} is {what}{count}, so {row['fails']}"
        steps = (row.get("step", "Delete it; it is downloaded again when it is needed."),)
        yield Finding("warning", message, "cache_damaged", tuple(broken[:SHOWN]), steps)


def _is_dangling(path: str) -> bool:
    try:
        os.stat(path)
    except OSError as error:  # what may not be looked at may well exist
        return isinstance(error, FileNotFoundError) and os.path.islink(path)
    return False


def _is_left(path: str) -> bool:
    with suppress(OSError):  # it may just be removed
        return time.time() - os.stat(path).st_mtime > 600  # nobody holds it so long
    return False


def _is_cut(path: str) -> bool:
    """Return whether a file is empty, or begins as an archive and does not end as one."""
    if not os.path.isfile(path):  # opening a pipe would wait
        return False
    try:
        with open(path, "rb") as file:
            head, size = file.read(len(ZIP_HEAD)), os.fstat(file.fileno()).st_size
            file.seek(max(0, size - ZIP_TAIL_BYTES))
            return not size or (head == ZIP_HEAD and ZIP_END not in file.read())
    except OSError:
        return False


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
