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
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gpuforge.environment.record import is_environment
from gpuforge.errors import PlanRefused
from gpuforge.probe.live import process_lives

_MARK = ".gpuforge-unfinished"
# What the name begins with while it is built: several environments in one folder may differ in
# nothing else.
_FIRST = "~_+=@%,-"
# Larger files are libraries; conda says itself into which of them it wrote the path.
_PATCH_LIMIT_BYTES = 2**20


class Place:
    """The final folder of an environment and the one it is built in.

    Attributes
    ----------
    path : where the environment will be
    staging : where it is built
    former : where the environment that it replaces waits until it is whole
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))
        if not self.path.name:
            raise PlanRefused(f"{self.path} cannot hold an environment", hint="name a folder in it")
        self.staging = self._names()[0]
        self.former = self.path.with_name(f".{self.path.name}.gpuforge-former")

    def prepare(self, *, overwrite: bool) -> None:
        """Take the place: clear what an interrupted run left, mark the staging folder as ours.

        Raises
        ------
        PlanRefused
            If something else is there, another run builds there, or may not be overwritten.
        """
        self._recover()
        if self.path.is_symlink() or (self.path.exists() and not is_environment(self.path)):
            raise PlanRefused(
                f"{self.path} exists and is not a Python environment",
                hint="choose another folder with --path",
            )
        if self._is_running_python():
            raise PlanRefused(
                f"{self.path} is the environment that gpuforge runs in",
                hint="choose another folder with --path",
            )
        if self.path.exists() and not overwrite:
            raise PlanRefused(
                f"{self.path} already exists", hint="add --replace to create it again"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.staging = self._take_staging()

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
        owner, path = _marked(self.staging)
        if owner == str(os.getpid()) and path == str(self.path):
            shutil.rmtree(self.staging, ignore_errors=True)

    def _recover(self) -> None:
        """End what a run that was killed while it replaced the environment has begun."""
        if self.former.exists() and not self.path.exists():
            self.former.rename(self.path)
        shutil.rmtree(self.former, ignore_errors=True)
        with suppress(OSError):  # it had its name already, and is whole
            (self.path / _MARK).unlink()

    def _names(self) -> list[Path]:
        """Return the names that it may be built under, all as long as its own."""
        name = self.path.name
        return [self.path.with_name(first + name[1:]) for first in _FIRST if first != name[0]]

    def _take_staging(self) -> Path:
        """Make one of the folders to build in, which runs for other environments leave free."""
        part = Path(tempfile.mkdtemp(prefix=".gpuforge-", dir=self.path.parent))
        try:
            part.chmod(0o755)
            (part / _MARK).write_text(f"{os.getpid()}\n{self.path}", encoding="utf-8")
            for staging in self._names():
                self._clear(staging)
                try:
                    part.rename(staging)
                except OSError:  # another run, or something of the user's, has that name
                    continue
                return staging
        finally:
            shutil.rmtree(part, ignore_errors=True)
        raise PlanRefused(
            f"cannot build {self.path}: the temporary folder {self.staging} already exists",
            hint=f"move {self.staging} away, or choose another folder with --path",
        )

    def _clear(self, staging: Path) -> None:
        """Remove what a killed run for this environment left.

        Raises
        ------
        PlanRefused
            If another run is building it now.
        """
        owner, path = _marked(staging)
        if path not in ("", str(self.path)) or not owner:
            return
        if owner != str(os.getpid()) and process_lives(owner):
            raise PlanRefused(
                f"process {owner} is creating {self.path} now", hint="wait until it has finished"
            )
        # Renamed first: an installer that is still writing there loses its way.
        aside = Path(tempfile.mkdtemp(prefix=".gpuforge-", dir=staging.parent))
        staging.rename(aside / "unfinished")
        shutil.rmtree(aside, ignore_errors=True)

    def _is_running_python(self) -> bool:
        return self.path.exists() and self.path.resolve() == Path(sys.prefix).resolve()

    def _patch_paths(self) -> None:
        old, new = os.fsencode(self.staging), os.fsencode(self.path)
        for path in (*_small_files(self.staging), *_files_of_conda(self.staging)):
            _patch(path, old, new)


def _marked(staging: Path) -> tuple[str, str]:
    """Return whose unfinished folder this is: the number of its process, and the environment."""
    try:
        owner, _, path = (staging / _MARK).read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return "", ""
    return owner, path


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
