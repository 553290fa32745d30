"""Running installers: each line is shown as it comes, and no process is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from gpuforge.environment.failure import explain_failure
from gpuforge.log import logger

# Variables that would lead an installer away from the environment it is told to fill.
_MISLEADING = (
    "PYTHONPATH PYTHONHOME VIRTUAL_ENV CONDA_PREFIX PIP_TARGET PIP_PREFIX PIP_USER "
    "PIP_REQUIRE_VIRTUALENV UV_SYSTEM_PYTHON UV_PROJECT_ENVIRONMENT"
).split()
# conda would list the folder that an environment is built in, which is gone afterwards.
_SET = {"PYTHONNOUSERSITE": "1", "CONDA_REGISTER_ENVS": "false"}
_TAIL_LINES = 200
_PR_SET_PDEATHSIG = 1

Names = Callable[[], Collection[str]]


@dataclass(frozen=True)
class Finished:
    """What a program left: its exit status and its last lines."""

    status: int
    tail: str


def surroundings(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables that an installer gets."""
    kept = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
    return {**kept, **_SET, **(extra or {})}


def run_checked(
    argv: Sequence[str], doing: str, known: Names, on_line: Callable[[str], None] | None = None
) -> str:
    """Run a program and return its last lines, or raise what they mean.

    Parameters
    ----------
    doing
        What is being done, for the message: ``"resolving"``.
    known
        Names of packages, from which a misspelt one is guessed.
    """
    finished = run_lines(argv, on_line)
    if finished.status != 0:
        raise explain_failure(finished.tail, doing, known)
    return finished.tail


def _bind_to_parent() -> Callable[[], None] | None:
    """Return what makes a child end when its parent is killed; None where no system call does."""
    if sys.platform != "linux":
        return None
    import ctypes

    try:
        control = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return lambda: control(_PR_SET_PDEATHSIG, signal.SIGKILL)


def run_lines(argv: Sequence[str], on_line: Callable[[str], None] | None = None) -> Finished:
    """Run a program, give each line of its output to `on_line`, and end it when interrupted."""
    process = subprocess.Popen(
        argv,
        preexec_fn=_bind_to_parent(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=surroundings(),
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    try:
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                logger("environment").info("%s", line.rstrip())
                tail.append(line)
                if on_line is not None:
                    on_line(line.rstrip())
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if process.returncode == -signal.SIGINT:
        raise KeyboardInterrupt  # Python loses a Ctrl-C that comes while it forks
    return Finished(process.returncode, "".join(tail))
