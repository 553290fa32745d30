"""What gpuforge advises for a machine: the profile, the plan, the file. Changes nothing."""

from __future__ import annotations

import importlib
import platform as interpreter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from types import ModuleType
from typing import TypedDict, Unpack

from gpuforge import registry, settings
from gpuforge.compat.builds import FRAMEWORKS, Accelerator
from gpuforge.environment.fit import Fit, fit_profile
from gpuforge.environment.planning import Plan, Wish, plan_environment
from gpuforge.environment.profile import Profile, choose, folders, load_profiles
from gpuforge.environment.target import target_of
from gpuforge.errors import EnvironmentMismatch, UnknownName
from gpuforge.facts import Device, Machine, known

FORMATS = "gpuforge.environment.formats"


@dataclass(frozen=True)
class Recommendation:
    """The profile that suits a machine best, and the plan for it."""

    profile: Profile
    fit: Fit
    plan: Plan


def profiles() -> dict[str, Profile]:
    """Return all profiles by name: shipped, the user's, the project's."""
    return load_profiles(folders(settings.user_file().parent))


class How(TypedDict, total=False):
    """What may be said of a plan beside the profile and the framework.

    Attributes
    ----------
    accelerator : ``cuda``, ``rocm``, ``xpu``, ``metal`` or ``cpu``; by default the best that fits
    cpu_only : leave the GPUs out; by default as the settings say
    python, platform : such as ``"3.12"`` and ``"linux-64"``; by default those of this machine
    version : the framework version wanted; by default the newest that fits
    framework_index : ``default`` or an address instead of the framework's own index; by default as
        the settings say
    newer : newest releases by package, where an index was asked
    today : from which the age of the facts counts
    """

    accelerator: Accelerator | None
    cpu_only: bool
    python: str | None
    platform: str | None
    version: str
    framework_index: str
    newer: Mapping[str, str]
    today: date


def recommend(
    machine: Machine | None = None,
    *,
    profile: str | None = None,
    framework: str | None = None,
    **how: Unpack[How],
) -> Recommendation:
    """Return the best profile for a machine with its plan.

    Among profiles whose minimum is met, the best fit wins, and among equals the most demanding.

    Parameters
    ----------
    machine
        The facts to go by; this machine by default.
    profile
        The profile preferred; by default that of the settings, else the one that fits best.
    framework
        ``pytorch``, ``tensorflow`` or ``jax``; by default that of the settings, else the first of
        them that fits.
    **how
        The rest, as `How` says.

    Raises
    ------
    EnvironmentMismatch
        If the machine meets the minimum of no profile.
    """
    machine, how = machine or _this_machine(), _filled(how)
    chosen = settings.load().settings
    framework = framework or chosen.framework
    best, fit = _best(machine, profile or chosen.profile, cpu_only=how["cpu_only"])
    without = how["cpu_only"] or (fit.device == "CPU" and _measured(machine))
    how = {**how, "cpu_only": without}
    plans = []
    for name in (framework,) if framework else FRAMEWORKS:
        plans.append(plan(best, name, machine=machine, **how))
        if plans[-1].refusal is None and (plans[-1].accelerator != "cpu" or len(plans) == 1):
            return Recommendation(best, fit, plans[-1])
    # What one change would bring on the GPU is better advice than another framework on the CPU.
    helped = (p for p in plans if p.refusal and p.refusal.change)
    planned = next(helped, None) or next((p for p in plans if not p.refusal), plans[0])
    return Recommendation(best, fit, planned)


def _filled(how: How) -> How:
    """Return `how` with the settings where it says nothing."""
    if "cpu_only" in how and "framework_index" in how:
        return how
    chosen = settings.load().settings
    return {"cpu_only": chosen.cpu_only, "framework_index": chosen.framework_index, **how}


def _best(machine: Machine, wanted: str, *, cpu_only: bool) -> tuple[Profile, Fit]:
    there = profiles()
    fits = fit_all(machine, there, cpu_only=cpu_only)
    if wanted:
        return choose(there, wanted), fits[wanted]
    met = [p for p in there.values() if fits[p.name].met]
    if not met:
        raise EnvironmentMismatch("this machine has too little memory for all profiles")
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
        plan(bare, name, machine=machine, cpu_only=False, framework_index="").accelerator != "cpu"
        for name in FRAMEWORKS
    )


def plan(
    profile: str | Profile | None = None,
    framework: str | None = None,
    *,
    machine: Machine | None = None,
    **how: Unpack[How],
) -> Plan:
    """Return what would be installed for a profile, or why nothing would.

    Parameters
    ----------
    profile
        By default the recommended one.
    framework
        ``pytorch``, ``tensorflow`` or ``jax``; by default that of the settings, else the first or
        the recommended one.
    machine
        The facts to go by; this machine by default.
    **how
        The rest, as `How` says.
    """
    machine = machine or _this_machine()
    if profile is None:
        return recommend(machine, framework=framework, **how).plan
    how = _filled(how)
    target = target_of(
        machine,
        python=how.get("python"),
        platform=how.get("platform"),
        macos=interpreter.mac_ver()[0] or None,
    )
    wish = Wish(
        profile=choose(profiles(), profile) if isinstance(profile, str) else profile,
        framework=framework or settings.load().settings.framework or FRAMEWORKS[0],
        accelerator="cpu" if how["cpu_only"] else how.get("accelerator"),
        version=how.get("version", ""),
        framework_index=how["framework_index"],
    )
    day = how.get("today") or datetime.now(UTC).date()
    return plan_environment(machine, wish, target, today=day, newer=how.get("newer"))


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
    found.check()
    text: str = module.render(found)
    return text


def format_module(name: str) -> ModuleType:
    """Return the module of a format."""
    if name not in format_names():
        raise UnknownName.among("format", name, format_names())
    return importlib.import_module(f"{FORMATS}.{name}")


def limited(machine: Machine, limit_bytes: int) -> Machine:
    """Return the machine as if no GPU had more memory than the setting allows; 0 allows all."""

    def short(device: Device) -> Device:
        memory = known(device.memory_total_bytes)
        over = limit_bytes and memory is not None and memory > limit_bytes
        return replace(device, memory_total_bytes=limit_bytes) if over else device

    return replace(machine, devices=tuple(map(short, machine.devices)))


def _this_machine() -> Machine:
    from gpuforge.detect import read_machine

    return limited(read_machine(), settings.load().settings.memory_limit)
