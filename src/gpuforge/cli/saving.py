"""The profile of a program that ``gpuforge run --save FILE`` starts, from first line to last."""

from __future__ import annotations

import atexit
import os

from gpuforge.cli import render
from gpuforge.errors import GpuForgeError
from gpuforge.profiler.recording import Recording
from gpuforge.units import format_bytes


def begin(path: str, *, peaks: bool = False) -> None:
    """Record this process into a file until it ends; say what became of it on stderr.

    The exit functions of the program run first, for they are registered later.
    """
    recording = Recording(path, peaks=peaks)
    try:
        recording.start()
    except GpuForgeError as error:
        render.last_words(f"gpuforge: no profile was saved: {error}")
        return
    atexit.register(_end, recording, path, os.path.relpath(path), os.getpid())


def _end(recording: Recording, path: str, shown: str, process: int) -> None:
    if os.getpid() != process:
        return
    recording.stop()
    said = recording.problem
    if not said:
        try:
            said = f"{format_bytes(os.path.getsize(path))}; show it with 'gpuforge report {shown}'"
        except OSError as error:
            said = f"{shown} no longer exists: {error.strerror}"
    render.last_words(f"gpuforge: profile: {said}")
