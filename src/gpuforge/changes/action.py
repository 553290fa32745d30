"""The kinds of change that gpuforge makes: each says what it does, where, and does it."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpuforge.errors import PlanRefused
from gpuforge.probe import Output

PIP_SECONDS = 1800.0
OUTPUT_LINES = 12


class Action(Protocol):
    """One change."""

    @property
    def command(self) -> str:
        """The same by hand, in one line."""

    @property
    def touches(self) -> tuple[Path, ...]:
        """Files and folders that may change; they are kept before it happens."""

    def refusal(self) -> str:
        """Return why this would not be safe; empty when it is."""

    def perform(self) -> None:
        """Make the change, or raise `PlanRefused` with what went wrong."""


@dataclass(frozen=True)
class RunPip:
    """Install or uninstall packages in one environment, by its own pip, with no input asked.

    Attributes
    ----------
    python : absolute path of the environment's interpreter
    prefix : folder of the environment
    arguments : what follows ``pip``
    """

    python: Path
    prefix: Path
    arguments: tuple[str, ...]

    @property
    def argv(self) -> list[str]:
        """The command as a list."""
        return [str(self.python), "-m", "pip", "--no-input", *self.arguments]

    @property
    def command(self) -> str:
        return shlex.join(self.argv)

    @property
    def touches(self) -> tuple[Path, ...]:
        return (self.prefix,)

    def refusal(self) -> str:
        if not self.python.is_absolute():
            return f"{self.python} is no absolute path"
        environment = (self.prefix / "pyvenv.cfg", self.prefix / "conda-meta")
        if not any(mark.exists() for mark in environment):
            return f"{self.prefix} is no virtual environment but a system's Python"
        if (self.prefix / "condabin").is_dir():
            return f"{self.prefix} is the base of a conda installation"
        marks = self.prefix.glob("lib/python3*/EXTERNALLY-MANAGED")
        if mark := next(marks, None):
            return f"{mark} says that this Python is managed by another tool"
        folders = ("lib/python3*/site-packages", "Lib/site-packages")
        if not any(any(self.prefix.glob(f"{folder}/pip/__main__.py")) for folder in folders):
            return f"{self.prefix} has no pip; with uv: uv pip ... --python {self.python}"
        return "" if os.access(self.prefix, os.W_OK) else f"{self.prefix} may not be written to"

    def perform(self) -> None:
        from gpuforge.probe.process import run

        environ = {k: v for k, v in os.environ.items() if k not in ("PIP_TARGET", "PIP_USER")}
        done = run(self.argv, PIP_SECONDS, environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
        if not isinstance(done, Output):
            raise PlanRefused(f"pip did not run to its end: {done.reason}")
        if done.status:
            last = "\n".join(done.stderr.strip().splitlines()[-OUTPUT_LINES:])
            raise PlanRefused(f"pip ended with status {done.status}:\n{last}")


@dataclass(frozen=True)
class MoveAside:
    """Take a file or folder away; it stays with the record until the change is undone."""

    path: Path
    why: str

    @property
    def command(self) -> str:
        return shlex.join(["mv", str(self.path), f"{self.path}.aside"])

    @property
    def touches(self) -> tuple[Path, ...]:
        return (self.path,)

    def refusal(self) -> str:
        if not os.path.lexists(self.path):
            return f"{self.path} is not there"
        writable = os.access(self.path.parent, os.W_OK)
        return "" if writable else f"{self.path.parent} may not be written to"

    def perform(self) -> None:
        from gpuforge.changes.keep import remove

        remove(self.path)


@dataclass(frozen=True)
class AppendLines:
    """Add lines to the end of a text file, such as a variable to an activation script."""

    path: Path
    lines: tuple[str, ...]

    @property
    def command(self) -> str:
        return f"printf '%s\\n' {shlex.join(self.lines)} >> {shlex.quote(str(self.path))}"

    @property
    def touches(self) -> tuple[Path, ...]:
        return (self.path,)

    def refusal(self) -> str:
        target = next(path for path in (self.path, *self.path.parents) if path.exists())
        return "" if os.access(target, os.W_OK) else f"{target} may not be written to"

    def perform(self) -> None:
        before = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        start = before if not before or before.endswith("\n") else before + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(start + "\n".join(self.lines) + "\n", encoding="utf-8")
