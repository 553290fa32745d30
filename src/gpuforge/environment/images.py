"""Common parts of container images: the base image, system packages and pip's command line."""

from __future__ import annotations

from gpuforge.environment.planning import Plan
from gpuforge.errors import PlanRefused


def base_image(plan: Plan) -> str:
    """Return the base image: Python on Debian, with a glibc that every known wheel supports.

    Raises
    ------
    PlanRefused
        If the plan is not for Linux, or needs a system-wide ROCm.
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
    """Return the pip command line that installs the whole plan at once."""
    command = ["python", "-m", "pip", "install", "--no-cache-dir"]
    for index in plan.indexes:
        command += ["--extra-index-url", index]
    return command + [package.requirement for package in plan.packages]


def system_commands(plan: Plan) -> list[list[str]]:
    """Return the commands that install the system packages that the wheels need."""
    packages = plan.system.get("apt", ())
    if not packages:
        return []
    install = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    return [["apt-get", "update"], install, ["apt-get", "clean"]]
