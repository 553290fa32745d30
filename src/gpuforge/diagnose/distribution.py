"""An installed package: what its ``.dist-info`` folder tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gpuforge.facts import known
from gpuforge.probe import Probe
from gpuforge.probe.files import text_of

_INFO = re.compile(r"(.+?)-([^-]+)(?:-py3\.\d+)?\.(dist|egg)-info")
_LIBRARY_END = re.compile(rb"\.(?:so(?:\.\d+)*|pyd|dll|dylib),[^,\n]*,(\d*)")
_MODULE_ENDS = (".py", ".so", ".pyd", ".dll", ".dylib")


@dataclass(frozen=True)
class Distribution:
    """One installed version of a package.

    Attributes
    ----------
    name : normalised
    info : the folder that describes it
    """

    name: str
    version: str
    info: Path
    probe: Probe

    @property
    def folder(self) -> Path:
        """The folder of packages it lies in."""
        return self.info.parent

    @cached_property
    def metadata(self) -> str:
        """The fields of its metadata, without the description; empty when it has none."""
        content = known(self.probe.read_bytes(str(self.info / "METADATA"))) or b""
        # Most of the file is the description: it is left out before anything is decoded.
        return text_of(content.replace(b"\r\n", b"\n").partition(b"\n\n")[0])

    @cached_property
    def requirements(self) -> tuple[str, ...]:
        """What it requires, one PEP 508 line each."""
        return tuple(re.findall(r"^Requires-Dist:\s*(.+?)\s*$", self.metadata, re.MULTILINE))

    @cached_property
    def record(self) -> bytes:
        """Its list of installed files; empty when it has none."""
        return known(self.probe.read_bytes(str(self.info / "RECORD"))) or b""

    @cached_property
    def libraries(self) -> tuple[tuple[str, int], ...]:
        """Its shared libraries and compiled modules, relative to `folder`, with their sizes."""
        # The whole list may have tens of thousands of lines: only the ends of some are looked at.
        return tuple(
            (self._line_until(match.end(0)).partition(",")[0], int(match[1] or 0))
            for match in _LIBRARY_END.finditer(self.record)
        )

    @cached_property
    def packages(self) -> tuple[str, ...]:
        """The folders of its import packages, relative to `folder`."""
        ends = re.finditer(rb"/__init__\.py,", self.record)
        return tuple(self._line_until(match.start()) for match in ends)

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Every module and library that it installs, relative to `folder`."""
        lines = self.record.decode("utf-8", "replace").splitlines()
        paths = (line.partition(",")[0] for line in lines)
        return tuple(path for path in paths if path.endswith(_MODULE_ENDS) or ".so." in path)

    def _line_until(self, end: int) -> str:
        start = self.record.rfind(b"\n", 0, end) + 1
        return self.record[start:end].decode("utf-8", "replace")

    @cached_property
    def installer(self) -> str:
        """The tool that installed it; empty where none is recorded."""
        return self._text("INSTALLER").strip()

    @property
    def wheel(self) -> str:
        """What its wheel was built for; empty where none is recorded."""
        return self._text("WHEEL")

    def _text(self, name: str) -> str:
        return known(self.probe.read_text(str(self.info / name))) or ""


def distributions_in(folder: Path, probe: Probe) -> Iterator[Distribution]:
    """Yield the packages installed in `folder`; eggs of a system's packages have no list."""
    for name in known(probe.list_dir(str(folder))) or ():
        if match := _INFO.fullmatch(name):
            yield Distribution(normalised(match[1]), match[2], folder / name, probe)


def normalised(name: str) -> str:
    """Return the name of a package as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
