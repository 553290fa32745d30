"""The machine this process runs on."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpuforge.facts import Absent, Failed, Reading
from gpuforge.probe.contract import DEFAULT_TIMEOUT_SECONDS, Output, Probe
from gpuforge.probe.files import read

if TYPE_CHECKING:
    import ctypes

# Folders where vendors install their tools, searched in addition to PATH.
TOOL_FOLDERS = ("/usr/lib/wsl/lib", "/opt/rocm/bin", "/usr/local/bin", "/usr/sbin", "/sbin")


class LiveProbe(Probe):
    """The machine this process runs on."""

    @property
    def environ(self) -> Mapping[str, str]:
        return os.environ

    @property
    def platform(self) -> str:
        return sys.platform

    def read_bytes(self, path: str) -> Reading[bytes]:
        return read(path, path)

    def list_dir(self, path: str) -> Reading[tuple[str, ...]]:
        try:
            return tuple(sorted(os.listdir(path)))
        except (FileNotFoundError, NotADirectoryError):
            return Absent(f"no folder {path}")
        except (OSError, ValueError) as error:
            return Failed(f"{path}: {error}")

    def read_link(self, path: str) -> Reading[str]:
        try:
            return os.readlink(path)
        except (OSError, ValueError) as error:
            return Absent(f"{path} is not a link: {error}")

    def find_program(self, name: str) -> Reading[str]:
        import shutil

        found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(TOOL_FOLDERS))
        return found if found else Absent(f"no program {name} on the search path")

    def run(
        self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT_SECONDS
    ) -> Reading[Output]:
        path = self.find_program(argv[0])
        if not isinstance(path, str):
            return path
        from gpuforge.probe.process import run

        return run([path, *argv[1:]], timeout)

    def recorded(self, program: str) -> None:
        return None

    def load_library(self, name: str) -> Reading[ctypes.CDLL]:
        import ctypes

        try:
            return ctypes.CDLL(name)
        except OSError as error:
            return Absent(f"the library {name} cannot be loaded: {error}")

    def clock(self) -> float:
        return time.monotonic()


def process_lives(number: str) -> bool:
    """Return whether a process with this id is running; False if the system cannot tell."""
    if not number.isdecimal() or os.name != "posix":
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
