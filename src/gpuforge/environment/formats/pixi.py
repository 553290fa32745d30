"""``pixi.toml``: Python from conda, the wheels from pixi's own resolver of PyPI packages."""

from __future__ import annotations

from gpuforge.environment.planning import Plan
from gpuforge.environment.quoting import comment, quoted
from gpuforge.environment.requirement import parse_requirement

FILE_NAME = "pixi.toml"
_SYSTEM = {"__cuda": "cuda", "__glibc": "libc", "__osx": "macos"}


def render(
    plan: Plan,
    channels: tuple[str, ...] = ("conda-forge",),
    *,
    index: str = "",
    links: tuple[str, ...] = (),
) -> str:
    """Return the plan as a pixi workspace.

    Parameters
    ----------
    index, links
        URL that replaces the default index, and folders or pages of wheels.
    """
    lines = [
        comment(plan.title),
        "[workspace]",
        f"name = {quoted(plan.name)}",
        f"channels = {_array(channels)}",
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
    return "\n".join([*lines, *_options(plan, index, links)]) + "\n"


def _options(plan: Plan, index: str, links: tuple[str, ...]) -> list[str]:
    lines = [f"index-url = {quoted(index)}"] if index else []
    if links:
        kinds = (("url" if "://" in link else "path", link) for link in links)
        lines.append(f"find-links = [{', '.join(f'{{ {k} = {quoted(v)} }}' for k, v in kinds)}]")
    if plan.indexes and plan.accelerator in ("rocm", "xpu"):
        # ROCm and XPU wheels depend on further wheels that only their own index has.
        lines += [f"extra-index-urls = {_array(plan.indexes)}"]
        lines.append('index-strategy = "unsafe-best-match"')
    return ["", "[pypi-options]", *lines] if lines else []


def _array(items: tuple[str, ...]) -> str:
    return f"[{', '.join(quoted(item) for item in items)}]"


def _dependency(text: str, index: str) -> str:
    requirement = parse_requirement(text)
    parts = [f"version = {quoted(requirement.versions or '*')}"]
    if requirement.extras:
        parts.append(f"extras = {_array(requirement.extras)}")
    if index:
        parts.append(f"index = {quoted(index)}")
    return f"{quoted(requirement.name)} = {{ {', '.join(parts)} }}"
