"""Installed packages, as their ``.dist-info`` folders describe them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gpuforge.facts import known
from gpuforge.probe import Probe
from gpuforge.probe.files import text_of

_INFO = re.compile(r"([^~].*?)-([^-]+)(?:-py3\.\d+)?\.(dist|egg)-info")  # "~": remains of pip
# Each pattern begins with literal text, so that 1 MB is searched in a millisecond.
_SIZE_AFTER = rb",[^,\n]*,(\d*)"
_LIBRARY_ENDS = [re.compile(rb"\.so(?:\.\d+)*" + _SIZE_AFTER)]
if sys.platform != "linux":
    _LIBRARY_ENDS += [re.compile(end + _SIZE_AFTER) for end in (rb"\.pyd", rb"\.dll", rb"\.dylib")]


@dataclass(frozen=True)
class Distribution:
    """One installed version of a package.

    Attributes
    ----------
    name : the normalised name
    info : the ``.dist-info`` or ``.egg-info`` folder
    """

    name: str
    version: str
    info: Path
    probe: Probe

    @cached_property
    def folder(self) -> Path:
        """The folder of packages that contains it."""
        return self.info.parent

    @cached_property
    def metadata(self) -> str:
        """The fields of its metadata, without the description; empty if there are none."""
        content = self._bytes("METADATA")
        # The description is most of the file, so it is removed before decoding.
        head = content.partition(b"\r\n\r\n" if b"\r\n" in content[:100] else b"\n\n")[0]
        return text_of(head)

    @cached_property
    def requirements(self) -> tuple[str, ...]:
        """Its requirements as PEP 508 lines."""
        fields = self.metadata.split("\nRequires-Dist:")[1:]
        return tuple(field.partition("\n")[0].strip() for field in fields)

    @cached_property
    def record(self) -> bytes:
        """The content of RECORD, its list of installed files; empty if there is none."""
        return self._bytes("RECORD")

    @cached_property
    def libraries(self) -> tuple[tuple[str, int], ...]:
        """Its shared libraries and compiled modules, relative to `folder`, with their sizes."""
        # A RECORD may have tens of thousands of lines, so they are not parsed one by one.
        return tuple(
            (self._line_until(match.end(0)).partition(",")[0], int(match[1] or 0))
            for ending in _LIBRARY_ENDS
            for match in ending.finditer(self.record)
        )

    @cached_property
    def packages(self) -> tuple[str, ...]:
        """The folders of its import packages, relative to `folder`."""
        return self._lines_before(b"/__init__.py,")

    @property
    def import_names(self) -> list[str]:
        """The top-level modules and packages that it installs."""
        packages = [path for path in self.packages if "/" not in path]
        return packages + [path[:-3] for path in self.modules if "/" not in path]

    @cached_property
    def entry_points(self) -> str:
        """Its ``entry_points.txt``; empty if there is none."""
        return text_of(self._bytes("entry_points.txt"))

    @property
    def script_modules(self) -> list[str]:
        """The modules that its console scripts start, other than ``__main__``."""
        section = self.entry_points.partition("[console_scripts]")[2].partition("\n[")[0]
        named = (line.partition("=")[2].partition(":")[0].strip() for line in section.splitlines())
        return [name for name in named if name and not name.endswith("__main__")]

    @property
    def starts(self) -> list[str]:
        """The ``__init__.py`` of its top-level import packages, relative to `folder`."""
        return [f"{package}/__init__.py" for package in self.packages if "/" not in package]

    @property
    def files(self) -> list[str]:
        """All its files, relative to `folder`."""
        lines = self.record.decode("utf-8", "replace").splitlines()
        return [line.partition(",")[0] for line in lines if line[:1] != '"']

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """All its Python modules, relative to `folder`."""
        return tuple(f"{path}.py" for path in self._lines_before(b".py,"))

    def entry(self, path: str) -> bytes:
        """Return hash and size of a file in RECORD; empty if it is not listed."""
        key = f"\n{path},".encode()
        start = 0 if self.record.startswith(key[1:]) else self.record.find(key) + 1
        line = self.record[start : self.record.find(b"\n", start)].rstrip()
        return line[len(key) - 1 :] if line.startswith(key[1:]) else b""

    def _lines_before(self, ending: bytes) -> tuple[str, ...]:
        """Return the part before `ending` of each line of the record that contains it."""
        parts = self.record.split(ending)[:-1]
        lines = b"\n".join(part[part.rfind(b"\n") + 1 :] for part in parts)
        return tuple(lines.decode("utf-8", "replace").split("\n")) if parts else ()

    def _line_until(self, end: int) -> str:
        start = self.record.rfind(b"\n", 0, end) + 1
        return self.record[start:end].decode("utf-8", "replace")

    @cached_property
    def installer(self) -> str:
        """The tool that installed it; empty if none is recorded."""
        return text_of(self._bytes("INSTALLER")).strip()

    @property
    def top_level(self) -> list[str]:
        """The names in its ``top_level.txt``; empty if there is none."""
        return text_of(self._bytes("top_level.txt")).split()

    @property
    def wheel(self) -> str:
        """The content of its WHEEL file, with the wheel's tags; empty if there is none."""
        return text_of(self._bytes("WHEEL"))

    @cached_property
    def origin(self) -> str:
        """Its ``direct_url.json`` if it was not installed from an index; else empty."""
        listed = not self.record or b"/direct_url.json," in self.record
        return text_of(self._bytes("direct_url.json")) if listed else ""

    def _bytes(self, name: str) -> bytes:
        return known(self.probe.read_bytes(f"{self.info}/{name}")) or b""


def distributions_in(folder: Path, probe: Probe) -> Iterator[Distribution]:
    """Yield the packages installed in `folder`; those of a system's eggs have no RECORD."""
    for name in known(probe.list_dir(str(folder))) or ():
        if match := _INFO.fullmatch(name):
            yield Distribution(normalised(match[1]), match[2], folder / name, probe)


def normalised(name: str) -> str:
    """Return the normalised name of a package."""
    return re.sub(r"[-_.]+", "-", name).lower()
