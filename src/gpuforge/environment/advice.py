"""What gpuforge advises for a machine: the profile, the plan, the file. Changes nothing."""

from __future__ import annotations

import importlib
import platform as interpreter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from types import ModuleType

from gpuforge import registry
from gpuforge.compat.builds import FRAMEWORKS, Accelerator
from gpuforge.environment.fit import Fit, fit_profile
from gpuforge.environment.planning import Plan, Wish, plan_environment
from gpuforge.environment.profile import Profile, choose, folders, load_profiles
from gpuforge.environment.target import target_of
from gpuforge.errors import EnvironmentMismatch, UnknownName
from gpuforge.facts import Machine, known
from gpuforge.settings import user_file

FORMATS = "gpuforge.environment.formats"


@dataclass(frozen=True)
class Recommendation:
    """The profile that suits a machine best, and the plan for it."""

    profile: Profile
    fit: Fit
    plan: Plan


def profiles(start: Path | None = None) -> dict[str, Profile]:
    """Return all profiles by name: shipped, the user's, the project's at `start`."""
    return load_profiles(folders(user_file().parent, start or Path.cwd()))


def recommend(
    machine: Machine | None = None,
    *,
    profile: str = "",
    framework: str | None = None,
    cpu_only: bool = False,
    python: str | None = None,
    platform: str | None = None,
) -> Recommendation:
    """Return the best profile for a machine with its plan.

    Among profiles whose minimum is met, the best fit wins, and among equals the most demanding.

    Parameters
    ----------
    machine
        The facts to go by; this machine by default.
    profile
        The profile preferred; by default the one that fits best.
    framework
        ``pytorch``, ``tensorflow`` or ``jax``; by default the first of them that fits.

    Raises
    ------
    EnvironmentMismatch
        If the machine meets the minimum of no profile.
    """
    machine = machine or _this_machine()
    best, fit = _best(machine, profile, cpu_only=cpu_only)
    first, *others = (
        partial(
            plan,
            best,
            name,
            machine=machine,
            cpu_only=cpu_only or (fit.device == "CPU" and _measured(machine)),
            python=python,
            platform=platform,
        )
        for name in ((framework,) if framework else FRAMEWORKS)
    )
    planned = first()
    if planned.refusal is not None:
        rest = (other() for other in others)
        planned = next((found for found in rest if found.refusal is None), planned)
    return Recommendation(best, fit, planned)


def _best(machine: Machine, wanted: str, *, cpu_only: bool) -> tuple[Profile, Fit]:
    there = profiles()
    fits = fit_all(machine, there, cpu_only=cpu_only)
    if wanted:
        return choose(there, wanted), fits[wanted]
    met = [p for p in there.values() if fits[p.name].met]
    if not met:
        raise EnvironmentMismatch("this machine meets the minimum memory of no profile")
    best = min(met, key=lambda p: (-fits[p.name].score, -p.minimum_memory_gb, p.name))
    return best, fits[best.name]


def _measured(machine: Machine) -> bool:
    """Return whether there are GPUs and the memory of each is known: then too little it is."""
    memory = [known(device.memory_total_bytes) for device in machine.devices]
    return bool(memory) and None not in memory


def fit_all(
    machine: Machine, there: Mapping[str, Profile], *, cpu_only: bool = False
) -> dict[str, Fit]:
    """Return the fit of every profile; a GPU that no framework can use counts for nothing."""
    without = cpu_only or not _usable(machine)
    return {name: fit_profile(machine, found, cpu_only=without) for name, found in there.items()}


def _usable(machine: Machine) -> bool:
    """Return whether some framework runs on a GPU of the machine, or would after one change."""
    bare = Profile("bare")
    return bool(machine.devices) and any(
        plan(bare, framework, machine=machine).accelerator != "cpu" for framework in FRAMEWORKS
    )


def plan(
    profile: str | Profile = "lightweight",
    framework: str = "pytorch",
    *,
    machine: Machine | None = None,
    accelerator: Accelerator | None = None,
    cpu_only: bool = False,
    python: str | None = None,
    platform: str | None = None,
    version: str = "",
    framework_index: str = "",
    newer: Mapping[str, str] | None = None,
    today: date | None = None,
) -> Plan:
    """Return what would be installed for a profile, or why nothing would.

    Parameters
    ----------
    machine
        The facts to go by; this machine by default.
    accelerator
        ``cuda``, ``rocm``, ``xpu``, ``metal`` or ``cpu``; by default the best that fits.
    python, platform
        Such as ``"3.12"`` and ``"linux-64"``; by default those of this machine.
    version
        The framework version wanted; by default the newest that fits.
    framework_index
        ``default`` or an address, instead of the framework's own index.
    """
    machine = machine or _this_machine()
    chosen = choose(profiles(), profile) if isinstance(profile, str) else profile
    target = target_of(
        machine, python=python, platform=platform, macos=interpreter.mac_ver()[0] or None
    )
    wish = Wish(
        profile=chosen,
        framework=framework,
        accelerator="cpu" if cpu_only else accelerator,
        version=version,
        framework_index=framework_index,
    )
    day = today or datetime.now(UTC).date()
    return plan_environment(machine, wish, target, today=day, newer=newer)


def format_names() -> tuple[str, ...]:
    """Return the names of the formats that plans are exported in."""
    return registry.names(FORMATS)


def export(found: Plan, format: str = "requirements") -> str:  # noqa: A002 - the flag's name
    """Return a plan as the text of a file.

    Raises
    ------
    UnknownName
        If there is no such format.
    EnvironmentMismatch
        If the plan is refused; the hint is the change that would help.
    PlanRefused
        If the format cannot express the plan.
    """
    module = format_module(format)
    if found.refusal is not None:
        change = found.refusal.change
        raise EnvironmentMismatch(found.refusal.reason, hint=str(change) if change else "")
    text: str = module.render(found)
    return text


def format_module(name: str) -> ModuleType:
    """Return the module of a format."""
    if name not in format_names():
        raise UnknownName.among("format", name, format_names())
    return importlib.import_module(f"{FORMATS}.{name}")


def _this_machine() -> Machine:
    from gpuforge.detect import read_machine

    return read_machine()
