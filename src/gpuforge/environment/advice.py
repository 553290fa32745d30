"""Advice for a machine: the best profile, its plan, and the plan as a file. Changes nothing."""

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
    """Return all profiles by name: those of gpuforge, of the user and of the project."""
    return load_profiles(folders(settings.user_file().parent))


class How(TypedDict, total=False):
    """Options of a plan besides the profile and the framework.

    Attributes
    ----------
    accelerator : ``cuda``, ``rocm``, ``xpu``, ``metal`` or ``cpu``; by default the best that works
    cpu_only : ignore the GPUs; defaults to the setting
    python, platform : such as ``"3.12"`` and ``"linux-64"``; by default those of this machine
    version : the framework version; by default the newest that works
    framework_index : ``default`` or a URL, to be used instead of the framework's own index;
        defaults to the setting
    newer : the newest release of each package, if an index was queried for them
    today : the date from which the age of the compatibility facts is counted
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
    """Return the best profile for a machine, and its plan.

    Of the profiles whose minimum memory is met, the best fit wins, then the most demanding one.

    Parameters
    ----------
    machine
        The machine to plan for; this machine by default.
    profile
        The name of a profile; by default that of the settings, else the one that fits best.
    framework
        ``pytorch``, ``tensorflow`` or ``jax``; by default that of the settings, else the first of
        them that works on the machine.
    **how
        Other options, see `How`.

    Raises
    ------
    EnvironmentMismatch
        If the machine does not meet the minimum memory of any profile.
    """
    machine, how = machine or _this_machine(), _filled(how)
    chosen = settings.load().settings
    framework = framework or chosen.framework
    best, fit = _best(machine, profile or chosen.profile, how)
    without = how["cpu_only"] or (fit.device == "CPU" and _measured(machine))
    how = {**how, "cpu_only": without}
    plans = []
    for name in (framework,) if framework else FRAMEWORKS:
        plans.append(plan(best, name, machine=machine, **how))
        if plans[-1].refusal is None and (plans[-1].accelerator != "cpu" or len(plans) == 1):
            return Recommendation(best, fit, plans[-1])
    # One change that enables the GPU is better advice than another framework on the CPU.
    helped = (p for p in plans if p.refusal and p.refusal.change)
    planned = next(helped, None) or next((p for p in plans if not p.refusal), plans[0])
    return Recommendation(best, fit, planned)


def _filled(how: How) -> How:
    """Return `how` with missing options taken from the settings."""
    if "cpu_only" in how and "framework_index" in how:
        return how
    chosen = settings.load().settings
    return {"cpu_only": chosen.cpu_only, "framework_index": chosen.framework_index, **how}


def _best(machine: Machine, wanted: str, how: How) -> tuple[Profile, Fit]:
    there = profiles()
    python, platform = how.get("python"), how.get("platform")
    fits = fit_all(machine, there, cpu_only=how["cpu_only"], python=python, platform=platform)
    if wanted:
        return choose(there, wanted), fits[wanted]
    met = [p for p in there.values() if fits[p.name].met]
    if not met:
        raise EnvironmentMismatch("this machine has too little memory for all profiles")
    best = min(met, key=lambda p: (-fits[p.name].score, -p.minimum_memory_gb, p.name))
    return best, fits[best.name]


def _measured(machine: Machine) -> bool:
    """Return whether there are GPUs and their memory is known, so that it really is too small."""
    memory = [known(device.memory_total_bytes) for device in machine.devices]
    return bool(memory) and None not in memory


def fit_all(
    machine: Machine, there: Mapping[str, Profile], *, cpu_only: bool = False,
    python: str | None = None, platform: str | None = None,
) -> dict[str, Fit]:  # fmt: skip
    """Return the fit of every profile; GPUs are ignored if no framework can use any of them."""
    without = cpu_only or not _usable(machine, python, platform)
    return {name: fit_profile(machine, found, cpu_only=without) for name, found in there.items()}


def _usable(machine: Machine, python: str | None, platform: str | None) -> bool:
    """Return whether any framework runs on a GPU of the machine, or would after one change."""
    how = How(cpu_only=False, framework_index="", python=python, platform=platform)
    plans = (plan(Profile("bare"), name, machine=machine, **how) for name in FRAMEWORKS)
    return bool(machine.devices) and any(one.accelerator != "cpu" for one in plans)


def plan(
    profile: str | Profile | None = None,
    framework: str | None = None,
    *,
    machine: Machine | None = None,
    **how: Unpack[How],
) -> Plan:
    """Return the plan for a profile: what would be installed, or why nothing can be.

    Parameters
    ----------
    profile
        A profile or its name; by default the recommended one.
    framework
        ``pytorch``, ``tensorflow`` or ``jax``; by default that of the settings, else PyTorch or,
        without `profile`, the recommended one.
    machine
        The machine to plan for; this machine by default.
    **how
        Other options, see `How`.
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
    """Return the names of the formats to which plans can be exported."""
    return registry.names(FORMATS)


def export(found: Plan, format: str = "requirements") -> str:  # noqa: A002 - the flag's name
    """Return a plan as the text of a file in some format.

    Raises
    ------
    UnknownName
        If there is no such format.
    EnvironmentMismatch
        If the plan is a refusal; the hint says which change would help.
    PlanRefused
        If the format cannot express the plan.
    """
    module = format_module(format)
    found.check()
    text: str = module.render(found)
    return text


def format_module(name: str) -> ModuleType:
    """Return the module that renders a format."""
    if name not in format_names():
        raise UnknownName.among("format", name, format_names())
    return importlib.import_module(f"{FORMATS}.{name}")


def limited(machine: Machine, limit_bytes: int) -> Machine:
    """Return the machine with the memory of each GPU capped at `limit_bytes`; 0 means no limit."""

    def short(device: Device) -> Device:
        memory = known(device.memory_total_bytes)
        over = limit_bytes and memory is not None and memory > limit_bytes
        return replace(device, memory_total_bytes=limit_bytes) if over else device

    return replace(machine, devices=tuple(map(short, machine.devices)))


def _this_machine() -> Machine:
    from gpuforge.detect import read_machine

    return limited(read_machine(), settings.load().settings.memory_limit)
