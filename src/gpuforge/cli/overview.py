"""``gpuforge`` alone: the machine, its health in one line, its environment, what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuforge import __version__
from gpuforge.cli import machine_view, render
from gpuforge.detect import read_machine
from gpuforge.errors import GpuForgeError
from gpuforge.facts import Machine

if TYPE_CHECKING:
    from gpuforge.cli.argument_parser import ArgumentParser


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the flags of the bare command."""
    parser.add_argument(
        "--cpu-only", action="store_true", help="plan for the CPU; do not read GPUs"
    )
    parser.add_argument(
        "--diagnose", action="store_true", help="also run every check of 'gpuforge doctor'"
    )
    parser.add_argument(
        "--profile", metavar="NAME", help="environment profile (see 'gpuforge env list')"
    )


def run(arguments: Any) -> int:
    """Show the machine; return 1 if a driver fails or a check found a problem."""
    machine = read_machine(cpu_only=arguments.cpu_only or None)
    environment = environment_lines(machine, arguments.profile, cpu_only=arguments.cpu_only)
    render.data(f"gpuforge {__version__}\n")
    render.data(machine_view.text(machine, cpu_only=arguments.cpu_only))
    if not arguments.cpu_only:
        render.data(f"health: {health(machine)}")
    for line in environment:
        render.data(line)
    render.data(f"next: {next_step(machine, arguments.profile, cpu_only=arguments.cpu_only)}")
    status = 1 if machine.status == "driver_error" else 0
    return max(status, _diagnose()) if arguments.diagnose else status


def health(machine: Machine) -> str:
    """Return the state of the GPUs and drivers in one line."""
    if machine.error:
        return f"{machine.error.vendor}: {machine.error.message}"
    if machine.failures:
        names = ", ".join(sorted({failure.vendor for failure in machine.failures}))
        return f"the listed GPUs work; the {names} driver could not be read"
    if machine.hidden and not machine.devices:
        return f"all GPUs are hidden by {', '.join(machine.visibility)}"
    return "no problem found" if machine.devices else "no GPU found; programs run on the CPU"


def environment_lines(machine: Machine, profile: str | None, *, cpu_only: bool) -> list[str]:
    """Return the recommended environment."""
    flags = _flags(profile, cpu_only=cpu_only)
    try:
        from gpuforge import environment

        if profile is not None:
            environment.plan(profile, machine=machine, cpu_only=cpu_only)
            return [f"environment: {profile} ('gpuforge env plan{flags}' lists its packages)"]
        name = environment.recommend(machine, cpu_only=cpu_only).profile.name
    except (GpuForgeError, ModuleNotFoundError) as error:  # `packaging` may be missing
        if profile is not None:
            raise
        return [f"environment: none recommended: {error}"]
    return [f"recommended environment: {name} ('gpuforge env plan{flags}' lists its packages)"]


def next_step(machine: Machine, profile: str | None = None, *, cpu_only: bool = False) -> str:
    """Return the most useful next command."""
    if machine.failures:
        return "run 'gpuforge doctor' to find out what is wrong and how to fix it"
    flags = _flags(profile, cpu_only=cpu_only)
    return f"run 'gpuforge env create{flags}' to create the environment"


def _flags(profile: str | None, *, cpu_only: bool) -> str:
    """Return the flags with which another command uses the same environment."""
    return f"{f' --profile {profile}' if profile else ''}{' --cpu-only' if cpu_only else ''}"


def _diagnose() -> int:
    """Run ``gpuforge doctor`` without flags."""
    from gpuforge.cli.argument_parser import ArgumentParser
    from gpuforge.cli.commands import doctor

    parser = ArgumentParser(prog="gpuforge doctor")
    doctor.add_arguments(parser)
    return int(doctor.run(parser.parse_args([])))
