"""What the checks look at: a machine, and the Python environment that is active on it."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gpuforge.detect import read_machine
from gpuforge.facts import Absent, Machine, Reading, known
from gpuforge.probe import LiveProbe, Probe

_DIST_INFO = re.compile(r"(.+?)-([^-]+)\.dist-info")
NOT_RECORDED = Absent("a recorded machine does not show it")


@dataclass
class Site:
    """The subject of a diagnosis.

    Attributes
    ----------
    probe : the door to the machine
    network : whether checks may use the network
    asked : causes that the user named, because an error text shows them
    """

    probe: Probe
    network: bool = False
    asked: tuple[str, ...] = ()

    @cached_property
    def live(self) -> bool:
        """Whether this is the machine that this process runs on."""
        return isinstance(self.probe, LiveProbe)

    @cached_property
    def machine(self) -> Machine:
        """The facts of the machine."""
        return read_machine(self.probe)

    @cached_property
    def prefix(self) -> Path:
        """The folder of the active environment: the activated one, else that of this Python."""
        environ = self.probe.environ
        named = environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX")
        return Path(named) if named and self.live and Path(named).is_dir() else Path(sys.prefix)

    @cached_property
    def python(self) -> Path:
        """The interpreter of the active environment."""
        for place in ("bin/python", "Scripts/python.exe", "python.exe"):
            if (self.prefix / place).exists():
                return self.prefix / place
        return Path(sys.executable)

    @cached_property
    def is_environment(self) -> bool:
        """Whether the prefix is a virtual or conda environment rather than a system's Python."""
        return (self.prefix / "pyvenv.cfg").is_file() or (self.prefix / "conda-meta").is_dir()

    @cached_property
    def packages_folder(self) -> Reading[Path]:
        """The folder of installed packages."""
        if not self.live:
            return NOT_RECORDED
        patterns = ("lib/python3*/site-packages", "Lib/site-packages", "lib/python3*/dist-packages")
        found = [path for pattern in patterns for path in sorted(self.prefix.glob(pattern))]
        own = [path for path in found if path.parent.name == _own_library()]
        chosen = (own or found)[:1]
        return chosen[0] if chosen else Absent(f"{self.prefix} has no folder of packages")

    @cached_property
    def packages(self) -> dict[str, tuple[str, ...]]:
        """Versions of each installed package, by normalised name; several when left over."""
        folder = known(self.packages_folder)
        names = known(self.probe.list_dir(str(folder))) if folder else None
        found: dict[str, tuple[str, ...]] = {}
        for name in names or ():
            if match := _DIST_INFO.fullmatch(name):
                package = normalised(match[1])
                found[package] = (*found.get(package, ()), match[2])
        return found

    def version(self, package: str) -> str | None:
        """Return the version of a package that is installed once."""
        versions = self.packages.get(package, ())
        return versions[0] if len(versions) == 1 else None

    def metadata(self, package: str) -> str:
        """Return the metadata of an installed package; empty when there is none."""
        folder = known(self.packages_folder)
        for path in folder.glob("*.dist-info") if folder else ():
            match = _DIST_INFO.fullmatch(path.name)
            if match and normalised(match[1]) == package:
                return known(self.probe.read_text(str(path / "METADATA"))) or ""
        return ""


def normalised(name: str) -> str:
    """Return the name of a package as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _own_library() -> str:
    return "Lib" if sys.platform == "win32" else f"python3.{sys.version_info.minor}"
