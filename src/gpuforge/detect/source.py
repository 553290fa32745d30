"""Reads from a probe that return an empty value for what is missing or cannot be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gpuforge.facts import Failed, known
from gpuforge.probe import Output, Probe


def text_at(probe: Probe, path: str) -> str:
    """Return the text of a file, stripped of blanks and NULs, or ``""``."""
    return (known(probe.read_text(path)) or "").strip(" \r\n\0")


def names_in(probe: Probe, folder: str) -> tuple[str, ...]:
    """Return the names in a folder, sorted, or none."""
    return known(probe.list_dir(folder)) or ()


# WSL's kernel or tools, or a Linux nvidia-smi that shows a Windows driver; a program's list of the
# places where it looks, with wildcards, tells of none.
WSL = (
    r"microsoft-standard|WSL environment detected|^[ \t]*WSL version|/usr/lib/wsl(?!/[\w/.]*\*)|"
    r"NVIDIA-SMI (?P<tool>[\d.]+) +Driver Version: (?!(?P=tool)\b)\d{3}\.\d\d "
)


def under_wsl(probe: Probe) -> bool:
    """Return whether this is Windows Subsystem for Linux, which has no driver of its own."""
    if "microsoft" in text_at(probe, "/proc/version").lower():
        return True
    outputs = probe.recorded("") or ()
    return any(
        isinstance(out, Output) and bool(re.search(WSL, out.stdout, re.M)) for out in outputs
    )


def outputs_of(
    probe: Probe,
    program: str,
    *arguments: Sequence[str],
    ask: bool = True,
    fail: Callable[[Failed], None] | None = None,
) -> list[Output]:
    """Return the outputs of a program, leaving out failed and missing ones.

    Parameters
    ----------
    ask
        Whether to run it with each of `arguments` where programs can be run.
    fail
        Called with each failure.
    """
    readings = probe.outputs(program, *(arguments if ask else ()))
    for reading in readings:
        if fail and isinstance(reading, Failed):
            fail(reading)
    return [reading for reading in readings if isinstance(reading, Output)]
