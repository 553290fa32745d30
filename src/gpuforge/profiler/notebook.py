"""The notebook magic ``%%gpuforge``, which profiles a cell; ``%load_ext gpuforge`` loads it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gpuforge.errors import WorkloadError
from gpuforge.profiler.recording import Recording


class CellProfile:
    """The profile of a cell; a notebook shows its summary.

    Attributes
    ----------
    recording : the profile: ``summary()``, ``bottlenecks(5)``, ``export("html", path)``
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def __repr__(self) -> str:
        return self.recording.summary()


def _recording(line: str) -> Recording:
    """Return a started recording; a wrong file is one line to the user, not a traceback."""
    name = line.strip()
    quoted = len(name) > 1 and name[0] == name[-1] and name[0] in "'\""
    try:
        if name.startswith("-"):
            raise WorkloadError(f"%%gpuforge has no option {name!r}", hint="name a file or nothing")
        return Recording((name[1:-1] if quoted else name) or None, by="%%gpuforge").start()
    except WorkloadError as error:
        raise import_module("IPython.core.error").UsageError(f"{error}; {error.hint}") from None


def load_ipython_extension(shell: Any) -> None:
    """Add the magic to an IPython shell; ``%load_ext gpuforge`` calls this."""

    def profile_cell(line: str, cell: str) -> CellProfile:
        """Run a cell and show where its time went.

        ``%%gpuforge`` keeps the profile in memory, ``%%gpuforge run.gfp`` in a file.
        """
        recording = _recording(line)
        try:
            shell.run_cell(cell)  # shows exceptions as for any cell
        finally:
            recording.stop()
        return CellProfile(recording)

    shell.register_magic_function(profile_cell, "cell", "gpuforge")
