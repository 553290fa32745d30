"""Running a user's program exactly as ``python`` would run it.

gpuforge replaces itself with a fresh interpreter (`os.execve`) instead of running the program in
its own process. So ``__main__``, the stack, tracebacks, signals, the exit status, exit functions
and ``multiprocessing`` behave as usual. A start-up hook prints the summary.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gpuforge.errors import WorkloadError, nearest

HOOK_FOLDER = str(Path(__file__).parent / "startup")


@dataclass(frozen=True)
class Program:
    """The command line after ``python``: a script, or ``-m`` and a module, and its arguments."""

    arguments: tuple[str, ...]

    def check(self) -> None:
        """Raise `WorkloadError` if the script does not exist or cannot be run."""
        name = self.arguments[0]
        if name == "-m" or name == "-":
            return
        path = Path(name)
        if not os.path.exists(path):
            raise WorkloadError(f"no file {name!r}", hint=_near(path))
        if path.is_dir() and not any((path / f"__main__.{end}").exists() for end in ("py", "pyc")):
            raise WorkloadError(
                f"{name!r} is a folder without __main__.py", hint="name a script inside it"
            )
        if not os.access(path, os.R_OK):
            raise WorkloadError(f"cannot read {name!r}", hint="check its permissions")


def environment(
    base: Mapping[str, str],
    *,
    backend: str = "",
    accelerated: str = "",
    prepared: Mapping[str, str] | None = None,
    saved: str = "",
    peaks: bool = False,
    lazy: Mapping[str, str] | None = None,
    summary: bool = True,
    verbose: bool = False,
) -> dict[str, str]:
    """Return the environment variables for the program.

    Parameters
    ----------
    base
        The variables of this process.
    backend
        The backend that every offloaded function should use if it can; empty for any.
    accelerated
        The folder whose modules have their functions accelerated; empty for none.
    prepared
        Variables that keep the thread pools of several libraries from competing for cores.
    saved
        The file for the program's profile; empty for none.
    peaks
        Whether to measure the links of the devices that were used, for the profile.
    lazy
        The modules that are not imported lazily, with the reasons; None to import none lazily.
    summary
        Whether the start-up hook prints a summary at the end.
    verbose
        Whether gpuforge logs the time of each phase in the program, too.
    """
    prepared = prepared or {}
    found = {**base, **prepared}
    if backend:
        found["GPUFORGE_BACKEND"] = backend
    if verbose:
        found["GPUFORGE_VERBOSE"] = "1"
    if lazy is not None:
        found["_GPUFORGE_LAZY"] = json.dumps(dict(lazy))
    if summary or accelerated or saved or lazy is not None:
        found |= {"_GPUFORGE_ACCELERATED": accelerated} if accelerated else {}
        found |= {"_GPUFORGE_SAVE": saved} if saved else {}
        found |= {"_GPUFORGE_PEAKS": "1"} if saved and peaks else {}
        found |= {} if summary else {"_GPUFORGE_QUIET": "1"}
        original = base.get("PYTHONPATH")
        found["PYTHONPATH"] = os.pathsep.join(
            [HOOK_FOLDER, original] if original else [HOOK_FOLDER]
        )
        found["_GPUFORGE_PREPARED"] = " ".join(
            f"{name}={value}" for name, value in prepared.items()
        )
        if original is not None:
            found["_GPUFORGE_PYTHONPATH"] = original
    return found


def interpreter_options(command: Sequence[str]) -> list[str]:
    """Return the interpreter's options in a command line, which precede what it runs."""
    found: list[str] = []
    words = iter(command[1:])
    for word in words:
        if not word.startswith("-") or word.startswith(("-m", "-c")):
            break
        found.append(word)
        if word in ("-W", "-X", "--check-hash-based-pycs"):
            found.append(next(words, ""))
    return found


def replace_this_process(program: Program, variables: Mapping[str, str]) -> NoReturn:
    """Replace this process with an interpreter that runs `program`. Does not return.

    Raises
    ------
    WorkloadError
        If the interpreter ignores environment variables (``-E``, ``-I``) or cannot be started.
    """
    if sys.flags.ignore_environment:
        raise WorkloadError(
            "'python -E' and 'python -I' ignore environment variables that gpuforge needs",
            hint="start gpuforge without these options",
        )
    command = [sys.executable, *interpreter_options(sys.orig_argv), *program.arguments]
    if sys.platform == "win32":  # after exec, the shell would not wait for the program to end
        sys.exit(subprocess.call(command, env=dict(variables)))
    try:
        os.execve(sys.executable, command, dict(variables))
    except OSError as error:
        raise WorkloadError(f"{sys.executable} could not be started: {error}") from None


def _near(path: Path) -> str:
    folder = path.parent
    try:
        names = os.listdir(folder)
    except OSError:
        names = []
    near = nearest(path.name, names)
    return f"did you mean {str(folder / near)!r}?" if near else "check the path"
