"""A probe that memoizes another one: everything is read once, and can be saved as a snapshot."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gpuforge import registry
from gpuforge.facts import Absent, Reading
from gpuforge.probe.contract import DEFAULT_TIMEOUT_SECONDS, Output, Probe
from gpuforge.probe.snapshot import recorded_name

T = TypeVar("T")

RECORDED_FILE_BYTES = 2**20
VISIBLE = re.compile(r"(CUDA|HIP|ROCR|GPU|NVIDIA|ZE|ONEAPI)_\w*|HSA_OVERRIDE_GFX_VERSION")


class RecordingProbe(Probe):
    """A memoizing probe with an optional deadline for the programs that it runs.

    Parameters
    ----------
    probe
        The probe whose answers are memoized.
    libraries
        Whether libraries may be opened. False for a snapshot, which cannot store their answers.
    """

    def __init__(self, probe: Probe, *, libraries: bool = True) -> None:
        self._probe = probe
        self._libraries = libraries
        self._deadline = float("inf")
        self._memory: dict[tuple[str, Hashable], Any] = {}
        self._lock = threading.Lock()

    def limited(self, seconds: float) -> RecordingProbe:
        """Return a probe that shares this one's memory and ends programs `seconds` from now."""
        other = RecordingProbe(self._probe, libraries=self._libraries)
        other._memory, other._deadline = self._memory, self._probe.clock() + seconds
        return other

    def _once(self, what: str, key: Hashable, ask: Callable[[], T]) -> T:
        if (what, key) not in self._memory:
            found = ask()
            with self._lock:
                self._memory.setdefault((what, key), found)
        remembered: T = self._memory[what, key]
        return remembered

    @property
    def environ(self) -> Mapping[str, str]:
        return self._probe.environ

    @property
    def platform(self) -> str:
        return self._probe.platform

    def read_bytes(self, path: str) -> Reading[bytes]:
        return self._once("file", path, lambda: self._probe.read_bytes(path))

    def list_dir(self, path: str) -> Reading[tuple[str, ...]]:
        return self._once("folder", path, lambda: self._probe.list_dir(path))

    def read_link(self, path: str) -> Reading[str]:
        return self._once("link", path, lambda: self._probe.read_link(path))

    def find_program(self, name: str) -> Reading[str]:
        return self._probe.find_program(name)

    def run(
        self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT_SECONDS
    ) -> Reading[Output]:
        left = min(timeout, max(0.05, self._deadline - self._probe.clock()))
        return self._once("run", tuple(argv), lambda: self._probe.run(argv, timeout=left))

    def recorded(self, program: str) -> tuple[Reading[Output], ...] | None:
        return self._once("recorded", program, lambda: self._probe.recorded(program))

    def load_library(self, name: str) -> Reading[ctypes.CDLL]:
        if not self._libraries:
            return Absent("libraries cannot be opened while recording")
        return self._probe.load_library(name)

    def clock(self) -> float:
        return self._probe.clock()

    def save(self, folder: Path) -> tuple[str, ...]:
        """Save everything read so far to `folder` as a snapshot, without serial and user names.

        Returns
        -------
        tuple of str
            The files written, relative to `folder`.
        """
        files: dict[str, str] = {}
        for (what, key), found in self._memory.items():
            if what == "file" and isinstance(found, bytes):
                if b"\0" not in found.rstrip(b"\0") and len(found) <= RECORDED_FILE_BYTES:
                    files["sysroot" + str(key)] = found.decode("utf-8", "replace")
            elif what == "link" and isinstance(found, str):
                files[f"sysroot{key}.link"] = found
            elif what in ("run", "recorded"):
                readings = found if isinstance(found, tuple) else (found,)
                files.update(_named(out) for out in readings if isinstance(out, Output))
        chosen = {k: v for k, v in self.environ.items() if VISIBLE.fullmatch(k)}
        files["environ.txt"] = "".join(f"{k}={v}\n" for k, v in sorted(chosen.items()))
        for name, text in files.items():
            path = folder / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(without_names(text), encoding="utf-8", errors="replace")
        return tuple(sorted(files))


def _named(output: Output) -> tuple[str, str]:
    """Return the file name and the text of one output: stdout, then stderr."""
    text = output.stdout + output.stderr
    stem = recorded_name(output.source.split(" ")) if output.source else "output"
    starts = (("{", ".json"), ("[", ".json"), ("<?xml", ".xml"))
    ending = next((end for start, end in starts if text.lstrip().startswith(start)), ".txt")
    return re.sub(r"[^\w.-]+", "-", stem)[:80] + ending, text


def without_names(text: str) -> str:
    """Return `text` without serial numbers, UUIDs, and the names of user and machine."""
    for entry in registry.table(__file__, "private")["private"]:
        text = re.sub(entry["pattern"], entry["instead"], text)
    return text
