"""Saving files as they are, and restoring them exactly.

Large files are saved as hard links, which take no space: package tools replace them and never write
into them. Small files are copied, as some are edited in place (``.pth`` files, scripts).
"""

from __future__ import annotations

import filecmp
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LINKED_FROM_BYTES = 256 * 1024
STORE = ".gpuforge-undo"
_BLOCK = 4096


def keep(source: Path, store: Path) -> None:
    """Save what is at `source` (a file, a folder or nothing) in the folder `store`."""
    store.mkdir(parents=True, exist_ok=True)
    if not source.is_dir() or source.is_symlink():
        if os.path.lexists(source):
            _keep_file(str(source), str(store / "kept"))
        return
    for root, folders, files in os.walk(source):
        if STORE in folders:
            folders.remove(STORE)
        place = store / "kept" / os.path.relpath(root, source)
        place.mkdir(parents=True, exist_ok=True)
        linked = [name for name in folders if os.path.islink(os.path.join(root, name))]
        for name in (*files, *linked):
            _keep_file(os.path.join(root, name), str(place / name))
    # Adding files changes the modification time of a folder, so folder times are copied last.
    for place in (store / "kept", *(p for p in _below(store / "kept") if _is_folder(p))):
        shutil.copystat(source / place.relative_to(store / "kept"), place)


def needed_bytes(source: Path, store: Path) -> int:
    """Return roughly how many bytes `keep` would add to the file system of `store`."""
    sizes = [place.lstat().st_size for place in (source, *_below(source)) if os.path.lexists(place)]
    links = _device(source) == _device(store)
    copied = (size for size in sizes if not links or size < LINKED_FROM_BYTES)
    return sum(_BLOCK * (1 + size // _BLOCK) for size in copied)


def put_back(target: Path, store: Path) -> None:
    """Restore `target` to its saved state, using almost no disk space; `store` is not changed."""
    kept = store / "kept"
    if not os.path.lexists(kept):
        remove(target)
    elif _is_folder(kept):
        _put_back_folder(target, kept)
    elif not _same(target, kept):
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, kept)


def fingerprint(path: Path, store: Path) -> str:
    """Return a hash of the differences between `path` and its saved copy in `store`.

    ``__pycache__`` and files that equal the saved ones do not count.
    """
    kept = store / "kept"
    digest = hashlib.sha256()
    places = {Path()} | {p.relative_to(path) for p in _below(path)}
    places |= {p.relative_to(kept) for p in _below(kept)}
    for place in sorted(places):
        if "__pycache__" not in place.parts:
            digest.update(f"{place}\0{_difference(path / place, kept / place)}\n".encode())
    return digest.hexdigest()


def is_put_back(target: Path, store: Path) -> bool:
    """Return whether `target` equals its saved copy in `store`, ``__pycache__`` aside."""
    return fingerprint(target, store) == fingerprint(store / "kept", store)


def changed_since(path: Path, moment: float) -> tuple[Path, ...]:
    """Return the files below `path` created or changed after `moment`, ``__pycache__`` aside."""
    below = (path, *_below(path)) if _is_folder(path) else (path,)
    return tuple(
        place
        for place in below
        if "__pycache__" not in place.parts
        and os.path.lexists(place)
        and not _is_folder(place)
        and place.lstat().st_ctime > moment
    )


def remove(path: Path) -> None:
    """Remove a file, link or folder, if it exists."""
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            path.unlink()


def _keep_file(source: str, target: str) -> None:
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    if os.path.getsize(source) >= LINKED_FROM_BYTES:
        try:
            os.link(source, target)
            return
        except OSError:
            # Another file system, or one without hard links: fall back to a copy.
            pass
    shutil.copy2(source, target)


def _put_back_folder(target: Path, kept: Path) -> None:
    before = {path.relative_to(kept) for path in _below(kept)}
    if _is_folder(target):
        # Remove new files first, which makes room for the rest.
        for path in sorted(_below(target), reverse=True):
            if path.relative_to(target) not in before:
                remove(path)
    else:
        remove(target)
        target.mkdir(parents=True)
    for relative in sorted(before):
        source, place = kept / relative, target / relative
        if not _is_folder(source):
            if not _same(place, source):
                _replace(place, source)
        elif not _is_folder(place):
            remove(place)
            place.mkdir()
            shutil.copystat(source, place)


def _replace(place: Path, kept: Path) -> None:
    """Restore a saved file or link at `place`, as a hard link if possible, which takes no space."""
    if _is_folder(place):
        remove(place)
    part = place.with_name(f"{place.name}.gpuforge-part")
    remove(part)
    try:
        os.link(kept, part, follow_symlinks=False)
    except OSError:
        shutil.copy2(kept, part, follow_symlinks=False)
    os.replace(part, place)


def _below(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        if STORE in folders:
            folders.remove(STORE)
        for name in (*folders, *files):
            yield Path(root) / name


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _device(path: Path) -> int:
    return next(p for p in (path, *path.parents) if p.exists()).stat().st_dev


def _difference(place: Path, kept: Path) -> str:
    """Describe how a file differs from the saved one; empty if it does not."""
    if not os.path.lexists(place):
        return "gone" if os.path.lexists(kept) else ""
    if _is_folder(place):
        return "" if _is_folder(kept) else "folder"
    if _same(place, kept):
        return ""
    if place.is_symlink():
        return f"link {os.readlink(place)}"
    if not place.is_file():
        return "special file"
    with open(place, "rb") as file:
        return f"{place.stat().st_mode:o} {hashlib.file_digest(file, 'sha256').hexdigest()}"


def _same(left: Path, right: Path) -> bool:
    if left.is_symlink() or right.is_symlink():
        return left.is_symlink() and right.is_symlink() and os.readlink(left) == os.readlink(right)
    if not left.is_file() or not right.is_file():
        return False
    return os.path.samefile(left, right) or (
        left.stat().st_mode == right.stat().st_mode
        and left.stat().st_size == right.stat().st_size
        and filecmp.cmp(left, right, shallow=False)
    )
