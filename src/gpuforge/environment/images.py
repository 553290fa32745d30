"""What container images have in common: the base, the system's packages, pip's arguments."""

from __future__ import annotations

from gpuforge.environment.planning import Plan
from gpuforge.errors import PlanRefused


def base_image(plan: Plan) -> str:
    """Return the image to start from: Python on a Debian whose glibc every known wheel accepts.

    Raises
    ------
    PlanRefused
        If the plan is not for Linux, or needs a ROCm that the base does not have.
    """
    if not plan.target.platform.startswith("linux"):
        raise PlanRefused(
            f"container images are Linux images, but the plan is for {plan.target.platform}",
            hint="add --platform linux-64",
        )
    if plan.build is not None and plan.build.variant == "rocm7-local":
        raise PlanRefused(
            "jax[rocm7-local] uses the system's ROCm, which the base image does not contain",
            hint="use --framework pytorch, whose ROCm wheels include it",
        )
    return f"python:{plan.target.python}-slim"


def pip_arguments(plan: Plan) -> list[str]:
    """Return pip's command line for the whole plan in one resolution."""
    command = ["python", "-m", "pip", "install", "--no-cache-dir"]
    for index in plan.indexes:
        command += ["--extra-index-url", index]
    return command + [package.requirement for package in plan.packages]


def system_commands(plan: Plan) -> list[list[str]]:
    """Return the commands that install what the wheels need from the system."""
    packages = plan.system.get("apt", ())
    if not packages:
        return []
    install = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    return [["apt-get", "update"], install, ["apt-get", "clean"]]
