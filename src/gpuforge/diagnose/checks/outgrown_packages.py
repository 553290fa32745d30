"""Does an installed package need what a later version of another one no longer has?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuforge.compat.breakages import Breakage, breakages
from gpuforge.diagnose.distribution import Distribution
from gpuforge.diagnose.finding import Finding, State
from gpuforge.diagnose.repair import pip
from gpuforge.diagnose.site import Site

if TYPE_CHECKING:
    from gpuforge.changes.action import RunPip

SUMMARY = "no installed package needs what another one no longer has"

# Other tools may install packages that are patched under the same version.
INSTALLS_AS_RELEASED = ("pip", "uv", "poetry", "pdm")


def check(site: Site) -> Iterator[Finding]:
    """Yield the packages that do not work with the installed version of another one."""
    versions = {name: found[0] for name, found in site.packages.items() if len(found) == 1}
    named = set()
    for row in breakages(versions | {"python": site.environment.version}):
        one = site.distribution(row.package)
        pair = row.package, row.other
        if one and pair not in named and _as_released(one) and not _is_unmet(site, row):
            named.add(pair)
            yield _outgrown(site, one, row)
    if not named:
        yield Finding("ok", "no package is known not to work with the versions of the others")


def _as_released(one: Distribution) -> bool:
    """Return whether it is certainly what the index has under that version."""
    return one.installer.split(" ")[0] in INSTALLS_AS_RELEASED and not one.origin


def _is_unmet(site: Site, row: Breakage) -> bool:
    """Return whether the package's own metadata say it, which check package_versions reports."""
    return any(one.package == row.package and one.needed == row.other for one in site.unmet())


def _outgrown(site: Site, one: Distribution, row: Breakage) -> Finding:
    is_python = row.other == "python"
    have = site.environment.version if is_python else site.version(row.other)
    other = f"{'Python' if is_python else row.other} {have}"
    fails = f"{row.use} fails" if row.use else "it cannot be imported"
    message = f"{one.name} {one.version} needs {row.needs}, which {other} does not have; {fails}"
    state: State = "warning" if row.use else "error"
    repair = () if is_python and not row.fixed else _repair(site, row)
    return Finding(state, message, "outgrown_package", (row.source,), tuple(_steps(row)), repair)


def _ways(row: Breakage) -> list[tuple[str, str]]:
    """Return the packages of which other versions help, with these versions, best first."""
    ways = [(row.package, f">={row.fixed}")] if row.fixed else []
    ways += [(row.other, row.works_with)] if row.works_with else []
    return ways if row.works_with.startswith("<") else ways[::-1]  # rather newer than older


def _steps(row: Breakage) -> Iterator[str]:
    for number, (name, versions) in enumerate(_ways(row)):
        start = "Or install" if number else "Install"
        if name == "python":
            yield f"{start} Python {versions} in another environment: gpuforge env create --python"
        else:
            yield f"{start} another {name}: pip install '{name}{versions}'"


def _repair(site: Site, row: Breakage) -> tuple[RunPip, ...]:
    """Return the first way that the requirements of all installed packages allow."""
    for name, versions in _ways(row):
        bounds = None if name == "python" else site.requirements.bounds(name, versions)
        if bounds is not None:
            kept = row.other if name == row.package else row.package
            fixed = () if kept == "python" else (f"{kept}=={site.version(kept)}",)
            return pip(site, "install", "--upgrade", f"{name}{bounds}", *fixed)
    return ()
