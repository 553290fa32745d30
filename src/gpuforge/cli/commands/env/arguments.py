"""The flags of each sub-command of ``env``, and what they mean together."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuforge import settings
from gpuforge.environment import advice
from gpuforge.environment.advice import How
from gpuforge.environment.planning import Plan
from gpuforge.environment.refresh import newest_releases
from gpuforge.facts import Machine

_PLANNED = ("recommend", "plan", "export", "create", "fetch", "switch")
_INSTALLING = ("create", "fetch", "switch")
_ASKING_INDEXES = (*_INSTALLING, "refresh")


def declare(action: str, parser: argparse.ArgumentParser) -> None:
    """Add the flags of one sub-command."""
    if action in ("show", "new", "edit"):
        parser.add_argument("name", metavar="NAME", help="name of the profile")
    if action in (*_PLANNED, "list"):
        parser.add_argument("--cpu-only", action="store_true", help="plan for the CPU")
    if action in ("list", "recommend", "plan", "export"):
        parser.add_argument(
            "--snapshot", metavar="DIR", help="plan for a recorded machine instead of this one"
        )
    if action in _PLANNED:
        _declare_plan(action, parser)
    if action in ("create", "verify", "switch"):
        active = action == "verify"
        parser.add_argument(
            "--path",
            type=Path,
            metavar="DIR",
            default=None if active else Path(".venv"),
            help="folder of the environment (default: "
            + ("the active one, else .venv)" if active else ".venv)"),
        )
    if action in _INSTALLING:
        _declare_installing(action, parser)
    if action == "export":
        parser.add_argument(
            "--format",
            default="requirements",
            help="file format: requirements, uv, conda, pixi, dockerfile or apptainer",
        )
        parser.add_argument(
            "-o",
            "--output",
            metavar="FILE",
            type=Path,
            help="file to write (default: standard output)",
        )
    if action == "new":
        parser.add_argument("--extends", metavar="NAME", help="profile to build on")
        parser.add_argument(
            "--project",
            action="store_true",
            help="create it in this project instead of your own folder",
        )
    if action == "refresh":
        parser.add_argument("--index", default="", help="address of the package index")
    if action not in ("new", "edit"):
        parser.add_argument("--json", action="store_true", help="print JSON")


def _declare_plan(action: str, parser: argparse.ArgumentParser) -> None:
    if action not in ("recommend", "switch"):
        parser.add_argument(
            "--profile", metavar="NAME", help="profile (default: the recommended one)"
        )
    required = action == "switch"
    parser.add_argument("--framework", required=required, help="pytorch, tensorflow or jax")
    parser.add_argument(
        "--framework-version",
        default="",
        metavar="VERSION",
        help="release of the framework (default: the newest that works here)",
    )
    parser.add_argument(
        "--framework-index",
        default="",
        metavar="URL|default",
        help="index for the framework, or 'default' for the default package index",
    )
    parser.add_argument("--python", metavar="VERSION", help="Python version, such as 3.12")
    if action not in _INSTALLING:
        parser.add_argument("--platform", help="linux-64, linux-aarch64, osx-arm64 or win-64")


def _declare_installing(action: str, parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--index", default="", metavar="URL", help="package index to use instead of the default one"
    )
    parser.add_argument(
        "--find-links",
        action="append",
        default=[],
        metavar="DIR|URL",
        help="folder or page with wheels to use as well",
    )
    family = ["conda", "mamba", "micromamba", "pixi"] if action != "fetch" else []
    parser.add_argument(
        "--installer",
        "--format",
        choices=["uv", "pip", *family],
        default="",
        help="installer (default: uv if it is installed, else pip)",
    )
    parser.add_argument(
        "--wheelhouse", type=Path, metavar="DIR", help="folder for downloaded packages"
    )
    if action != "fetch":
        parser.add_argument(
            "--channel",
            action="append",
            metavar="NAME|URL",
            help="conda channel (default: conda-forge)",
        )
        parser.add_argument(
            "--replace", action="store_true", help="replace an existing environment"
        )
        parser.add_argument("--offline", action="store_true", help="use downloaded packages only")
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def machine_of(found: argparse.Namespace) -> Machine:
    """Return the facts of the machine that the flags name."""
    from gpuforge.detect import read_machine
    from gpuforge.probe import SnapshotProbe

    snapshot = getattr(found, "snapshot", None)
    machine = read_machine(SnapshotProbe(Path(snapshot)) if snapshot else None)
    return advice.limited(machine, loaded(found).memory_limit)


def loaded(found: argparse.Namespace) -> settings.Settings:
    """Return the settings in force, the flags above all others."""
    given = {
        "package_index": getattr(found, "index", ""),
        "framework_index": getattr(found, "framework_index", ""),
        "find_links": getattr(found, "find_links", []),
        "cpu_only": getattr(found, "cpu_only", False),
    }
    flags = {name: value for name, value in given.items() if value}
    # An index that only the user's file names must not be replaced by the default one in silence.
    return settings.load(
        flags=flags, strict=getattr(found, "action", "") in _ASKING_INDEXES
    ).settings


def how_of(found: argparse.Namespace) -> How:
    """Return what the flags and the settings say of a plan."""
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
    """Return the plan that the flags ask for: of the named profile, or the recommended one."""
    profile, machine = getattr(found, "profile", None), machine_of(found)
    return advice.plan(profile, found.framework, machine=machine, **how_of(found))
