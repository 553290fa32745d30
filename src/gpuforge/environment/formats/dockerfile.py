"""``Dockerfile``, with commands in exec form (JSON lists), which no shell interprets."""

from __future__ import annotations

from gpuforge.environment.images import base_image, pip_arguments, system_commands
from gpuforge.environment.planning import Plan
from gpuforge.environment.quoting import comment, quoted

FILE_NAME = "Dockerfile"


def render(plan: Plan) -> str:
    """Return the plan as a Dockerfile; the driver comes from the machine that runs the image."""
    lines = [comment(plan.title), f"FROM {base_image(plan)}"]
    if plan.accelerator == "cuda":
        lines.append("ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility")
    commands = [*system_commands(plan), pip_arguments(plan)]
    lines += [f"RUN [{', '.join(quoted(word) for word in command)}]" for command in commands]
    return "\n".join([*lines, 'CMD ["python"]']) + "\n"
