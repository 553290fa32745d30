"""Repairs of packages: which commands, and whether the rest of the environment allows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpuforge.diagnose.distribution import Distribution, normalised
from gpuforge.diagnose.site import Site

# Actions and requirements take 30 ms to import, and most diagnoses end without a repair.
if TYPE_CHECKING:
    from gpuforge.changes.action import Action, RunPip
    from gpuforge.diagnose.requirement import Unmet


def pip(site: Site, *arguments: str) -> tuple[RunPip, ...]:
    """Return one run of the environment's own pip."""
    from gpuforge.changes.action import RunPip

    return (RunPip(site.environment, arguments),)


def reinstall(site: Site, one: Distribution) -> tuple[RunPip, ...]:
    """Return the installation of one version again; nothing if no index or two records hold it.

    Its requirements stay as they are, so none is installed with it.
    """
    is_local = (one.info / "direct_url.json").exists()
    if is_local or one.folder not in site.environment.folders[:1] or not site.version(one.name):
        return ()
    # Without a list of its files pip cannot remove a package, only write over it.
    how = "--force-reinstall" if one.record and one.metadata else "--ignore-installed"
    return pip(site, "install", how, "--no-deps", f"{one.name}=={one.version}")


def breaks(site: Site, actions: Iterable[Action]) -> tuple[Unmet, ...]:
    """Return the requirements of installed packages that hold now and would not after `actions`.

    Asks pip what it would install, on the index that it would use; takes seconds.

    Raises
    ------
    PlanRefused
        If pip finds no versions that fit.
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
