"""The folder an environment gets: never half-made under its name, never over another's.

It is built beside its place under a name of the same length, and takes its name in one step when it
is whole. Scripts and files that hold the old path are patched before; with the same length that is
safe for text and binary files alike (docs/decisions/0008-how-environments-are-built.md).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from gpuforge.environment.record import is_environment
from gpuforge.errors import PlanRefused
from gpuforge.probe.live import process_lives

_MARK = ".gpuforge-unfinished"
# Larger files are libraries; conda says itself into which of them it wrote the path.
_PATCH_LIMIT_BYTES = 2**20


class Place:
    """The final folder of an environment and the one it is built in.

    Attributes
    ----------
    path : where the environment will be
    staging : where it is built
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))
        if not self.path.name:
            raise PlanRefused(f"{self.path} is no place", hint="choose another --path")
        first = "_" if self.path.name[0] == "~" else "~"
        self.staging = self.path.with_name(first + self.path.name[1:])
        self.former = self.path.with_name(self.path.name + ".former")

    def prepare(self, *, overwrite: bool) -> None:
        """Take the place: clear what an interrupted run left, mark the staging folder as ours.

        Raises
        ------
        PlanRefused
            If something else is there, another run builds there, or may not be overwritten.
        """
        if self.former.exists() and not self.path.exists():
            self.former.rename(self.path)
        if self.path.is_symlink() or (self.path.exists() and not is_environment(self.path)):
            raise PlanRefused(
                f"{self.path} is there and is no environment", hint="choose another --path"
            )
        if self._is_running_python():
            raise PlanRefused(
                f"{self.path} is the environment that gpuforge runs in",
                hint="choose another --path",
            )
        if self.path.exists() and not overwrite:
            raise PlanRefused(
                f"{self.path} is an environment already", hint="add --replace to make it anew"
            )
        self._clear_staging()
        self.staging.mkdir(parents=True)
        (self.staging / _MARK).write_text(str(os.getpid()), encoding="utf-8")

    def finish(self) -> None:
        """Give the finished environment its name; a former one goes only when that is done."""
        self._patch_paths()
        if self.path.exists():
            self.path.rename(self.former)
        try:
            self.staging.rename(self.path)
        except OSError:
            if self.former.exists():
                self.former.rename(self.path)
            raise
        (self.path / _MARK).unlink()
        shutil.rmtree(self.former, ignore_errors=True)

    def discard(self) -> None:
        """Remove what was built so far."""
        shutil.rmtree(self.staging, ignore_errors=True)

    def _clear_staging(self) -> None:
        if not self.staging.exists():
            return
        mark = self.staging / _MARK
        if not mark.is_file():
            raise PlanRefused(
                f"{self.staging} is in the way and is not of gpuforge", hint="move it away"
            )
        owner = mark.read_text(encoding="utf-8")
        if owner != str(os.getpid()) and process_lives(owner):
            raise PlanRefused(
                f"process {owner} is making {self.path}", hint="wait for it, or end it"
            )
        shutil.rmtree(self.staging)

    def _is_running_python(self) -> bool:
        return self.path.exists() and self.path.resolve() == Path(sys.prefix).resolve()

    def _patch_paths(self) -> None:
        old, new = os.fsencode(self.staging), os.fsencode(self.path)
        for path in (*_small_files(self.staging), *_files_of_conda(self.staging)):
            _patch(path, old, new)


def _small_files(home: Path) -> Iterator[Path]:
    """Yield what may hold the path of its environment, modules aside.

    Modules find their files from their own place; only path files name folders.
    """
    for folder, folders, files in os.walk(home):
        inside = Path(folder).name == "site-packages"
        if inside:
            folders[:] = []
        for name in files:
            path = Path(folder) / name
            small = not path.is_symlink() and path.stat().st_size <= _PATCH_LIMIT_BYTES
            if small and (not inside or name.endswith((".pth", ".egg-link"))):
                yield path


def _files_of_conda(home: Path) -> Iterator[Path]:
    """Yield the files into which conda wrote the path of the environment, of any size."""
    for record in home.rglob("conda-meta/*.json"):
        document = json.loads(record.read_text(encoding="utf-8"))
        for entry in document.get("paths_data", {}).get("paths", ()):
            path = record.parents[1] / entry["_path"]
            if entry.get("prefix_placeholder") and path.is_file():
                yield path


def _patch(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    if old in content:
        # Written beside and moved: a hard link would share the change with a cache of packages.
        part = path.with_name(path.name + ".part")
        part.write_bytes(content.replace(old, new))
        shutil.copymode(path, part)
        part.replace(path)
