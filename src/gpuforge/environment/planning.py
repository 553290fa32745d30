"""Planning an environment: a pure function from machine facts, a profile and a target to a plan.

Every choice has a reason. What would not work is replaced, with a warning, or the plan is refused
together with the single change that would help most.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from typing import Any

from gpuforge.compat.builds import (
    ACCELERATORS,
    FRAMEWORKS,
    PACKAGE,
    Accelerator,
    Build,
    builds_for,
    releases,
)
from gpuforge.compat.tables import checked
from gpuforge.compat.versions import parse_version
from gpuforge.environment.companions import Package, gather
from gpuforge.environment.obstacles import device_name
from gpuforge.environment.profile import Profile
from gpuforge.environment.selection import (
    ACCELERATOR_OF,
    Change,
    Refusal,
    Selection,
    accelerators_of,
    devices_for,
    select,
)
from gpuforge.environment.target import Target
from gpuforge.errors import EnvironmentMismatch, InvalidSettings, UnknownName
from gpuforge.facts import Machine

MAXIMUM_AGE_DAYS = 120
_INDEX = re.compile(r"default|(?:https?|file)://[A-Za-z0-9._~:/?#@!$&()*+,;=%-]+", re.ASCII)
_TABLES = {"cuda": ("cuda", "nvidia"), "rocm": ("rocm",), "xpu": ("intel",)}


@dataclass(frozen=True)
class Wish:
    """What the user asked for.

    Attributes
    ----------
    accelerator : None for the best one of the machine
    version : version of the framework; empty for the newest that works
    framework_index : empty for the framework's own index where a build needs it, ``default`` for
        the default index, or a URL that replaces the framework's own index
    """

    profile: Profile
    framework: str = "pytorch"
    accelerator: Accelerator | None = None
    version: str = ""
    framework_index: str = ""


@dataclass(frozen=True)
class Plan:
    """What would be installed and why, or why nothing can be.

    Attributes
    ----------
    build : the build of the framework; None for a refusal
    packages : the packages, framework first
    devices : names of the devices, best first
    refusal : why nothing is planned; an environment for the CPU may still be possible
    checked : the date on which the oldest facts used were checked
    """

    profile: str
    framework: str
    accelerator: str
    target: Target
    build: Build | None = None
    packages: tuple[Package, ...] = ()
    devices: tuple[str, ...] = ()
    refusal: Refusal | None = None
    warnings: tuple[str, ...] = ()
    system: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    checked: date = date.min

    @property
    def title(self) -> str:
        """A title line for exported files."""
        return f"gpuforge: {self.profile}, {self.framework} for {self.accelerator}"

    @property
    def name(self) -> str:
        """The name of an exported project or environment."""
        return f"{self.profile}-{self.framework}".replace("_", "-")

    def check(self) -> None:
        """Raise `EnvironmentMismatch` for a refusal; its hint says what would help."""
        if self.refusal is not None:
            change = str(self.refusal.change) if self.refusal.change else ""
            offer = "or add --cpu-only" if self.accelerator != "cpu" else ""
            hint = "; ".join(filter(None, (change, offer)))
            raise EnvironmentMismatch(self.refusal.reason, hint=hint)

    @property
    def indexes(self) -> tuple[str, ...]:
        """The URLs of the indexes, besides the default one, that packages come from."""
        return tuple(dict.fromkeys(p.index for p in self.packages if p.index))

    @property
    def virtual_packages(self) -> dict[str, str]:
        """The system requirements as conda's virtual packages: ``{"__cuda": "13.0"}``."""
        if self.build is None:
            return {}
        found = {}
        if self.build.cuda_major:
            found["__cuda"] = f"{self.build.cuda_major}.0"
        if self.target.platform.startswith("linux"):
            found["__glibc"] = self.build.glibc_min
        elif self.target.platform.startswith("osx"):
            found["__osx"] = self.build.macos_min
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain values for JSON."""
        refusal = self.refusal
        change = refusal.change if refusal else None
        return {
            "profile": self.profile,
            "framework": self.framework,
            "framework_version": self.build.version if self.build else None,
            "accelerator": self.accelerator,
            "variant": self.build.variant if self.build else None,
            "cuda_major": self.build.cuda_major if self.build else None,
            "platform": self.target.platform,
            "python": self.target.python,
            "devices": list(self.devices),
            "packages": [
                {"requirement": p.requirement, "index": p.index or None, "reason": p.reason}
                for p in self.packages
            ],
            "virtual_packages": self.virtual_packages,
            "refusal": {
                "reason": refusal.reason,
                "change": {"kind": change.kind, "need": change.need, "text": str(change)}
                if change
                else None,
                "offer": "cpu" if self.accelerator != "cpu" else None,
            }
            if refusal
            else None,
            "warnings": list(self.warnings),
            "facts_checked": self.checked.isoformat(),
        }


def plan_environment(
    machine: Machine,
    wish: Wish,
    target: Target,
    *,
    today: date,
    newer: Mapping[str, str] | None = None,
) -> Plan:
    """Return the plan for `wish` on `machine`. Pure: reads nothing, changes nothing.

    Parameters
    ----------
    today
        The date from which the age of the facts is counted.
    newer
        The newest release of each package, if an index was queried for them.

    Raises
    ------
    UnknownName
        If the framework or the accelerator is unknown.
    InvalidSettings
        If the framework index is neither ``default`` nor a URL.
    """
    _check(wish)
    wish = replace(wish, version=wish.version or _version_in_profile(wish))
    accelerator, found, warnings = _choose_accelerator(machine, wish, target)
    base = Plan(
        profile=wish.profile.name,
        framework=wish.framework,
        accelerator=accelerator,
        target=target,
        system=wish.profile.system,
        checked=checked(wish.framework, "companions", *_TABLES.get(accelerator, ())),
    )
    base = replace(base, warnings=(*warnings, *target.assumed, *_age(base, today, newer or {})))
    if isinstance(found, Refusal):
        return replace(base, refusal=found)
    return _complete(base, wish, found, target)


def _check(wish: Wish) -> None:
    if wish.framework not in FRAMEWORKS:
        raise UnknownName.among("framework", wish.framework, FRAMEWORKS)
    if wish.accelerator is not None and wish.accelerator not in ACCELERATORS:
        raise UnknownName.among("accelerator", wish.accelerator, ACCELERATORS)
    if wish.framework_index and not _INDEX.fullmatch(wish.framework_index):
        raise InvalidSettings(
            f"{wish.framework_index!r} is not a package index",
            hint="use 'default' or an https address",
        )


def _complete(base: Plan, wish: Wish, found: Selection, target: Target) -> Plan:
    wanted = wish.profile.wanted(wish.framework, found.build.accelerator)
    build = _from_index(found.build, wish.framework_index)
    found = replace(found, build=build)
    gathered = gather([r for r in wanted if not _is_pin(r, wish)], found, target)
    if isinstance(gathered, Refusal):
        return replace(base, refusal=gathered)
    place = f"from {build.index or 'the default index'}"
    first = Package(build.requirement, f"{found.reason}; {place}", build.index)
    return replace(
        base,
        build=build,
        packages=(first, *gathered.packages),
        devices=tuple(device_name(device) for device in found.devices),
        warnings=(*base.warnings, *found.warnings, *gathered.warnings),
    )


def _from_index(build: Build, framework_index: str) -> Build:
    if not build.index or not framework_index:
        return build
    return replace(build, index="" if framework_index == "default" else framework_index)


def _is_pin(requirement: object, wish: Wish) -> bool:
    """Return whether a requirement is the framework itself, whose version the build determines."""
    text = str(requirement)
    return text == PACKAGE[wish.framework] or text.startswith(f"{PACKAGE[wish.framework]}==")


def _version_in_profile(wish: Wish) -> str:
    for requirement in wish.profile.wanted(wish.framework, wish.accelerator or ""):
        if requirement.key == PACKAGE[wish.framework] and requirement.versions.startswith("=="):
            return requirement.versions.lstrip("=")
    return ""


def _choose_accelerator(
    machine: Machine, wish: Wish, target: Target
) -> tuple[str, Selection | Refusal, list[str]]:
    """Return the accelerator, the selection for it, and warnings about rejected accelerators."""
    found: Selection | Refusal
    chosen = partial(select, default_index=wish.framework_index == "default")
    if wish.accelerator is not None:
        devices = devices_for(machine, wish.accelerator)
        found = chosen(wish.framework, wish.accelerator, devices, target, wish.version)
        if isinstance(found, Refusal) and wish.accelerator != "cpu" and not devices:
            unread = _unreadable_gpu(machine, (wish.accelerator,), wish, target)
            found = unread[1] if unread else found
        return wish.accelerator, found, []
    refused: dict[Accelerator, Refusal] = {}
    for accelerator in accelerators_of(machine):
        devices = devices_for(machine, accelerator)
        found = chosen(wish.framework, accelerator, devices, target, wish.version)
        if isinstance(found, Selection):
            return accelerator, found, [f"not {a}: {r.reason}" for a, r in refused.items()]
        refused[accelerator] = found
    for accelerator, refusal in refused.items():
        if refusal.change is not None:
            return accelerator, refusal, []
    unread = _unreadable_gpu(machine, ACCELERATORS, wish, target) if not machine.devices else None
    if unread is not None:
        return unread[0], unread[1], []
    found = chosen(wish.framework, "cpu", (), target, wish.version)
    if isinstance(found, Refusal):
        return "cpu", found, []
    unused = [f"the plan is for the CPU, not for {a}: {r.reason}" for a, r in refused.items()]
    if not machine.devices and machine.status == "driver_error":
        unused += [
            f"the {failure.vendor} GPU could not be read, and {wish.framework} has no build for it"
            for failure in machine.failures
        ]
    return "cpu", found, unused


def _unreadable_gpu(
    machine: Machine, accelerators: tuple[Accelerator, ...], wish: Wish, target: Target
) -> tuple[str, Refusal] | None:
    """Return an accelerator and a refusal if a GPU may be present but could not be read.

    If the framework has no build for such a GPU, reading it would not help, and None is returned.
    """
    for failure in machine.failures if machine.status == "driver_error" else ():
        own = ACCELERATOR_OF.get(failure.vendor)
        if own in accelerators and builds_for(wish.framework, own, target.platform):
            change = Change("repair", "gpuforge doctor", "")
            reason = f"the {failure.vendor} GPU could not be read: {failure.message}"
            return own, Refusal(reason, change)
    return None


def _age(plan: Plan, today: date, newer: Mapping[str, str]) -> list[str]:
    found = []
    days = (today - plan.checked).days
    if days > MAXIMUM_AGE_DAYS:
        found.append(
            f"the list of known builds is {days} days old: "
            "run 'gpuforge env refresh' to look for newer releases"
        )

    newest, package = releases(plan.framework)[0], PACKAGE[plan.framework]
    there = newer.get(package, newest)
    if parse_version(there) > parse_version(newest):
        found.append(
            f"{package} {there} is available, but gpuforge knows builds only up to {newest}"
        )
    return found
