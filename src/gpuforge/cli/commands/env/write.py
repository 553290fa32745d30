"""``env new``, ``edit`` and ``refresh``: the user's own profiles, and newer releases."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from gpuforge import stored
from gpuforge.cli import render
from gpuforge.cli.commands.env.arguments import loaded
from gpuforge.environment import advice
from gpuforge.environment.profile import PROJECT_FOLDER, choose, folders, parse_profile
from gpuforge.environment.quoting import quoted
from gpuforge.environment.refresh import refresh_releases
from gpuforge.errors import PlanRefused
from gpuforge.settings import cache_folder, user_file

FINE = 0
_TEMPLATE = """\
summary = "what it is for"
optimises_for = ""
minimum_memory_gb = 1
packages = ["numpy"]

[frameworks.pytorch]
packages = []
"""


def new(found: argparse.Namespace) -> int:
    """Create a template for a profile in the user's or the project's folder of profiles."""
    parse_profile(found.name, {}, "the command line", {})
    folder = PROJECT_FOLDER.absolute() if found.project else user_file().parent / "profiles"
    path = folder / f"{found.name}.toml"
    text = _TEMPLATE
    if found.extends:
        choose(advice.profiles(), found.extends)
        text = f'extends = {quoted(found.extends)}\nsummary = "what it is for"\npackages = []\n'
    if os.path.lexists(path):
        raise PlanRefused(f"{path} already exists", hint=f"open it: gpuforge env edit {found.name}")
    try:
        stored.write(path, text, parents=True)
    except OSError as error:
        raise PlanRefused(
            f"{path} cannot be written: {error.strerror}", hint="check that folder's permissions"
        ) from None
    render.data(str(path))
    return FINE


def edit(found: argparse.Namespace) -> int:
    """Open one of the user's own profiles in the editor, then check it."""
    path = own_file(found.name)
    if path is None:
        choose(advice.profiles(), found.name)
        raise PlanRefused(
            f"{found.name} is shipped with gpuforge and cannot be edited",
            hint=f"override it: gpuforge env new {found.name} --extends {found.name}",
        )
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise PlanRefused("no editor is set in VISUAL or EDITOR", hint=f"edit {path} yourself")
    try:
        subprocess.run([*shlex.split(editor), str(path)], check=True)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        raise PlanRefused(
            f"the editor {editor!r} failed: {error}", hint=f"edit {path} yourself"
        ) from None
    choose(advice.profiles(), found.name)
    render.data(f"{path} is a valid profile")
    return FINE


def own_file(name: str) -> Path | None:
    """Return the effective file of one of the user's own profiles, even a broken one."""
    places = [folder / f"{name}.toml" for folder in folders(user_file().parent)]
    return next((path for path in reversed(places) if os.path.isfile(path)), None)


def refresh(found: argparse.Namespace) -> int:
    """Query the index for newer releases, and cache the answers for later plans."""
    chosen = loaded(found)
    today = datetime.now(UTC).date()
    render.message("asking the package index for releases; this takes some seconds")
    newest = refresh_releases(cache_folder(chosen), today, index=chosen.package_index)
    if found.json:
        render.document({"newest": newest, "asked": today.isoformat()})
    else:
        render.data(render.table([(name, version) for name, version in newest.items()]))
    return FINE
