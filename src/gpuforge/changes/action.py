"""The kinds of change that gpuforge can make to a machine."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpuforge.changes.environment import PythonEnvironment
from gpuforge.errors import PlanRefused

# Options of pip and their names in uv, for environments without pip; empty: uv has no such option.
UV_OPTIONS = {"--force-reinstall": "--reinstall", "--ignore-installed": "--reinstall", "-y": ""}


class Action(Protocol):
    """One change."""

    @property
    def command(self) -> str:
        """The equivalent shell command, on one line."""

    @property
    def touches(self) -> tuple[Path, ...]:
        """Files and folders that may change; they are saved before the action runs."""

    def refusal(self) -> str:
        """Return why the action would be unsafe; empty if it is safe."""

    def perform(self, holding: tuple[int, ...] = ()) -> None:
        """Make the change, or raise `PlanRefused` or `OSError`.

        Every process that is started here inherits the file descriptors in `holding`.
        """


@dataclass(frozen=True)
class RunPip:
    """Install or uninstall packages in one environment with its own pip, never prompting for input.

    Attributes
    ----------
    arguments : the command-line arguments after ``pip``
    """

    environment: PythonEnvironment
    arguments: tuple[str, ...]

    @property
    def argv(self) -> list[str]:
        """The command as a list. ``-B``: an undo does not expect new bytecode files of pip."""
        python = self.environment.python or self.environment.prefix / "bin" / "python"
        return [str(python), "-B", "-m", "pip", "--no-input", *self.arguments]

    @property
    def command(self) -> str:
        if self.environment.has_pip:
            return shlex.join(part for part in self.argv if part != "-B")
        verb, *rest = (UV_OPTIONS.get(argument, argument) for argument in self.arguments)
        return shlex.join(["uv", "pip", verb, "--python", self.argv[0], *filter(None, rest)])

    @property
    def touches(self) -> tuple[Path, ...]:
        return (self.environment.prefix,)

    def refusal(self) -> str:
        if self.environment.refusal:
            return self.environment.refusal
        if not self.environment.has_pip:
            return f"{self.environment.prefix} has no pip"
        return ""

    def resolve(self) -> tuple[Resolved, ...]:
        """Return the packages that an installation would add or replace; nothing is changed.

        Raises
        ------
        PlanRefused
            If pip finds no compatible versions, or is older than 22.2 and has no dry run.
        """
        if self.arguments[0] != "install":
            return ()
        from gpuforge.changes.pip_process import run_pip

        argv = [*self.argv, "--dry-run", "--quiet", "--report", "-"]
        try:
            document = json.loads(run_pip(argv) or "{}")
        except PlanRefused as error:
            if "no such option" not in str(error):
                raise
            hint = f"upgrade it: {self.argv[0]} -m pip install --upgrade pip"
            raise PlanRefused("pip before 22.2 cannot show what it would do", hint=hint) from None
        return tuple(
            Resolved(
                item["metadata"]["name"],
                item["metadata"]["version"],
                tuple(item["metadata"].get("requires_dist", ())),
            )
            for item in document.get("install", ())
        )

    def perform(self, holding: tuple[int, ...] = ()) -> None:
        from gpuforge.changes.pip_process import run_pip

        run_pip(self.argv, holding=holding)


@dataclass(frozen=True)
class Resolved:
    """A package that an installation would add or replace, and its PEP 508 requirements."""

    name: str
    version: str
    requirements: tuple[str, ...]


@dataclass(frozen=True)
class MoveAside:
    """Remove a file or folder; a copy stays with the record until the change is undone."""

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
            return f"{self.path} does not exist"
        writable = os.access(self.path.parent, os.W_OK)
        return "" if writable else f"{self.path.parent} is not writable"

    def perform(self, holding: tuple[int, ...] = ()) -> None:
        from gpuforge.changes.keep import remove

        remove(self.path)


@dataclass(frozen=True)
class AppendLines:
    """Append lines to a text file, such as a variable to an activation script."""

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
        return "" if os.access(target, os.W_OK) else f"{target} is not writable"

    def perform(self, holding: tuple[int, ...] = ()) -> None:
        before = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        start = before if not before or before.endswith("\n") else before + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(start + "\n".join(self.lines) + "\n", encoding="utf-8")
