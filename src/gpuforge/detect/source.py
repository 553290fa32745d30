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


def outputs_of(probe: Probe, program: str, *arguments: Sequence[str]) -> list[Output]:
    """Return what a program said, leaving out where it failed or is not there."""
    return [one for one in probe.outputs(program, *arguments) if isinstance(one, Output)]
