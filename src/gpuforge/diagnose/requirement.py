"""Checking the requirements of the installed packages, by PEP 508 and PEP 440."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from packaging.markers import UndefinedEnvironmentName, default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from gpuforge.diagnose.distribution import normalised
from gpuforge.diagnose.plain_requirement import EXTRA, GPU_PACKAGE


@dataclass(frozen=True)
class Unmet:
    """A requirement that does not hold.

    Attributes
    ----------
    package : the package that requires it
    needed : normalised name of the required package
    specifier : the required versions
    have : the installed version; None if it is not installed
    """

    package: str
    needed: str
    specifier: SpecifierSet
    have: str | None

    def __str__(self) -> str:
        have = "it is not installed" if self.have is None else f"{self.have} is installed"
        return f"{self.package} requires {self.needed}{self.specifier}; {have}"


@dataclass(frozen=True)
class Requirements:
    """The installed packages and their requirements.

    Attributes
    ----------
    versions : installed versions by package; empty if not certain
    lines : requirements as PEP 508 lines, by package
    python : version of the environment's Python, on which markers depend
    """

    versions: Mapping[str, str]
    lines: Mapping[str, tuple[str, ...]]
    python: str

    def unmet(self) -> tuple[Unmet, ...]:
        """Return all requirements that do not hold."""
        return tuple(
            Unmet(package, needed, specifier, self.versions.get(needed))
            for package, needed, specifier in dict.fromkeys(self._applying)
            if not self._holds(needed, specifier)
        )

    def bounds(self, needed: str, wanted: str = "") -> SpecifierSet | None:
        """Return the versions of `needed` that all packages accept; None if there are none.

        Parameters
        ----------
        needed
            The normalised name of a package.
        wanted
            Clauses that these versions meet as well.
        """
        merged = SpecifierSet(wanted)
        for _, name, specifier in self._applying:
            if name == needed:
                merged &= specifier
        return merged if _satisfiable(merged) else None

    def requires(self, needed: str) -> bool:
        """Return whether any package requires `needed`."""
        return any(name == needed for _, name, _ in self._applying)

    def requiring(self, needed: str) -> tuple[str, ...]:
        """Return one phrase for each package that requires specific versions of `needed`."""
        return tuple(f"{p} requires {n}{s}" for p, n, s in self._applying if n == needed and str(s))

    def after(
        self, removed: Iterable[str], added: Mapping[str, tuple[str, tuple[str, ...]]]
    ) -> Requirements:
        """Return the state after removing some packages and installing others."""
        gone = {*removed, *added}
        versions = {name: v for name, v in self.versions.items() if name not in gone}
        lines = {name: v for name, v in self.lines.items() if name not in gone}
        versions.update({name: version for name, (version, _) in added.items()})
        lines.update({name: required for name, (_, required) in added.items()})
        return replace(self, versions=versions, lines=lines)

    @cached_property
    def _applying(self) -> tuple[tuple[str, str, SpecifierSet], ...]:
        """Package, required package and versions of each requirement that applies."""
        here = {name: str(value) for name, value in default_environment().items()}
        environment = here | _markers(self.python)
        found: list[tuple[str, str, SpecifierSet]] = []
        optional: dict[tuple[str, str], list[tuple[str, str, SpecifierSet]]] = {}
        for package, lines in self.lines.items():
            for line in lines:
                extra = EXTRA.search(line)
                if extra and not GPU_PACKAGE.match(line):
                    continue  # it is not recorded which extras were requested
                try:
                    one = Requirement(line)
                    named = environment | ({"extra": extra[1]} if extra else {})
                    if one.marker is None or one.marker.evaluate(named):
                        of = optional.setdefault((package, extra[1]), []) if extra else found
                        of.append((package, normalised(one.name), one.specifier))
                except (InvalidRequirement, UndefinedEnvironmentName, InvalidVersion):
                    continue  # installers ignore such a line, too
        # Only frameworks require these packages: an extra whose packages are all installed is used.
        for parts in optional.values():
            found += parts if all(needed in self.versions for _, needed, _ in parts) else ()
        return tuple(found)

    def _holds(self, needed: str, specifier: SpecifierSet) -> bool:
        have = self.versions.get(needed)
        if not have:
            return have == ""
        try:
            return specifier.contains(Version(have), prereleases=True)
        except InvalidVersion:
            return True


def newly_unmet(before: Requirements, after: Requirements) -> tuple[Unmet, ...]:
    """Return the requirements that hold `before` but not `after`."""
    broken = {(one.package, one.needed) for one in before.unmet()}
    return tuple(one for one in after.unmet() if (one.package, one.needed) not in broken)


def _markers(python: str) -> dict[str, str]:
    if not python:
        return {}
    full = python if python.count(".") > 1 else f"{python}.0"
    minor = ".".join(full.split(".")[:2])
    return {"python_version": minor, "python_full_version": full, "implementation_version": full}


def _satisfiable(wanted: SpecifierSet) -> bool:
    """Return whether any version meets all clauses: one that they name, or one just above it."""
    named = [clause.version.removesuffix(".*").split("+")[0] for clause in wanted]
    above = [f"{base}.{more}" for base in named for more in ("0", "1", "999")]
    return any(
        wanted.contains(text, prereleases=True)
        for text in (
            "0",
            *(clause.version for clause in wanted if "*" not in clause.version),
            *above,
        )
    )
