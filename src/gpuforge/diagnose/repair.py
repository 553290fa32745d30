"""Repairs of packages, and whether they would break other packages of the environment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpuforge.diagnose.distribution import Distribution, normalised
from gpuforge.diagnose.site import Site

# Imported late: these modules take 30 ms, and most diagnoses need no repair.
if TYPE_CHECKING:
    from gpuforge.changes.action import Action, RunPip
    from gpuforge.diagnose.requirement import Unmet


def pip(site: Site, *arguments: str) -> tuple[RunPip, ...]:
    """Return a run of the environment's own pip as the actions of a repair."""
    from gpuforge.changes.action import RunPip

    return (RunPip(site.environment, arguments),)


def reinstall(site: Site, one: Distribution) -> tuple[RunPip, ...]:
    """Return the repair that installs the same version again, without its requirements.

    Empty for packages that are not from an index, or installed more than once.
    """
    is_local = (one.info / "direct_url.json").exists()
    if is_local or one.folder != site.packages_folder or not site.version(one.name):
        return ()
    # Without RECORD, pip cannot remove a package but only overwrite it.
    how = "--force-reinstall" if one.record and one.metadata else "--ignore-installed"
    return pip(site, "install", how, "--no-deps", f"{one.name}=={one.version}")


def breaks(site: Site, actions: Iterable[Action]) -> tuple[Unmet, ...]:
    """Return the requirements of installed packages that `actions` would break.

    Performs a dry run of pip on its configured index, which takes seconds.

    Raises
    ------
    PlanRefused
        If pip finds no compatible versions.
    """
    from gpuforge.changes.action import RunPip
    from gpuforge.diagnose.requirement import newly_unmet

    before = after = site.requirements
    for action in actions:
        if isinstance(action, RunPip):
            found = {normalised(r.name): (r.version, r.requirements) for r in action.resolve()}
            uninstalled = action.arguments[1:] if action.arguments[0] == "uninstall" else ()
            after = after.after(map(normalised, uninstalled), found)
    return newly_unmet(before, after)
