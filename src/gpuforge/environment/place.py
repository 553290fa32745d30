"""The folder of a new environment: never incomplete under its final name.

The environment is built next to its final folder, under a name of the same length, and renamed once
it is complete. Before that, the path is patched in the files that contain it; as its length stays
the same, this is safe for binary files too (docs/decisions/0008-how-environments-are-built.md).
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
# Initials of the name during the build; two environments' names may differ in nothing else.
_INITIALS = "~_+=@%,-"
# Larger files are libraries; conda records the ones into which it wrote the path.
_PATCH_LIMIT_BYTES = 2**20


class Place:
    """The final folder of an environment, and the folder in which it is built.

    Attributes
    ----------
    path : the final folder
    staging : the folder in which it is built
    former : where the environment that it replaces is kept until the new one is in place
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))
        if not self.path.name:
            raise PlanRefused(f"{self.path} cannot hold an environment", hint="name a folder in it")
        self.staging = self._names()[0]
        self.former = self.path.with_name(f".{self.path.name}.gpuforge-former")

    def prepare(self, *, overwrite: bool) -> None:
        """Clean up after interrupted runs, and create and mark the staging folder.

        Raises
        ------
        PlanRefused
            If the folder may not be overwritten, or another process is building there.
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
        """Move the complete environment to its final folder, then delete the one it replaces."""
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
        """Remove the staging folder if it is still ours."""
        owner, path = _owner(self.staging)
        if owner == str(os.getpid()) and path == str(self.path):
            shutil.rmtree(self.staging, ignore_errors=True)

    def _recover(self) -> None:
        """Finish or undo a replacement in which a run was killed."""
        if self.former.exists() and not self.path.exists():
            self.former.rename(self.path)
        shutil.rmtree(self.former, ignore_errors=True)
        with suppress(OSError):  # marked but already at its final path, so it is complete
            (self.path / _MARK).unlink()

    def _names(self) -> list[Path]:
        """Return the possible staging folders, whose names are as long as the final one."""
        name = self.path.name
        return [self.path.with_name(first + name[1:]) for first in _INITIALS if first != name[0]]

    def _take_staging(self) -> Path:
        """Create the staging folder under a name that no run for another environment uses."""
        part = Path(tempfile.mkdtemp(prefix=".gpuforge-", dir=self.path.parent))
        try:
            part.chmod(0o755)
            (part / _MARK).write_text(f"{os.getpid()}\n{self.path}", encoding="utf-8")
            for staging in self._names():
                self._clear(staging)
                try:
                    part.rename(staging)
                except OSError:  # another run, or a folder of the user's, has that name
                    continue
                return staging
        finally:
            shutil.rmtree(part, ignore_errors=True)
        raise PlanRefused(
            f"cannot build {self.path}: the temporary folder {self.staging} already exists",
            hint=f"move {self.staging} away, or choose another folder with --path",
        )

    def _clear(self, staging: Path) -> None:
        """Remove what a killed run for this environment left behind.

        Raises
        ------
        PlanRefused
            If another run is building it now.
        """
        owner, path = _owner(staging)
        if path not in ("", str(self.path)) or not owner:
            return
        if owner != str(os.getpid()) and process_lives(owner):
            raise PlanRefused(
                f"process {owner} is creating {self.path} now", hint="wait until it has finished"
            )
        # Renamed first, so that an installer that is still running cannot write into it.
        aside = Path(tempfile.mkdtemp(prefix=".gpuforge-", dir=staging.parent))
        staging.rename(aside / "unfinished")
        shutil.rmtree(aside, ignore_errors=True)

    def _is_running_python(self) -> bool:
        return self.path.exists() and self.path.resolve() == Path(sys.prefix).resolve()

    def _patch_paths(self) -> None:
        old, new = os.fsencode(self.staging), os.fsencode(self.path)
        for path in (*_small_files(self.staging), *_files_of_conda(self.staging)):
            _patch(path, old, new)


def _owner(staging: Path) -> tuple[str, str]:
    """Return the process id and the environment that an unfinished folder belongs to."""
    try:
        owner, _, path = (staging / _MARK).read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return "", ""
    return owner, path


def _small_files(home: Path) -> Iterator[Path]:
    """Yield the small files that may contain the path of the environment, except modules.

    In site-packages, only ``.pth`` and ``.egg-link`` files contain paths.
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
    """Yield the files, of any size, into which conda wrote the path of the environment."""
    for record in home.rglob("conda-meta/*.json"):
        document = json.loads(record.read_text(encoding="utf-8"))
        for entry in document.get("paths_data", {}).get("paths", ()):
            path = record.parents[1] / entry["_path"]
            if entry.get("prefix_placeholder") and path.is_file():
                yield path


def _patch(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    if old in content:
        # Written anew and renamed: the file may be a hard link into a package cache.
        part = path.with_name(path.name + ".part")
        part.write_bytes(content.replace(old, new))
        shutil.copymode(path, part)
        part.replace(path)
