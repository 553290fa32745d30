"""``env list``, ``show``, ``recommend``, ``plan`` and ``export``: commands that only advise."""

from __future__ import annotations

import argparse

from gpuforge import stored
from gpuforge.cli import render
from gpuforge.cli.commands.env.arguments import how_of, loaded, machine_of, plan_of
from gpuforge.compat.builds import FRAMEWORKS, PACKAGE
from gpuforge.environment import advice
from gpuforge.environment.planning import Plan
from gpuforge.environment.profile import Profile, choose

FINE, REFUSED = 0, 1


def list(found: argparse.Namespace) -> int:  # noqa: A001 - the subcommand's name
    """Show all profiles, best fit first."""
    machine, cpu_only = machine_of(found), loaded(found).cpu_only
    profiles = advice.profiles()
    fits = advice.fit_all(machine, profiles, cpu_only=cpu_only)
    names = sorted(profiles, key=lambda name: (-fits[name].score, name))
    if found.json:
        render.document({"profiles": [{**_profile(profiles[n]), **vars(fits[n])} for n in names]})
        return FINE
    heading = ("profile", "fit", "packages", "from", "why")
    rows = [
        (name, str(fits[name].score), str(_count(p)), _origin(p), fits[name].reason)
        for name, p in ((name, profiles[name]) for name in names)
    ]
    render.data(render.table(rows, heading=heading))
    return FINE


def show(found: argparse.Namespace) -> int:
    """Show one profile."""
    profile = choose(advice.profiles(), found.name)
    if found.json:
        render.document(_profile(profile))
        return FINE
    lines = [f"{profile.name}: {profile.summary}", f"optimised for: {profile.optimises_for}"]
    lines += [f"needs: {profile.minimum_memory_gb:g} GB", f"from: {profile.origin}"]
    lines.append(f"packages for every framework: {', '.join(map(str, profile.packages))}")
    for name, group in (*profile.frameworks.items(), *profile.accelerators.items()):
        lines.append(f"{name}: {', '.join(map(str, group))}")
    render.data("\n".join(lines))
    return FINE


def recommend(found: argparse.Namespace) -> int:
    """Show the best profile for this hardware and what to do next."""
    best = advice.recommend(machine_of(found), framework=found.framework, **how_of(found))
    if found.json:
        render.document(
            {
                "profile": best.profile.name,
                "framework": best.plan.framework,
                "fit": vars(best.fit),
                "plan": best.plan.as_dict(),
            }
        )
        return REFUSED if best.plan.refusal else FINE
    render.data(
        f"{best.profile.name} on {best.plan.framework} (fit {best.fit.score}: {best.fit.reason})"
    )
    _say(best.plan)
    return REFUSED if best.plan.refusal else FINE


def plan(found: argparse.Namespace) -> int:
    """Show what would be installed, from where, and why each build was chosen."""
    made = plan_of(found)
    if found.json:
        render.document(made.as_dict())
    else:
        if made.refusal is None:
            render.data(describe(made))
        _say(made)
    return REFUSED if made.refusal else FINE


def export(found: argparse.Namespace) -> int:
    """Export the plan as a file for another tool."""
    module = advice.format_module(found.format)
    made = plan_of(found)
    text = advice.export(made, found.format)
    warn(made)
    if found.output is not None:
        stored.write_output(found.output, text)
        render.message(f"wrote {found.output}")
    if found.json:
        render.document({"format": found.format, "file": module.FILE_NAME, "text": text})
    elif found.output is None:
        render.data(text.rstrip("\n"))
    return FINE


def describe(made: Plan) -> str:
    """Return a plan as text: a title, then each package with its reason."""
    build = made.build
    title = f"{made.profile} on {made.framework}"
    if build is not None:
        title += f" {build.version} ({build.variant})"
    title += f" for Python {made.target.python} on {made.target.platform}"
    title += f", {', '.join(dict.fromkeys(made.devices)) or 'CPU'}"
    rows = [(package.requirement, package.reason) for package in made.packages]
    return f"{title}\n{render.table(rows, indent='  ')}"


def warn(made: Plan) -> None:
    """Print the warnings of a plan."""
    for warning in made.warnings:
        render.message(f"warning: {warning}")


def _say(made: Plan) -> None:
    warn(made)
    if made.refusal is None:
        return
    render.message(f"no plan: {made.refusal.reason}")
    if made.refusal.change is not None:
        render.message(f"hint: {made.refusal.change}")
    if made.accelerator != "cpu":
        render.message("hint: add --cpu-only to plan for the CPU")


def _profile(profile: Profile) -> dict[str, object]:
    return {
        "name": profile.name,
        "summary": profile.summary,
        "optimises_for": profile.optimises_for,
        "minimum_memory_bytes": round(profile.minimum_memory_gb * 10**9),
        "pinned": profile.pinned,
        "origin": profile.origin,
        "packages": {
            name: [PACKAGE[name], *(str(r) for r in profile.wanted(name, ""))]
            for name in FRAMEWORKS
        },
        "accelerators": {
            name: [str(r) for r in group] for name, group in profile.accelerators.items()
        },
    }


def _count(profile: Profile) -> int:
    return 1 + len([r for r in profile.wanted("pytorch", "") if r.key != "torch"])


def _origin(profile: Profile) -> str:
    return "gpuforge" if profile.origin == "gpuforge" else "yours"
