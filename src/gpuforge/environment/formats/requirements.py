"""``requirements.txt`` for pip and ``uv pip``."""

from __future__ import annotations

from gpuforge.environment.planning import Plan
from gpuforge.environment.quoting import comment

FILE_NAME = "requirements.txt"


def render(plan: Plan) -> str:
    """Return the plan as a requirements file with its indexes."""
    lines = [
        comment(plan.title),
        comment(f"Python {plan.target.python} on {plan.target.platform}"),
        *([comment("with uv pip: --index-strategy unsafe-best-match")] if plan.indexes else []),
        *(f"--extra-index-url {index}" for index in plan.indexes),
        *(package.requirement for package in plan.packages),
    ]
    return "\n".join(lines) + "\n"
