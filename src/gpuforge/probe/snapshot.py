"""A recorded machine, replayed."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuforge.errors import WorkloadError
from gpuforge.facts import Absent, Failed, Reading
from gpuforge.probe.contract import DEFAULT_TIMEOUT_SECONDS, Output, Probe
from gpuforge.probe.files import decoded, read

if TYPE_CHECKING:
    import ctypes

LINK_LIMIT = 40
# Options that select a format; in a snapshot the file's extension shows the format.
FORMAT_OPTIONS = {"-x", "--json", "-json", "-j", "--csv", "-xml"}
# NVIDIA's Windows driver models, as nvidia-smi prints them in its table, with `-q`, and in XML.
WINDOWS_DRIVER = (
    r"\b(TCC/WDDM|Driver-Model)\b|^\|.*\b(WDDM|TCC|MCDM)\s+\||"
    r"(Current\s*:\s*|<current_dm>)(WDDM|TCC|MCDM)"
)
NOT_OUTPUTS = ("source.txt", "expected.toml", "environ.txt")


class SnapshotProbe(Probe):
    """A recorded machine: raw outputs named by their command, and a partial ``sysroot``.

    A symbolic link is stored as a file ``<name>.link`` that contains its target. What was not
    recorded is `Absent`. Nothing is read outside `folder`, nor from the machine that replays it.

    Parameters
    ----------
    folder
        The folder of the snapshot.
    environ
        The environment variables; by default those in ``environ.txt`` of the snapshot.

    Raises
    ------
    WorkloadError
        If `folder` cannot be read.
    """

    def __init__(self, folder: str | Path, environ: Mapping[str, str] | None = None) -> None:
        self.folder = Path(folder)
        self._sysroot = self.folder / "sysroot"
        self._programs = _recorded_outputs(self.folder)
        recorded = decoded(read(self.folder / "environ.txt", "environ.txt"))
        lines = recorded.splitlines() if isinstance(recorded, str) else []
        pairs = (line.partition("=") for line in lines if "=" in line)
        self._environ = dict(environ) if environ is not None else {k: v for k, _, v in pairs}

    @property
    def environ(self) -> Mapping[str, str]:
        return self._environ

    @property
    def platform(self) -> str:
        names = " ".join(self._programs)
        if "system_profiler" in names or "ioreg" in names:
            return "darwin"
        if re.search(r"\.wmi|wmic|win32_|Get-(Cim|Wmi)|dxdiag|powershell", names, re.I):
            return "win32"
        if "pciconf" in names:
            return "freebsd"
        # Any other recording, of lspci or files under /sys, is from Linux (WSL included).
        alone = names and all(name.startswith("nvidia-smi") for name in self._programs)
        if alone and not self._sysroot.exists():
            texts = (out.stdout for out in self.recorded("nvidia-smi") if isinstance(out, Output))
            return (
                "win32" if any(re.search(WINDOWS_DRIVER, text, re.M) for text in texts) else "linux"
            )
        return "linux"

    def read_bytes(self, path: str) -> Reading[bytes]:
        found = self._find(path)
        return found if isinstance(found, Absent) else read(found, path)

    def list_dir(self, path: str) -> Reading[tuple[str, ...]]:
        found = self._find(path)
        if isinstance(found, Absent) or not found.is_dir():
            return Absent(f"no folder {path} was recorded")
        try:
            return tuple(sorted({name.removesuffix(".link") for name in os.listdir(found)}))
        except OSError as error:
            return Failed(f"{path}: {error}")

    def read_link(self, path: str) -> Reading[str]:
        parent, _, name = path.rstrip("/").rpartition("/")
        folder = self._find(parent)
        if isinstance(folder, Absent):
            return folder
        target = decoded(read(folder / f"{name}.link", path))
        return target.strip(" \r\n\0") if isinstance(target, str) else target

    def find_program(self, name: str) -> Reading[str]:
        if any(
            file == name or file.startswith((f"{name}.", f"{name}-")) for file in self._programs
        ):
            return f"/usr/bin/{name}"
        return Absent(f"no output of {name} was recorded")

    def run(
        self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT_SECONDS
    ) -> Reading[Output]:
        stem = recorded_name(argv)
        for ending in _endings(argv):
            if stem + ending in self._programs:
                return self._output(stem + ending)
        return Absent(f"no output of '{' '.join(argv)}' was recorded")

    def recorded(self, program: str) -> tuple[Reading[Output], ...]:
        ways = (program + ".", program + "-") if program else ("",)
        found = [name for name in self._programs if name.lower().startswith(ways)]
        return tuple(self._output(name) for name in found)

    def load_library(self, name: str) -> Reading[ctypes.CDLL]:
        return Absent(f"a recorded machine has no library {name}")

    def clock(self) -> float:
        return time.monotonic()

    def _output(self, name: str) -> Reading[Output]:
        text = decoded(read(self._programs[name], name))
        from textwrap import dedent

        # Output copied from a web page or a report may be indented as a whole.
        return Output(0, dedent(text), "", source=name) if isinstance(text, str) else text

    def _find(self, path: str) -> Path | Absent:
        """Return the file that stores `path`, following recorded links inside the sysroot."""
        todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        done: list[str] = []
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                done = done[:-1]
                continue
            here = self._sysroot.joinpath(*done)
            target = decoded(read(here / f"{part}.link", part))
            if not isinstance(target, str):
                done.append(part)
                continue
            links += 1
            target = target.strip(" \r\n\0")
            if links > LINK_LIMIT or "\0" in target:
                return Absent(f"{path} is a link that leads back to itself")
            done = [] if target.startswith("/") else done
            todo += [step for step in reversed(target.split("/")) if step not in ("", ".")]
        found = self._sysroot.joinpath(*done)
        try:
            inside = found.resolve().is_relative_to(self._sysroot.resolve()) and found.exists()
        except (OSError, ValueError, RuntimeError) as error:
            return Absent(f"{path}: {error}")
        return found if inside else Absent(f"no file {path} was recorded")


def recorded_name(argv: Sequence[str]) -> str:
    """Return the file name, without extension, under which a snapshot stores the output of `argv`.

    >>> recorded_name(["nvidia-smi", "-q", "-x"])
    'nvidia-smi-q'
    """
    kept = (a for a in argv[1:] if a not in FORMAT_OPTIONS and not a.startswith("--format"))
    return "-".join([Path(argv[0]).name, *(a.lstrip("-").partition("=")[0] for a in kept)])


def _endings(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the extensions that a recorded output of `argv` may have, likeliest first."""
    options = set(argv[1:])
    if "-x" in options or "-xml" in options:
        return (".xml",)
    if options & {"--json", "-json", "-j"}:
        return (".json",)
    return (".csv", ".txt") if any("csv" in option for option in options) else (".txt", ".wmi")


def _recorded_outputs(folder: Path) -> dict[str, Path]:
    """Return the recorded outputs in `folder` by file name; symbolic links could lead outside."""
    try:
        found = list(folder.iterdir())
        problem = "" if found else "it is empty"
        files = [path for path in found if path.is_file() and not path.is_symlink()]
    except OSError as error:
        problem = error.strerror or str(error)
    if problem:
        raise WorkloadError(
            f"{folder} is not a recorded machine: {problem}",
            hint="name a folder written by 'gpuforge detect --record DIR'",
        ) from None
    return {path.name: path for path in sorted(files) if path.name not in NOT_OUTPUTS}
