"""``pixi.toml``: Python by conda, the wheels by pixi's own resolver of PyPI packages."""

from __future__ import annotations

from gpuforge.environment.planning import Plan
from gpuforge.environment.quoting import comment, quoted
from gpuforge.environment.requirement import parse_requirement

FILE_NAME = "pixi.toml"
_SYSTEM = {"__cuda": "cuda", "__glibc": "libc", "__osx": "macos"}


def render(plan: Plan) -> str:
    """Return the plan as a pixi workspace."""
    name = f"{plan.profile}-{plan.framework}".replace("_", "-")
    lines = [
        comment(f"gpuforge: {plan.profile}, {plan.framework} for {plan.accelerator}"),
        "[workspace]",
        f"name = {quoted(name)}",
        'channels = ["conda-forge"]',
        f"platforms = [{quoted(plan.target.platform)}]",
        "",
        "[dependencies]",
        f"python = {quoted(f'{plan.target.python}.*')}",
        "",
        "[pypi-dependencies]",
        *(_dependency(package.requirement, package.index) for package in plan.packages),
    ]
    needs = {_SYSTEM[name]: version for name, version in plan.virtual_packages.items()}
    if needs:
        lines += ["", "[system-requirements]"]
        lines += [f"{name} = {quoted(version)}" for name, version in needs.items()]
    if plan.indexes and plan.accelerator in ("rocm", "xpu"):
        # Their wheels need further wheels that only their own index has.
        addresses = ", ".join(quoted(index) for index in plan.indexes)
        lines += ["", "[pypi-options]", f"extra-index-urls = [{addresses}]"]
        lines.append('index-strategy = "unsafe-best-match"')
    return "\n".join(lines) + "\n"


def _dependency(text: str, index: str) -> str:
    requirement = parse_requirement(text)
    parts = [f"version = {quoted(requirement.versions or '*')}"]
    if requirement.extras:
        parts.append(f"extras = [{', '.join(quoted(extra) for extra in requirement.extras)}]")
    if index:
        parts.append(f"index = {quoted(index)}")
    return f"{quoted(requirement.name)} = {{ {', '.join(parts)} }}"
