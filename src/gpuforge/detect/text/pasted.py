"""A machine of which a text alone is known."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpuforge.facts import Absent, Reading
from gpuforge.probe import Output, Probe

if TYPE_CHECKING:
    import ctypes


class PastedProbe(Probe):
    """Outputs that were found in a text, each under the name of its program.

    Parameters
    ----------
    outputs
        Program and output of each.
    recorded
        The recorded machine that the text belongs to; without one, nothing else is known.
    """

    def __init__(
        self, outputs: Sequence[tuple[str, Output]], recorded: Probe | None = None
    ) -> None:
        self._outputs = tuple(outputs)
        self._recorded = recorded

    @property
    def environ(self) -> Mapping[str, str]:
        return self._recorded.environ if self._recorded else {}

    @property
    def platform(self) -> str:
        """The platform of the recorded machine; a text alone has ``unknown``."""
        return self._recorded.platform if self._recorded else "unknown"

    def read_bytes(self, path: str) -> Reading[bytes]:
        return self._recorded.read_bytes(path) if self._recorded else Absent("a text has no files")

    def list_dir(self, path: str) -> Reading[tuple[str, ...]]:
        return self._recorded.list_dir(path) if self._recorded else Absent("a text has no folders")

    def read_link(self, path: str) -> Reading[str]:
        return self._recorded.read_link(path) if self._recorded else Absent("a text has no links")

    def find_program(self, name: str) -> Reading[str]:
        return Absent(f"a text has no program {name}")

    def run(self, argv: Sequence[str], *, timeout: float = 0.0) -> Reading[Output]:
        if self._recorded:
            return self._recorded.run(argv, timeout=timeout)
        return Absent(f"no output of '{' '.join(argv)}' was found")

    def recorded(self, program: str) -> tuple[Reading[Output], ...]:
        own = (output for name, output in self._outputs if program in ("", name))
        base = self._recorded.recorded(program) if self._recorded else None
        return (*(base or ()), *own)

    def load_library(self, name: str) -> Reading[ctypes.CDLL]:
        return Absent(f"a text has no library {name}")

    def clock(self) -> float:
        return time.monotonic()
