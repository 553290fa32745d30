"""The notebook magic ``%%gpuforge``, which profiles a cell; ``%load_ext gpuforge`` loads it."""

from __future__ import annotations

from typing import Any

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


def load_ipython_extension(shell: Any) -> None:
    """Add the magic to an IPython shell; ``%load_ext gpuforge`` calls this."""

    def profile_cell(line: str, cell: str) -> CellProfile:
        """Run a cell and show where its time went.

        ``%%gpuforge`` keeps the profile in memory, ``%%gpuforge run.gfp`` in a file.
        """
        recording = Recording(line.strip() or None)
        with recording:
            shell.run_cell(cell)  # shows exceptions as for any cell
        return CellProfile(recording)

    shell.register_magic_function(profile_cell, "cell", "gpuforge")
