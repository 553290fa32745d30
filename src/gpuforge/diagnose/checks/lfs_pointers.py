"""Are files of the project or of packages only pointers to what Git LFS has not fetched?"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator

from gpuforge.diagnose.finding import Finding, State
from gpuforge.diagnose.site import Site

SUMMARY = "files that Git LFS keeps elsewhere have been fetched"
LIVE = True

# https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md: the first line, and the size limit.
FIRST_LINE = b"version https://git-lfs.github.com/spec/v1\n"
SMALLEST, LIMIT = 100, 1024
CODE = frozenset(("py", "pyx", "so", "pyd", "ipynb"))
DATA = frozenset(
    "bin safetensors pt pth ckpt onnx h5 hdf5 keras npy npz pkl pickle joblib parquet gguf model"
    " tflite pb msgpack json engine zip whl".split()
)
# What one run spends on a project, in seconds of processor time. Of each kind of file in a folder,
# it looks at the first ones only, since pointers are rarely alone. A check that is named looks at
# all files.
SECONDS_SPENT, OF_A_KIND = 0.0008, 2
SHOWN = 5
APART = {"node_modules", "__pycache__", "site-packages"}


def check(site: Site) -> Iterator[Finding]:
    """Yield the pointers in the current folder, and those that packages have been built with."""
    found = [*_in_project(thorough=site.thorough), *_in_packages(site)]
    yield from found or [Finding("ok", "no file is a pointer of Git LFS")]


def _in_project(*, thorough: bool) -> Iterator[Finding]:
    try:
        here = os.getcwd()
    except OSError:  # it may have been removed
        return
    step = (
        f"Fetch them: git lfs install; git -C {here} lfs pull. An archive from the web holds only"
        " pointers: clone the repository instead."
    )
    found = [path for path in _small_files(here, thorough=thorough) if _is_pointer(path)]
    yield from _told(found, step)


def _in_packages(site: Site) -> Iterator[Finding]:
    """Find packages whose compiled modules, or those of Git whose files, are pointers."""
    for one in site.distributions:
        sizes = list(one.libraries)
        if '"vcs_info"' in one.origin:
            sizes += [(path, SMALLEST) for path in one.files if _kind(path) in CODE | DATA]
        paths = (f"{one.folder}/{path}" for path, size in sizes if SMALLEST <= size < LIMIT)
        found = [path for path in dict.fromkeys(paths) if _is_pointer(path)]
        again = f"git lfs install; pip install --force-reinstall {one.name}"
        step = f"Install it again with Git LFS: {again}"
        yield from _told(found, step)


def _told(pointers: list[str], step: str) -> Iterator[Finding]:
    """Yield one finding for all pointers; modules, which cannot be imported, come first."""
    pointers = sorted(pointers, key=lambda p: (_kind(p) not in CODE, not p.endswith("__init__.py")))
    if pointers:
        more = " and other files are pointers" if pointers[1:] else " is a pointer"
        message = f"{pointers[0]}{more} of Git LFS, without the content"
        state: State = "error" if _kind(pointers[0]) in CODE else "warning"
        yield Finding(state, message, "lfs_pointer", tuple(pointers[:SHOWN]), (step,))


def _small_files(top: str, *, thorough: bool) -> Iterator[str]:
    """Yield files of a project that may be pointers, folder by folder from the top down."""
    folders, end = [top], time.thread_time() + SECONDS_SPENT
    for folder in folders:
        if time.thread_time() > end and not thorough:
            return
        try:
            listed = list(os.scandir(folder))
        except OSError:
            continue
        if folder != top and any(one.name == "pyvenv.cfg" for one in listed):
            continue
        seen = Counter[str]()
        for one in listed:
            kind = _kind(one.name)
            if kind in CODE or kind in DATA:
                seen[kind] += 1
                if (thorough or seen[kind] <= OF_A_KIND) and SMALLEST <= _size(one) < LIMIT:
                    yield one.path
            elif one.name[0] != "." and one.name not in APART and one.is_dir(follow_symlinks=False):
                folders.append(one.path)


def _kind(name: str) -> str:
    """Return what follows the last dot of a name; empty if there is none."""
    _, dot, kind = name.rpartition(".")
    return kind if dot else ""


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except OSError:
        return 0


def _is_pointer(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(FIRST_LINE)) == FIRST_LINE
    except OSError:
        return False
