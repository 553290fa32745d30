"""What a probe can be asked, whichever machine it stands for."""

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
    """What a finished process left.

    Attributes
    ----------
    status : its exit status; 0 for a recorded output, whose status is not kept
    stdout, stderr : its streams, as text
    cut : whether a stream went over `OUTPUT_LIMIT_BYTES` and the process was ended for it
    source : the command, or the file of a snapshot
    """

    status: int
    stdout: str
    stderr: str
    cut: bool = False
    source: str = ""


class Probe(Protocol):
    """How the rest of gpuforge sees a machine."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment variables."""

    @property
    def platform(self) -> str:
        """``linux``, ``darwin``, ``win32`` or ``freebsd``, as `sys.platform`."""

    def read_bytes(self, path: str) -> Reading[bytes]:
        """Return the content of a file, `Absent` if there is none, `Failed` if it is unreadable."""

    def read_text(self, path: str) -> Reading[str]:
        """Return the content of a file as text, undecodable bytes replaced."""
        return decoded(self.read_bytes(path))

    def list_dir(self, path: str) -> Reading[tuple[str, ...]]:
        """Return the names in a folder, sorted."""

    def read_link(self, path: str) -> Reading[str]:
        """Return the target of a symbolic link."""

    def find_program(self, name: str) -> Reading[str]:
        """Return the absolute path of a program on the search path."""

    def run(
        self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT_SECONDS
    ) -> Reading[Output]:
        """Run a program to its end, its output cut at `OUTPUT_LIMIT_BYTES` a stream."""

    def recorded(self, program: str) -> tuple[Reading[Output], ...] | None:
        """Return all recorded outputs of `program`, or None where programs can be run.

        An empty name stands for every program.
        """

    def outputs(self, program: str, *arguments: Sequence[str]) -> tuple[Reading[Output], ...]:
        """Return what `program` says: live, once for each of `arguments`; else all recorded."""
        recorded = self.recorded(program)
        if recorded is not None:
            return recorded
        return tuple(self.run([program, *rest]) for rest in arguments)

    def load_library(self, name: str) -> Reading[ctypes.CDLL]:
        """Open a shared library."""

    def clock(self) -> float:
        """Return monotonic seconds."""
