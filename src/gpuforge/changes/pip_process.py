"""Running pip in a process that never outlives gpuforge: whatever ends gpuforge ends pip too.

pip is the child of a watcher process that leads its own process group. The watcher reads from a
pipe; when gpuforge ends, even by SIGKILL, the pipe closes and the watcher kills the group.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

from gpuforge.errors import PlanRefused

PIP_SECONDS = 1800.0
OUTPUT_LINES = 12
_WATCHER = """
import os, signal, subprocess, sys, threading
pipe, keep = int(sys.argv[1]), [int(number) for number in sys.argv[2].split()]
def watch():
    os.read(pipe, 1)
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
sys.exit(subprocess.call(sys.argv[3:], pass_fds=keep))
"""
# These would make pip install outside the environment that is to be changed.
_ELSEWHERE = ("PIP_TARGET", "PIP_USER", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PYTHONPATH")


def run_pip(argv: list[str], *, holding: tuple[int, ...] = ()) -> str:
    """Run pip to completion and return its stdout.

    Parameters
    ----------
    holding
        File descriptors that stay open while pip runs; a lock on one shows that it still does.

    Raises
    ------
    PlanRefused
        If pip cannot be started, takes too long or fails; with the last lines of its stderr.
    """
    environ = {k: v for k, v in os.environ.items() if k not in _ELSEWHERE}
    environ |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "LC_ALL": "C"}
    theirs, ours = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _WATCHER, str(theirs), " ".join(map(str, holding)), *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            start_new_session=True,
            pass_fds=(theirs, *holding),
        )
    except OSError as error:
        os.close(ours)
        raise PlanRefused(f"pip could not be started: {error}") from None
    finally:
        os.close(theirs)
    try:
        out, err = process.communicate(timeout=PIP_SECONDS)
    except subprocess.TimeoutExpired:
        raise PlanRefused(f"pip did not finish within {PIP_SECONDS:g} s") from None
    finally:
        os.close(ours)  # ends the group unless pip has finished
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=10)
    if process.returncode:
        last = "\n".join(err.decode("utf-8", "replace").strip().splitlines()[-OUTPUT_LINES:])
        raise PlanRefused(f"pip failed with exit status {process.returncode}:\n{last}")
    return out.decode("utf-8", "replace")
