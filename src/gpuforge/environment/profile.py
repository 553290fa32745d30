"""Environment profiles: named sets of packages, one TOML file each.

The shipped ones are in ``profiles/``. Users can add, override and extend them in the configuration
folder (``gpuforge/profiles``) or in a project (``.gpuforge/profiles``).
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from gpuforge.compat.builds import ACCELERATORS, FRAMEWORKS
from gpuforge.environment.requirement import Requirement, parse_requirement
from gpuforge.errors import InvalidSettings, UnknownName, suggestion
from gpuforge.log import logger

PROJECT_FOLDER = Path(".gpuforge") / "profiles"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_SYSTEM_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,60}", re.ASCII)


@dataclass(frozen=True)
class Profile:
    """A set of packages and its needs.

    Attributes
    ----------
    minimum_memory_gb : minimum memory of the device, in GB (10**9 bytes)
    cpu_fit : 0-100, how well it suits a machine without a GPU
    pinned : whether each package has a fixed version
    packages : packages for every framework
    frameworks, accelerators : further packages, by framework and by accelerator
    system : system packages that a container image needs, by package manager (``apt``)
    origin : the file that it was read from, or ``gpuforge``
    """

    name: str
    summary: str = ""
    optimises_for: str = ""
    minimum_memory_gb: float = 0
    cpu_fit: int = 50
    pinned: bool = False
    packages: tuple[Requirement, ...] = ()
    frameworks: Mapping[str, tuple[Requirement, ...]] = field(default_factory=dict)
    accelerators: Mapping[str, tuple[Requirement, ...]] = field(default_factory=dict)
    system: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    origin: str = "gpuforge"

    def wanted(self, framework: str, accelerator: str) -> tuple[Requirement, ...]:
        """Return all packages for a framework and an accelerator; later requirements override."""
        merged: dict[str, Requirement] = {}
        for group in (
            self.frameworks.get(framework, ()),
            self.packages,
            self.accelerators.get(accelerator, ()),
        ):
            merged.update({requirement.key: requirement for requirement in group})
        return tuple(merged.values())


_KEYS = ("extends", *(f.name for f in fields(Profile) if f.name not in ("name", "origin")))


def folders(config: Path, start: Path | None = None) -> tuple[Path, ...]:
    """Return the folders of users' profiles, in ascending order of precedence.

    A project's folder is searched from `start`, by default the current folder, upwards.
    """
    try:
        start = start or Path.cwd()
    except OSError:  # the current folder was removed
        return (config / "profiles",)
    for parent in (start, *start.parents):
        if os.path.isdir(parent / PROJECT_FOLDER):
            return (config / "profiles", parent / PROJECT_FOLDER)
    return (config / "profiles",)


def _files_in(folder: Path) -> list[Path]:
    """Return the sorted profile files in a folder; none if it is missing or unreadable."""
    try:
        return sorted(folder / name for name in os.listdir(folder) if name.endswith(".toml"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        logger("environment").warning("the profiles in %s are not used: %s", folder, error)
        return []


def load_profiles(where: Iterable[Path] = ()) -> dict[str, Profile]:
    """Return all profiles by name, those of `where` overriding the shipped ones.

    Raises
    ------
    InvalidSettings
        If a file is not a profile; the message names the file and the key.
    """
    shipped = Path(__file__).with_name("profiles")
    tables: dict[str, tuple[dict[str, Any], str]] = {}
    for folder in (shipped, *where):
        for path in _files_in(folder):
            origin = "gpuforge" if folder == shipped else str(path)
            tables[path.stem] = _read(path.stem, _text(path), origin, tables)
    return {name: parse_profile(name, *tables[name], tables) for name in sorted(tables)}


@cache
def shipped_names() -> frozenset[str]:
    """Return the normalised names of all packages in shipped profiles."""
    return frozenset(
        requirement.key
        for profile in load_profiles().values()
        for group in (
            profile.packages,
            *profile.frameworks.values(),
            *profile.accelerators.values(),
        )
        for requirement in group
    )


def choose(profiles: Mapping[str, Profile], name: str) -> Profile:
    """Return the profile `name`; raise `UnknownName` with the most similar name as its hint."""
    if name not in profiles:
        raise UnknownName.among("profile", name, profiles)
    return profiles[name]


Tables = Mapping[str, tuple[dict[str, Any], str]]


def parse_profile(name: str, table: dict[str, Any], origin: str, known: Tables) -> Profile:
    """Return the profile that a TOML table defines, merged with the profiles that it extends."""
    if not _NAME.fullmatch(name):
        raise InvalidSettings(
            f"{origin}: {name!r} is not a valid profile name",
            hint="use lower-case letters, digits and underscores, starting with a letter",
        )
    merged = _extended(name, table, origin, known, ())
    where = f"profile {name} ({origin})"
    return Profile(
        name=name,
        summary=_line(merged, "summary", where),
        optimises_for=_line(merged, "optimises_for", where),
        minimum_memory_gb=_number(merged, "minimum_memory_gb", where, 0, 10_000),
        cpu_fit=int(_number(merged, "cpu_fit", where, 50, 100)),
        pinned=merged.get("pinned") is True,
        packages=_requirements(merged.get("packages", []), f"{where}, packages"),
        frameworks=_groups(merged, "frameworks", FRAMEWORKS, where),
        accelerators=_groups(merged, "accelerators", ACCELERATORS, where),
        system={
            installer: _system_packages(names, f"{where}, system.{installer}")
            for installer, names in _table(merged, "system", where).items()
        },
        origin=origin,
    )


def _extended(
    name: str, table: dict[str, Any], origin: str, known: Tables, seen: tuple[str, ...]
) -> dict[str, Any]:
    """Return `table` merged into the one that it extends; lists of packages are concatenated."""
    base_name = table.get("extends")
    if base_name is None:
        return table
    if base_name in seen or base_name == name:
        raise InvalidSettings(
            f"{origin}: profiles extend each other in a cycle: {' -> '.join((*seen, base_name))}"
        )
    if base_name not in known:
        raise InvalidSettings(
            f"{origin}: extends {base_name!r}, which does not exist",
            hint=suggestion(str(base_name), sorted(known)),
        )
    base = _extended(base_name, *known[base_name], known, (*seen, name))
    return _merge(base, {key: value for key, value in table.items() if key != "extends"})


def _merge(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in top.items():
        below = merged.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            merged[key] = _merge(below, value)
        elif isinstance(value, list) and isinstance(below, list):
            merged[key] = [*below, *value]
        else:
            merged[key] = value
    return merged


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"{path} cannot be read: {error}") from None


def _read(name: str, text: str, origin: str, below: Tables) -> tuple[dict[str, Any], str]:
    """Return the TOML table of a profile after checking its keys, and its origin."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidSettings(f"{origin}: not valid TOML: {error}") from None
    for key in table:
        if key not in _KEYS:
            raise InvalidSettings(f"{origin}: unknown key {key!r}", hint=suggestion(key, _KEYS))
    if table.get("extends") == name and name in below:
        # An override that extends the profile of the same name.
        return _merge(below[name][0], {k: v for k, v in table.items() if k != "extends"}), origin
    return table, origin


def _table(merged: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    found = merged.get(key, {})
    if not isinstance(found, dict):
        raise InvalidSettings(f"{where}: {key} is not a table", hint=f"write [{key}.NAME]")
    return found


def _groups(
    merged: dict[str, Any], key: str, known: tuple[str, ...], where: str
) -> dict[str, tuple[Requirement, ...]]:
    groups = {}
    for name, group in _table(merged, key, where).items():
        if name not in known:
            raise InvalidSettings(
                f"{where}: unknown name {key}.{name}", hint=suggestion(name, known)
            )
        if not isinstance(group, dict) or set(group) - {"packages"}:
            raise InvalidSettings(
                f"{where}: {key}.{name} may only contain 'packages'", hint="write packages = [...]"
            )
        groups[name] = _requirements(group.get("packages", []), f"{where}, {key}.{name}")
    return groups


def _requirements(value: Any, where: str) -> tuple[Requirement, ...]:
    if not isinstance(value, list):
        raise InvalidSettings(f"{where} is not a list", hint='write packages = ["numpy"]')
    return tuple(parse_requirement(item, where=where) for item in value)


def _system_packages(value: Any, where: str) -> tuple[str, ...]:
    valid = isinstance(value, list) and all(
        isinstance(item, str) and _SYSTEM_PACKAGE.fullmatch(item) for item in value
    )
    if not valid:
        raise InvalidSettings(f"{where}: {value!r} is not a list of package names")
    return tuple(value)


def _line(merged: dict[str, Any], key: str, where: str) -> str:
    value = merged.get(key, "")
    if not isinstance(value, str) or not value.isprintable():
        raise InvalidSettings(f"{where}: {key} is not a single line of text")
    return value


def _number(
    merged: dict[str, Any], key: str, where: str, default: float, most: float = 10_000
) -> float:
    value = merged.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise InvalidSettings(f"{where}: {key} = {value!r} is not a number from 0 to {most:g}")
    return float(value)
