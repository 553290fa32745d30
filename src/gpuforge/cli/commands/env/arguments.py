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


def declare(action: str, parser: argparse.ArgumentParser) -> None:
    """Add the flags of one sub-command."""
    if action in ("show", "new", "edit"):
        parser.add_argument("name", metavar="NAME", help="name of the profile")
    if action in (*_PLANNED, "list"):
        parser.add_argument("--cpu-only", action="store_true", help="plan without a GPU")
    if action in ("list", "recommend", "plan", "export"):
        parser.add_argument("--snapshot", metavar="DIR", help="a recorded machine instead of this")
    if action in _PLANNED:
        _declare_plan(action, parser)
    if action in ("create", "verify", "switch"):
        parser.add_argument("--path", type=Path, default=Path(".venv"), help="the environment")
    if action in _INSTALLING:
        _declare_installing(action, parser)
    if action == "export":
        parser.add_argument("--format", default="requirements", help="which tool's file")
        parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write it there")
    if action == "new":
        parser.add_argument("--extends", metavar="NAME", help="start from another profile")
        parser.add_argument("--project", action="store_true", help="put it into this project")
    if action == "refresh":
        parser.add_argument("--index", default="", help="address of the package index")
    if action not in ("new", "edit"):
        parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def _declare_plan(action: str, parser: argparse.ArgumentParser) -> None:
    if action not in ("recommend", "switch"):
        parser.add_argument("--profile", metavar="NAME", help="by default the recommended one")
    required = action == "switch"
    parser.add_argument("--framework", required=required, help="pytorch, tensorflow or jax")
    parser.add_argument("--framework-version", default="", metavar="VERSION")
    parser.add_argument("--framework-index", default="", metavar="URL|default")
    parser.add_argument("--python", metavar="VERSION", help="such as 3.12")
    if action not in _INSTALLING:
        parser.add_argument("--platform", help="such as linux-64")


def _declare_installing(action: str, parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--index", default="", metavar="URL", help="instead of the default index")
    parser.add_argument("--find-links", action="append", default=[], metavar="DIR|URL")
    family = ["conda", "mamba", "micromamba", "pixi"] if action != "fetch" else []
    parser.add_argument(
        "--installer", "--format", choices=["uv", "pip", *family], default="", help="uv if present"
    )
    parser.add_argument("--wheelhouse", type=Path, metavar="DIR", help="where downloads are kept")
    if action != "fetch":
        parser.add_argument("--channel", action="append", metavar="NAME|URL", help="conda's")
        parser.add_argument("--replace", action="store_true", help="make an existing one anew")
        parser.add_argument("--offline", action="store_true", help="from fetched wheels alone")
        parser.add_argument("--yes", action="store_true", help="do not ask")


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
    return settings.load(flags=flags).settings


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
