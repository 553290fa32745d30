"""What the checks look at: a machine, and the Python environment that is active on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gpuforge.changes.environment import PythonEnvironment, active_environment
from gpuforge.detect import read_machine
from gpuforge.diagnose.distribution import Distribution, distributions_in
from gpuforge.diagnose.plain_requirement import doubtful
from gpuforge.facts import Absent, Machine, Reading
from gpuforge.probe import LiveProbe, Probe

if TYPE_CHECKING:
    from gpuforge.diagnose.requirement import Requirements, Unmet

NOT_RECORDED = Absent("a recording of a machine does not contain this")


class BuildPlanner(Protocol):
    """Who chooses builds of frameworks; the planner of environments, as `cli` brings it in."""

    def __call__(
        self,
        machine: Machine,
        framework: str,
        version: str,
        beside: tuple[str, ...],
        python: str,
    ) -> tuple[tuple[str, str], ...] | str:
        """Return requirements that fit the machine, each with its index, or why none do.

        `version` is the installed one; `beside` names packages whose builds go with it.
        """


@dataclass
class Site:
    """The subject of a diagnosis.

    Attributes
    ----------
    probe : the door to the machine
    network : whether checks may use the network
    asked : causes that the user named, because an error text shows them
    planner : who chooses builds of frameworks; without one, no build is repaired
    thorough : whether single checks were asked for, which may then take longer
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
        """The environment that is looked at, and the only one that a repair changes."""
        return active_environment(self.probe.environ if self.live else {})

    @cached_property
    def packages_folder(self) -> Reading[Path]:
        """The folder into which packages are installed."""
        if not self.live:
            return NOT_RECORDED
        folders = self.environment.folders
        return folders[0] if folders else Absent(f"{self.environment.prefix} contains no packages")

    @cached_property
    def distributions(self) -> tuple[Distribution, ...]:
        """Every installed package, those that are found first in front."""
        folders = self.environment.folders if self.live else ()
        return tuple(d for folder in folders for d in distributions_in(folder, self.probe))

    @cached_property
    def packages(self) -> dict[str, tuple[str, ...]]:
        """Versions of each installed package in its first folder, by normalised name."""
        found: dict[str, list[Distribution]] = {}
        for one in self.distributions:
            first = found.setdefault(one.name, [])
            if not first or first[0].folder == one.folder:
                first.append(one)
        return {name: tuple(d.version for d in several) for name, several in found.items()}

    def version(self, package: str) -> str | None:
        """Return the version of a package that is installed once."""
        versions = self.packages.get(package, ())
        return versions[0] if len(versions) == 1 else None

    def distribution(self, package: str) -> Distribution | None:
        """Return the installed package of that name, None when there is none."""
        return self._first.get(package)

    @cached_property
    def requirements(self) -> Requirements:
        """What the installed packages require of each other, gpuforge among them."""
        from gpuforge.diagnose.requirement import Requirements

        return Requirements(self._versions, self.requirement_lines, self.environment.version)

    @cached_property
    def requirement_lines(self) -> Mapping[str, tuple[str, ...]]:
        """What each installed package requires, as PEP 508 lines."""
        return {name: one.requirements for name, one in self._first.items()}

    def unmet(self) -> tuple[Unmet, ...]:
        """Return the requirements that do not hold; only what is in doubt is parsed."""
        python = self.environment.version
        doubted = doubtful(self.requirement_lines, self._versions, python)
        return replace(self.requirements, lines=doubted).unmet() if doubted else ()

    @cached_property
    def _versions(self) -> dict[str, str]:
        """The installed version by package; empty where several are."""
        return {name: self.version(name) or "" for name in self.packages}

    @cached_property
    def _first(self) -> dict[str, Distribution]:
        return {one.name: one for one in reversed(self.distributions)}
