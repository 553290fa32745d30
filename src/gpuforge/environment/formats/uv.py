"""``pyproject.toml`` of a uv project; ``uv sync`` creates the environment."""

from __future__ import annotations

from gpuforge.environment.planning import Plan
from gpuforge.environment.quoting import comment, quoted, quoted_list

FILE_NAME = "pyproject.toml"
_MARKERS = {
    "linux-64": "sys_platform == 'linux' and platform_machine == 'x86_64'",
    "linux-aarch64": "sys_platform == 'linux' and platform_machine == 'aarch64'",
    "osx-arm64": "sys_platform == 'darwin' and platform_machine == 'arm64'",
    "win-64": "sys_platform == 'win32' and platform_machine == 'AMD64'",
}


def render(plan: Plan) -> str:
    """Return the plan as a project; an extra index is used only for the packages that need it."""
    lines = [comment(plan.title)]
    if plan.target.platform == "osx-arm64":
        lines.append(comment("uv takes macOS 13 for granted: set MACOSX_DEPLOYMENT_TARGET=14.0"))
    lines += [
        "[project]",
        f"name = {quoted(plan.name)}",
        'version = "0"',
        f"requires-python = {quoted(f'=={plan.target.python}.*')}",
        f"dependencies = {quoted_list([p.requirement for p in plan.packages])}",
        "",
        "[tool.uv]",
        "package = false",
        f"environments = [{quoted(_MARKERS[plan.target.platform])}]",
    ]
    # ROCm and XPU wheels depend on further wheels that only their own index has.
    alone = plan.accelerator not in ("rocm", "xpu")
    if plan.indexes and not alone:
        lines.append('index-strategy = "unsafe-best-match"')
    names = {index: f"framework-{place}" for place, index in enumerate(plan.indexes)}
    for index, label in names.items():
        lines += ["", "[[tool.uv.index]]", f"name = {quoted(label)}", f"url = {quoted(index)}"]
        lines += ["explicit = true"] if alone else []
    if names:
        lines += ["", "[tool.uv.sources]"]
        lines += [
            f"{quoted(p.key)} = {{ index = {quoted(names[p.index])} }}"
            for p in plan.packages
            if p.index
        ]
    return "\n".join(lines) + "\n"
