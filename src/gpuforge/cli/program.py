"""A user's program, run by the interpreter itself, exactly as ``python`` would run it.

gpuforge does not run the program inside its own process: it replaces itself by a fresh interpreter
(`os.execve`). So ``__main__``, the stack, tracebacks, signals, exit status, ``multiprocessing`` and
what happens at exit are Python's own, not an imitation. A start-up hook prints the summary.
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
    """What stands behind ``python`` on the command line: a script or ``-m`` and a module, and its
    arguments.
    """

    arguments: tuple[str, ...]

    def check(self) -> None:
        """Raise `WorkloadError` if there is nothing to run there."""
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
    """Return the environment variables that the program starts with.

    Parameters
    ----------
    base
        Those of this process.
    backend
        The backend that every offloaded function is to run on where it can, or empty.
    accelerated
        The folder whose modules have their functions placed without an edit, or empty.
    prepared
        What is set so that the thread pools of several libraries do not fight, by name.
    saved
        The file that the program's profile is written to, or empty.
    peaks
        Whether the links of the devices that were used are measured for that profile.
    lazy
        The modules whose imports are not deferred, and why, where heavy imports are to be; or None.
    summary
        Whether the start-up hook is to print a summary at the end.
    verbose
        Whether gpuforge is to say in the program, too, what takes how long.
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
    """Return the options of the interpreter in its command line, before what it runs."""
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
    """Become the interpreter that runs `program`. Does not return.

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
    if sys.platform == "win32":  # there, exec returns to the shell before the program has ended
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
