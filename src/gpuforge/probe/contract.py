"""The interface of all probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from gpuforge.dataclass import dataclass
from gpuforge.facts import Reading
from gpuforge.probe.files import decoded

if TYPE_CHECKING:
    import ctypes

OUTPUT_LIMIT_BYTES = 4 * 2**20
DEFAULT_TIMEOUT_SECONDS = 2.0


@dataclass(frozen=True)
class Output:
    """The result of a finished process.

    Attributes
    ----------
    status : the exit status; 0 for a recorded output, whose status is not recorded
    stdout, stderr : the output streams, decoded
    cut : whether the process was killed because a stream exceeded `OUTPUT_LIMIT_BYTES`
    source : the command, or the file of the snapshot
    """

    status: int
    stdout: str
    stderr: str
    cut: bool = False
    source: str = ""


class Probe(Protocol):
    """Access to a machine; the rest of gpuforge uses nothing else."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment variables."""

    @property
    def platform(self) -> str:
        """``linux``, ``darwin``, ``win32`` or ``freebsd``, as `sys.platform`."""

    def read_bytes(self, path: str) -> Reading[bytes]:
        """Return the content of a file, `Absent` if there is none, `Failed` if it is unreadable."""

    def read_text(self, path: str) -> Reading[str]:
        """Return the content of a file as text, with undecodable bytes replaced."""
        return decoded(self.read_bytes(path))

    def list_dir(self, path: str) -> Reading[tuple[str, ...]]:
        """Return the sorted names of the entries of a folder."""

    def read_link(self, path: str) -> Reading[str]:
        """Return the target of a symbolic link."""

    def find_program(self, name: str) -> Reading[str]:
        """Return the absolute path of a program on the search path."""

    def run(
        self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT_SECONDS
    ) -> Reading[Output]:
        """Run a program for at most `timeout` seconds and `OUTPUT_LIMIT_BYTES` a stream."""

    def recorded(self, program: str) -> tuple[Reading[Output], ...] | None:
        """Return all recorded outputs of `program`; None if this probe runs programs instead.

        An empty name selects the outputs of all programs.
        """

    def outputs(self, program: str, *arguments: Sequence[str]) -> tuple[Reading[Output], ...]:
        """Return all recorded outputs of `program`, or run it once for each of `arguments`."""
        recorded = self.recorded(program)
        if recorded is not None:
            return recorded
        return tuple(self.run([program, *rest]) for rest in arguments)

    def load_library(self, name: str) -> Reading[ctypes.CDLL]:
        """Open a shared library."""

    def clock(self) -> float:
        """Return the time of a monotonic clock, in seconds."""
