"""``environment.yml`` for conda, mamba and micromamba.

conda installs Python and checks the virtual packages; pip installs the wheels, because the facts
about which build supports which device are about wheels (docs/decisions/0008).
"""

from __future__ import annotations

from gpuforge.environment.planning import Plan
from gpuforge.environment.quoting import comment, quoted

FILE_NAME = "environment.yml"


def match_specs(plan: Plan) -> list[str]:
    """Return what conda itself solves: Python, pip and the system requirements."""
    virtual = [f"{name} >={version}" for name, version in plan.virtual_packages.items()]
    return [f"python {plan.target.python}.*", "pip >=24", *virtual]


def render(plan: Plan) -> str:
    """Return the plan as an environment file."""
    lines = [
        comment(plan.title),
        comment(f"platform: {plan.target.platform}"),
        f"name: {quoted(plan.name)}",
        "channels:",
        "  - conda-forge",
        "  - nodefaults",
        "dependencies:",
        *(f"  - {quoted(spec)}" for spec in match_specs(plan)),
        "  - pip:",
        *(f"      - {quoted(f'--extra-index-url {index}')}" for index in plan.indexes),
        *(f"      - {quoted(package.requirement)}" for package in plan.packages),
    ]
    return "\n".join(lines) + "\n"
