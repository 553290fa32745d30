"""Recording the profile of a program that ``gpuforge run --save FILE`` starts."""

from __future__ import annotations

import atexit
import os

from gpuforge.cli import render
from gpuforge.errors import GpuForgeError
from gpuforge.profiler.recording import Recording
from gpuforge.units import format_bytes


def begin(path: str, *, peaks: bool = False) -> None:
    """Record this process to a file until it ends, and report the outcome on stderr.

    The program's own exit functions run before the recording ends, as they are registered later.
    """
    recording = Recording(path, by="gpuforge run --save FILE SCRIPT", peaks=peaks, gives_way=True)
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
    if recording.gave_way:
        said += "; it ends where the program began a profile of its own"
    render.last_words(f"gpuforge: profile: {said}")
