"""Apptainer definition files; every word of a command is quoted for the shell."""

from __future__ import annotations

import shlex

from gpuforge.environment.images import base_image, pip_arguments, system_commands
from gpuforge.environment.planning import Plan
from gpuforge.environment.quoting import comment

FILE_NAME = "environment.def"


def render(plan: Plan) -> str:
    """Return the plan as a definition file; ``--nv`` or ``--rocm`` brings the host's driver."""
    commands = [*system_commands(plan), pip_arguments(plan)]
    lines = [
        comment(plan.title),
        "Bootstrap: docker",
        f"From: {base_image(plan)}",
        "",
        "%post",
        "    set -e",
        *(f"    {shlex.join(command)}" for command in commands),
        "",
        "%runscript",
        '    exec python "$@"',
    ]
    return "\n".join(lines) + "\n"
