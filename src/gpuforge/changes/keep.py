"""Keeping files as they are, and putting them back exactly.

Large files are kept as hard links, which cost nothing: package tools replace such files and never
write into them. Small ones are copied, because those are edited in place (``.pth``, scripts).
"""

from __future__ import annotations

import filecmp
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LINKED_FROM_BYTES = 256 * 1024
STORE = ".gpuforge-undo"


def keep(source: Path, store: Path) -> None:
    """Keep what is at `source` (a file, a folder or nothing) in the folder `store`."""
    store.mkdir(parents=True, exist_ok=True)
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(
            source,
            store / "kept",
            symlinks=True,
            copy_function=_keep_file,
            ignore=shutil.ignore_patterns(STORE),
        )
    elif os.path.lexists(source):
        _keep_file(str(source), str(store / "kept"))


def put_back(target: Path, store: Path) -> None:
    """Make `target` what it was when it was kept; the store stays."""
    kept = store / "kept"
    if not os.path.lexists(kept):
        remove(target)
    elif kept.is_dir() and not kept.is_symlink():
        _put_back_folder(target, kept)
    elif not _same(target, kept):
        remove(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(kept, target, follow_symlinks=False)


def fingerprint(path: Path) -> str:
    """Return what tells whether files below `path` came, went or changed size; caches aside."""
    below = [path, *_below(path)] if path.is_dir() and not path.is_symlink() else [path]
    signs = sorted(
        f"{place.relative_to(path)} {place.lstat().st_size if place.is_file() else ''}"
        for place in below
        if "__pycache__" not in place.parts and os.path.lexists(place)
    )
    return f"{zlib.crc32(chr(10).join(signs).encode('utf-8', 'replace')):08x}"


def remove(path: Path) -> None:
    """Remove a file, link or folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            path.unlink()


def _keep_file(source: str, target: str) -> str:
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return target
    if os.path.getsize(source) >= LINKED_FROM_BYTES:
        try:
            os.link(source, target)
            return target
        except OSError:
            # Another file system, or one without links: a copy serves as well.
            pass
    shutil.copy2(source, target)
    return target


def _put_back_folder(target: Path, kept: Path) -> None:
    before = {path.relative_to(kept) for path in _below(kept)}
    if target.is_dir() and not target.is_symlink():
        for path in sorted(_below(target), reverse=True):
            if path.relative_to(target) not in before:
                remove(path)
    else:
        remove(target)
        target.mkdir(parents=True)
    for relative in sorted(before):
        source, place = kept / relative, target / relative
        if source.is_dir() and not source.is_symlink():
            if not place.is_dir() or place.is_symlink():
                remove(place)
                place.mkdir()
                shutil.copystat(source, place)
        elif not _same(place, source):
            remove(place)
            shutil.copy2(source, place, follow_symlinks=False)


def _below(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        if STORE in folders:
            folders.remove(STORE)
        for name in (*folders, *files):
            yield Path(root) / name


def _same(left: Path, right: Path) -> bool:
    if left.is_symlink() or right.is_symlink():
        return left.is_symlink() and right.is_symlink() and os.readlink(left) == os.readlink(right)
    if not left.is_file():
        return False
    return os.path.samefile(left, right) or (
        filecmp.cmp(left, right, shallow=False) and left.stat().st_mode == right.stat().st_mode
    )
