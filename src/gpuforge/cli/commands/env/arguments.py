"""The flags of each ``env`` subcommand, and the settings and plans that they result in."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gpuforge import settings
from gpuforge.environment import advice
from gpuforge.environment.advice import How
from gpuforge.environment.planning import Plan
from gpuforge.environment.refresh import newest_releases
from gpuforge.facts import Machine

_INSTALLING = "create fetch switch"
_ASKING_INDEXES = (*_INSTALLING.split(), "refresh")
_PLANNED = f"recommend plan export {_INSTALLING}"
_INSTALLER = "installer (default: uv if it is installed, else pip)"
_ON = {"action": "store_true"}
# One row per flag: the subcommands that accept it, its names, argparse options, and its help.
_FLAGS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("show new edit", "name", {"metavar": "NAME"}, "name of the profile"),
    (f"{_PLANNED} list", "--cpu-only", _ON, "plan for the CPU"),
    ("list recommend plan export", "--snapshot", {"metavar": "DIR"},
     "plan for a recorded machine instead of this one"),
    ("plan export create fetch", "--profile", {"metavar": "NAME"},
     "profile (default: the recommended one)"),
    ("recommend plan export create fetch", "--framework", {}, "pytorch, tensorflow or jax"),
    ("switch", "--framework", {"required": True}, "pytorch, tensorflow or jax"),
    (_PLANNED, "--framework-version", {"default": "", "metavar": "VERSION"},
     "release of the framework (default: the newest that works here)"),
    (_PLANNED, "--framework-index", {"default": "", "metavar": "URL|default"},
     "index for the framework, or 'default' for the default package index"),
    (_PLANNED, "--python", {"metavar": "VERSION"}, "Python version, such as 3.12"),
    ("recommend plan export", "--platform", {}, "linux-64, linux-aarch64, osx-arm64 or win-64"),
    ("create switch", "--path", {"type": Path, "metavar": "DIR", "default": Path(".venv")},
     "folder of the environment (default: .venv)"),
    ("verify", "--path", {"type": Path, "metavar": "DIR"},
     "folder of the environment (default: the active one, else .venv)"),
    (_INSTALLING, "--index", {"default": "", "metavar": "URL"},
     "package index to use instead of the default one"),
    (_INSTALLING, "--find-links", {"action": "append", "default": [], "metavar": "DIR|URL"},
     "folder or page with wheels to use as well"),
    ("create switch", "--installer --format",
     {"choices": ["uv", "pip", "conda", "mamba", "micromamba", "pixi"], "default": ""}, _INSTALLER),
    ("fetch", "--installer --format", {"choices": ["uv", "pip"], "default": ""}, _INSTALLER),
    (_INSTALLING, "--wheelhouse", {"type": Path, "metavar": "DIR"},
     "folder for downloaded packages"),
    ("create switch", "--channel", {"action": "append", "metavar": "NAME|URL"},
     "conda channel (default: conda-forge)"),
    ("create switch", "--replace", _ON, "replace an existing environment"),
    ("create switch", "--offline", _ON, "use downloaded packages only"),
    ("create switch", "--yes", _ON, "do not ask for confirmation"),
    ("export", "--format", {"default": "requirements"},
     "file format: requirements, uv, conda, pixi, dockerfile or apptainer"),
    ("export", "-o --output", {"metavar": "FILE", "type": Path},
     "file to write (default: standard output)"),
    ("new", "--extends", {"metavar": "NAME"}, "profile to build on"),
    ("new", "--project", _ON, "create it in this project instead of your own folder"),
    ("refresh", "--index", {"default": ""}, "address of the package index"),
    (f"{_PLANNED} list show verify refresh", "--json", _ON, "print JSON"),
)  # fmt: skip


def declare(action: str, parser: argparse.ArgumentParser) -> None:
    """Add the flags of one subcommand."""
    for actions, names, options, text in _FLAGS:
        if action in actions.split():
            parser.add_argument(*names.split(), **options, help=text)


def machine_of(found: argparse.Namespace) -> Machine:
    """Return the machine that the flags select: this one or a recorded one."""
    from gpuforge.detect import read_machine
    from gpuforge.probe import SnapshotProbe

    snapshot = getattr(found, "snapshot", None)
    machine = read_machine(SnapshotProbe(Path(snapshot)) if snapshot else None)
    return advice.limited(machine, loaded(found).memory_limit)


def loaded(found: argparse.Namespace) -> settings.Settings:
    """Return the effective settings, in which flags take precedence."""
    given = {
        "package_index": getattr(found, "index", ""),
        "framework_index": getattr(found, "framework_index", ""),
        "find_links": getattr(found, "find_links", []),
        "cpu_only": getattr(found, "cpu_only", False),
    }
    flags = {name: value for name, value in given.items() if value}
    # A broken settings file must not silently replace the user's index with the default one.
    asks = getattr(found, "action", "") in _ASKING_INDEXES
    return settings.load(flags=flags, strict=asks).settings


def how_of(found: argparse.Namespace) -> How:
    """Return the options of a plan from flags and settings."""
    chosen = loaded(found)
    return {
        "cpu_only": chosen.cpu_only,
        "python": found.python,
        "platform": getattr(found, "platform", None),
        "version": found.framework_version,
        "framework_index": chosen.framework_index,
        "newer": newest_releases(settings.cache_folder(chosen)),
    }


def plan_of(found: argparse.Namespace) -> Plan:
    """Return the plan for the profile that the flags name, or for the recommended one."""
    profile, machine = getattr(found, "profile", None), machine_of(found)
    return advice.plan(profile, found.framework, machine=machine, **how_of(found))
