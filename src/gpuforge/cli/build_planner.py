"""Framework builds for doctor's repairs, planned by `gpuforge.environment`."""

from __future__ import annotations

from gpuforge.facts import Machine


def plan_builds(
    machine: Machine, framework: str, version: str, beside: tuple[str, ...], python: str
) -> tuple[tuple[str, str], ...] | str:
    """Return the requirements of a GPU build, each with its index, or why there is none.

    The installed version is kept if one of its builds works; else the newest that works is used.
    """
    # Imported late: most diagnoses need no plan, and these imports take as long as all checks.
    from datetime import date

    from gpuforge.compat.builds import releases
    from gpuforge.environment.planning import Wish, plan_environment
    from gpuforge.environment.profile import Profile
    from gpuforge.environment.requirement import parse_requirement
    from gpuforge.environment.target import target_of

    profile = Profile("doctor", packages=tuple(map(parse_requirement, beside)))
    target = target_of(machine, python=python or None)
    for wanted in (version, "") if version in releases(framework) else ("",):
        plan = plan_environment(
            machine, Wish(profile, framework, version=wanted), target, today=date.today()
        )
        if plan.refusal is None and plan.accelerator != "cpu":
            return tuple((package.requirement, package.index) for package in plan.packages)
    return plan.refusal.reason if plan.refusal else "; ".join(plan.warnings)
