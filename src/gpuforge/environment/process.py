"""Running installers: their output is reported line by line, and none outlives gpuforge."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from gpuforge.environment.failure import explain_failure
from gpuforge.environment.interruption import ended_by_it
from gpuforge.log import logger

# Variables that would make an installer use another environment than the one to be filled.
_MISLEADING = (
    "PYTHONPATH PYTHONHOME VIRTUAL_ENV CONDA_PREFIX PIP_TARGET PIP_PREFIX PIP_USER "
    "PIP_REQUIRE_VIRTUALENV UV_SYSTEM_PYTHON UV_PROJECT_ENVIRONMENT"
).split()
# conda would register the staging folder, which does not exist afterwards.
_SET = {"PYTHONNOUSERSITE": "1", "CONDA_REGISTER_ENVS": "false"}
_TAIL_LINES = 200
_PR_SET_PDEATHSIG = 1

Names = Callable[[], Collection[str]]


@dataclass(frozen=True)
class Finished:
    """The exit status of a program and the last lines of its output."""

    status: int
    tail: str


def surroundings(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables for an installer."""
    kept = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
    return {**kept, **_SET, **(extra or {})}


def run_checked(
    argv: Sequence[str], doing: str, known: Names, on_line: Callable[[str], None] | None = None
) -> str:
    """Run a program and return the last lines of its output; raise what they mean if it fails.

    Parameters
    ----------
    doing
        The step, for the message: ``"resolving"``.
    known
        Returns the names of known packages, for "did you mean" hints.
    """
    finished = run_lines(argv, on_line)
    if finished.status != 0:
        raise explain_failure(finished.tail, doing, known)
    return finished.tail


def _bind_to_parent() -> Callable[[], None] | None:
    """Return a ``preexec_fn`` that ends a child when its parent is killed; None except on Linux."""
    if sys.platform != "linux":
        return None
    import ctypes

    try:
        control = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return lambda: control(_PR_SET_PDEATHSIG, signal.SIGKILL)


def run_lines(argv: Sequence[str], on_line: Callable[[str], None] | None = None) -> Finished:
    """Run a program, pass each line of its output to `on_line`, and end it if interrupted."""
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
        with process, ended_by_it(process):
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
        raise KeyboardInterrupt  # Python misses a Ctrl-C during a fork
    return Finished(process.returncode, "".join(tail))
