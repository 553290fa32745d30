"""Builds for doctor's repairs: what `environment` plans for a machine, for what is installed."""

from __future__ import annotations

from gpuforge.facts import Machine


def plan_builds(
    machine: Machine, framework: str, version: str, beside: tuple[str, ...], python: str
) -> tuple[tuple[str, str], ...] | str:
    """Return requirements of a build for the GPUs of `machine`, each with its index, or why none.

    The installed version is kept where one of its builds fits; else it is the newest that does.
    """
    # Deferred: most diagnoses need no plan, and these cost as much as all checks together.
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
