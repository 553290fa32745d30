"""``gpuforge`` alone: the machine, its health in one line, its environment, what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuforge import __version__
from gpuforge.cli import machine_view, render
from gpuforge.detect import read_machine
from gpuforge.errors import GpuForgeError
from gpuforge.facts import Machine

if TYPE_CHECKING:
    from gpuforge.cli.main import ArgumentParser


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the flags of the bare command."""
    parser.add_argument("--cpu-only", action="store_true", help="leave the GPUs out")
    parser.add_argument("--diagnose", action="store_true", help="run every check of 'doctor' too")
    parser.add_argument("--profile", metavar="NAME", help="the environment profile to plan for")


def run(arguments: Any) -> int:
    """Show the machine; return 1 where a driver fails or a check found a problem."""
    machine = read_machine(cpu_only=arguments.cpu_only or None)
    environment = environment_lines(machine, arguments.profile, cpu_only=arguments.cpu_only)
    render.data(f"gpuforge {__version__}\n")
    render.data(machine_view.text(machine, cpu_only=arguments.cpu_only))
    if not arguments.cpu_only:
        render.data(f"health: {health(machine)}")
    for line in environment:
        render.data(line)
    render.data(f"next: {next_step(machine)}")
    status = 1 if machine.status == "driver_error" else 0
    return max(status, _diagnose()) if arguments.diagnose else status


def health(machine: Machine) -> str:
    """Return the state of the GPUs and drivers in one line."""
    if machine.error:
        return f"{machine.error.vendor}: {machine.error.message}"
    if machine.failures:
        names = ", ".join(sorted({failure.vendor for failure in machine.failures}))
        return f"works, but reading {names} failed"
    if machine.hidden and not machine.devices:
        return "every GPU is hidden by a variable"
    return "no problem seen" if machine.devices else "no GPU: work stays on the CPU"


def environment_lines(machine: Machine, profile: str | None, *, cpu_only: bool) -> list[str]:
    """Return the recommended environment."""
    from gpuforge import environment

    if profile is not None:
        environment.plan(profile, machine=machine, cpu_only=cpu_only)  # a wrong name is an error
        return [f"environment: {profile}, as asked ('gpuforge env plan --profile {profile}')"]
    try:
        found = environment.recommend(machine, cpu_only=cpu_only)
    except GpuForgeError as error:
        return [f"environment: none: {error}"]
    return [f"environment: {found.profile.name} ('gpuforge env plan' shows what is in it)"]


def next_step(machine: Machine) -> str:
    """Return the command that helps most now."""
    if machine.failures:
        return "'gpuforge doctor' says what is wrong and how to mend it"
    return "'gpuforge env create' makes the environment, 'gpuforge run' runs a program in it"


def _diagnose() -> int:
    """Run ``gpuforge doctor`` as it is without flags."""
    from gpuforge.cli.commands import doctor
    from gpuforge.cli.main import ArgumentParser

    parser = ArgumentParser(prog="gpuforge doctor")
    doctor.add_arguments(parser)
    return int(doctor.run(parser.parse_args([])))
