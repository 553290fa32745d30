"""Reading a machine where only what is there counts: nothing stands for what is not or fails."""

from __future__ import annotations

from collections.abc import Sequence

from gpuforge.facts import known
from gpuforge.probe import Output, Probe


def text_at(probe: Probe, path: str) -> str:
    """Return the text of a file without the blanks and NULs around it, or ``""``."""
    return (known(probe.read_text(path)) or "").strip(" \r\n\0")


def names_in(probe: Probe, folder: str) -> tuple[str, ...]:
    """Return the names in a folder, sorted, or none."""
    return known(probe.list_dir(folder)) or ()


def outputs_of(
    probe: Probe, program: str, *arguments: Sequence[str], ask: bool = True
) -> list[Output]:
    """Return what a program said, leaving out where it failed or is not there.

    Parameters
    ----------
    ask
        Whether it is run with each of `arguments` where programs can be run.
    """
    readings = probe.outputs(program, *(arguments if ask else ()))
    return [reading for reading in readings if isinstance(reading, Output)]
