"""Are the compiled modules that Python keeps beside the sources whole?"""

from __future__ import annotations

import importlib.util
import marshal
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.read_imports import timed
from gpuforge.diagnose.site import NOT_RECORDED, Site
from gpuforge.facts import known
from gpuforge.probe.files import read

SUMMARY = "compiled modules in __pycache__ are whole"

# A write that failed, as on a full disk, ends where a block of the disk or of a limit does (see
# python/cpython#126606). Python puts such a file in place all the same, and fails to read it.
BLOCK = 512
HEAD = 16
PICKLED = (".nbi", ".nbc")  # what Numba keeps beside the sources, too (numba/numba#10434)
AT_MOST = 0.01


def check(site: Site) -> Iterator[Finding]:
    """Yield the compiled modules that Python would use and cannot read.

    What was written last is looked at first, and no more than there is time for.
    """
    own = ".".join(map(str, sys.version_info[:2]))
    if not site.live or not site.environment.version.startswith(f"{own}."):
        reason = NOT_RECORDED.reason if not site.live else "of another version of Python"
        yield Finding("skipped", reason)
        return
    folders = sorted(_changed(site), reverse=True)
    cut, left, over = list[str](), len(folders), timed(AT_MOST)
    for _, folder in folders:
        if over() and not site.thorough:
            break
        left -= 1
        cut += [path for path in _suspicious(site, folder) if _is_cut(path)]
    if cut:
        message = f"{len(cut)} compiled modules are damaged, so using them fails"
        what = "calling its function" if cut[0].endswith(PICKLED) else "importing it"
        message = f"{cut[0]} is damaged, so {what} fails" if not cut[1:] else message
        delete = shlex.join(dict.fromkeys(map(os.path.dirname, cut)))
        steps = (f"Delete them; Python writes them again: rm -r {delete}",)
        yield Finding("error", message, "package_incomplete", tuple(cut[:3]), steps)
    if left:
        yield Finding(
            "skipped",
            f"{left} of {len(folders)} folders of compiled modules are not read, the oldest;"
            " 'gpuforge doctor compiled_modules' reads all",
        )
    elif not cut:
        yield Finding("ok", "no compiled module is damaged")


def _changed(site: Site) -> Iterator[tuple[int, str]]:
    """Yield the folders of compiled modules, each with the time of its last change."""
    folders = {f"{one.folder}/{package}" for one in site.distributions for package in one.packages}
    with suppress(FileNotFoundError):  # the current folder may have been removed
        folders.add(str(Path.cwd()))
    for folder in (*folders, *map(str, site.environment.folders)):
        with suppress(OSError):
            yield os.stat(f"{folder}/__pycache__").st_mtime_ns, f"{folder}/__pycache__"


def _suspicious(site: Site, folder: str) -> Iterator[str]:
    """Yield the compiled modules for this Python that end where a failed write may have ended."""
    ending = f".{sys.implementation.cache_tag}.pyc", *PICKLED * ("numba" in site.packages)
    with suppress(OSError), os.scandir(folder) as entries:
        for one in entries:
            if one.name.endswith(ending) and one.stat().st_size % BLOCK == 0:
                yield one.path


def _is_cut(path: str) -> bool:
    """Return whether Python takes a compiled module for that of its source and cannot read it."""
    content = known(read(path, path)) or b""
    if path.endswith(PICKLED):
        return content[-1:] != b"." and os.access(path, os.R_OK)
    try:
        source = os.stat(importlib.util.source_from_cache(path))
    except (OSError, ValueError):
        return False
    number, flags = content[:4], int.from_bytes(content[4:8], "little")
    times = int.from_bytes(content[8:12], "little"), int.from_bytes(content[12:HEAD], "little")
    written = int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF
    if number != importlib.util.MAGIC_NUMBER or (not flags and times != written):
        return False
    try:
        marshal.loads(content[HEAD:])
    except (EOFError, ValueError, TypeError):
        return True
    return False
