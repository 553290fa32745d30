"""The subject of the checks: a machine and its active Python environment."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gpuforge.changes.environment import PythonEnvironment, active_environment
from gpuforge.detect import read_machine
from gpuforge.diagnose.distribution import Distribution, distributions_in
from gpuforge.diagnose.library_search import LibrarySearch
from gpuforge.diagnose.plain_requirement import doubtful
from gpuforge.facts import Absent, Machine, Reading, known
from gpuforge.probe import LiveProbe, Probe

if TYPE_CHECKING:
    from gpuforge.diagnose.requirement import Requirements, Unmet

NOT_RECORDED = Absent("a recording of a machine does not contain this")


class BuildPlanner(Protocol):
    """Chooses framework builds; `cli` passes in the planner of environments."""

    def __call__(
        self,
        machine: Machine,
        framework: str,
        version: str,
        beside: tuple[str, ...],
        python: str,
    ) -> tuple[tuple[str, str], ...] | str:
        """Return requirements that fit the machine, each with its index, or why there are none.

        `version` is the installed version; `beside` are packages whose builds must match.
        """


@dataclass
class Site:
    """The subject of a diagnosis.

    Attributes
    ----------
    probe : the access to the machine
    network : whether checks may use the network
    asked : causes that the user named
    planner : chooses framework builds; without one, builds are not repaired
    thorough : whether checks were named, which may then take longer
    """

    probe: Probe
    network: bool = False
    asked: tuple[str, ...] = ()
    planner: BuildPlanner | None = None
    thorough: bool = False

    @cached_property
    def live(self) -> bool:
        """Whether this is the machine that this process runs on."""
        return isinstance(self.probe, LiveProbe)

    @cached_property
    def machine(self) -> Machine:
        """The facts of the machine."""
        return read_machine(self.probe)

    @cached_property
    def environment(self) -> PythonEnvironment:
        """The environment to check, and the only one that a repair changes."""
        return active_environment(self.probe.environ if self.live else {})

    @cached_property
    def packages_folder(self) -> Reading[Path]:
        """The folder into which packages are installed."""
        if not self.live:
            return NOT_RECORDED
        folders: Sequence[Path] = self.environment.folders
        if self.environment.kind != "system Python":  # the user's own packages may come before
            folders = sorted(folders, key=lambda f: not f.is_relative_to(self.environment.prefix))
        return folders[0] if folders else Absent(f"{self.environment.prefix} contains no packages")

    @cached_property
    def distributions(self) -> tuple[Distribution, ...]:
        """All installed packages, in the order of the import path."""
        folders = self.environment.folders if self.live else ()
        return tuple(d for folder in folders for d in distributions_in(folder, self.probe))

    @cached_property
    def packages(self) -> dict[str, tuple[str, ...]]:
        """Versions of each package in the first folder that has it, by normalised name."""
        found: dict[str, list[Distribution]] = {}
        for one in self.distributions:
            first = found.setdefault(one.name, [])
            if not first or first[0].folder == one.folder:
                first.append(one)
        return {name: tuple(d.version for d in several) for name, several in found.items()}

    def version(self, package: str) -> str | None:
        """Return the version of a package; None if it is not installed exactly once."""
        versions = self.packages.get(package, ())
        return versions[0] if len(versions) == 1 else None

    def distribution(self, package: str) -> Distribution | None:
        """Return the installed package of that name, or None if there is none."""
        return self._first.get(package)

    @cached_property
    def loader(self) -> LibrarySearch:
        """Where shared libraries are found."""
        return LibrarySearch(self)

    def lacks_module(self, name: str) -> bool:
        """Return whether certainly no folder that Python searches has a module."""
        if any((folder / name).exists() for folder in self.environment.folders):
            return False  # which is most often so, and needs no list
        # The finder of an editable project knows modules that lie anywhere.
        found = any(one.startswith("__editable___") for one in self._module_names)
        return not found and name not in self._module_names

    @cached_property
    def _module_names(self) -> frozenset[str]:
        from gpuforge.diagnose.path_folders import folders_after, folders_before

        folders = (*folders_before(self), *self.environment.folders, *folders_after(self))
        names = (name for f in folders for name in known(self.probe.list_dir(str(f))) or ())
        return sys.stdlib_module_names.union(name.partition(".")[0] for name in names)

    @cached_property
    def requirements(self) -> Requirements:
        """The requirements of all installed packages, gpuforge included."""
        from gpuforge.diagnose.requirement import Requirements

        return Requirements(self._versions, self.requirement_lines, self.environment.version)

    @cached_property
    def requirement_lines(self) -> Mapping[str, tuple[str, ...]]:
        """The requirements of each installed package as PEP 508 lines."""
        return {name: one.requirements for name, one in self._first.items()}

    def unmet(self) -> tuple[Unmet, ...]:
        """Return the requirements that do not hold; only doubtful ones are parsed."""
        python = self.environment.version
        doubted = doubtful(self.requirement_lines, self._versions, python)
        return replace(self.requirements, lines=doubted).unmet() if doubted else ()

    @cached_property
    def _versions(self) -> dict[str, str]:
        """The installed versions by package; empty if several are installed."""
        return {name: self.version(name) or "" for name in self.packages}

    @cached_property
    def _first(self) -> dict[str, Distribution]:
        return {one.name: one for one in reversed(self.distributions)}
