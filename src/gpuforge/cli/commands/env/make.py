"""``env create``, ``verify``, ``switch`` and ``fetch``: commands that install or check packages."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuforge.cli import render
from gpuforge.cli.commands.env.advise import describe, warn
from gpuforge.cli.commands.env.arguments import loaded, plan_of
from gpuforge.environment.companions import known_names
from gpuforge.environment.conda import PROGRAMS
from gpuforge.environment.create import Created, create_environment, fetch_plan, switched_path
from gpuforge.environment.installers import Installer, Report, Sources, choose_installer
from gpuforge.environment.planning import Plan
from gpuforge.environment.record import is_environment, read_record
from gpuforge.environment.verify import Verification, verify_environment
from gpuforge.errors import PlanRefused
from gpuforge.settings import cache_folder

FINE, PROBLEM = 0, 1


def create(found: argparse.Namespace) -> int:
    """Create an environment, then verify it."""
    made = plan_of(found)
    made.check()
    if not found.json:
        render.data(describe(made))
    warn(made)
    _confirm(found, f"Create {found.path}?")
    created = _create(found, made, found.path)
    return _verify_created(found, created)


def verify(found: argparse.Namespace) -> int:
    """Run computations in an environment, and compare the results with NumPy's."""
    with _progress(quiet=found.json) as report:
        report("verifying", 0, 1)
        result = verify_environment(found.path or _active())
    _show(found, result)
    return FINE if result.ok else PROBLEM


def _active() -> Path:
    """Return the folder of the environment active in this shell, else ``.venv``."""
    named = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    return Path(named) if named else Path(".venv")


def switch(found: argparse.Namespace) -> int:
    """Create or reuse an environment for another framework; the current one is kept."""
    path, record = switched_path(found.path, found.framework)
    found.profile = record.profile
    found.python = found.python or record.python
    found.cpu_only = found.cpu_only or record.accelerator == "cpu"
    # Keep a conda-family installer; uv and pip are interchangeable.
    found.installer = found.installer or (record.installer if record.installer in PROGRAMS else "")
    there = read_record(path) if is_environment(path) else None
    if there is not None and there.framework == found.framework and not found.replace:
        return _verify_created(found, Created(path, there, reused=True))
    made = plan_of(found)
    made.check()
    warn(made)
    _confirm(found, f"Create {path}?")
    created = _create(found, made, path, base=record.base)
    return _verify_created(found, created)


def fetch(found: argparse.Namespace) -> int:
    """Download all packages of a plan in advance."""
    made = plan_of(found)
    made.check()
    sources = _sources(found, made)
    with _progress(quiet=found.json) as report:
        pins = fetch_plan(made, _installer(found), sources, report)
    if found.json:
        render.document({"wheelhouse": str(sources.wheelhouse), "packages": pins})
    else:
        render.data(f"downloaded {len(pins)} packages to {sources.wheelhouse}")
    return FINE


def _create(found: argparse.Namespace, made: Plan, path: Path, *, base: str = "") -> Created:
    installer, sources = _installer(found), _sources(found, made)
    with _progress(quiet=found.json) as report:
        return create_environment(
            made, path, installer, sources, report, overwrite=found.replace, base=base
        )


def _installer(found: argparse.Namespace) -> Installer:
    return choose_installer(found.installer, known_names)


def _sources(found: argparse.Namespace, made: Plan) -> Sources:
    chosen = loaded(found)
    # Wheels for one Python and platform do not work for another.
    kept = f"python{made.target.python}-{made.target.platform}"
    return Sources(
        wheelhouse=found.wheelhouse or cache_folder(chosen) / "wheelhouse" / kept,
        index=chosen.package_index,
        find_links=chosen.find_links,
        offline=getattr(found, "offline", False),
        channels=tuple(getattr(found, "channel", None) or ("conda-forge",)),
    )


def _confirm(found: argparse.Namespace, question: str) -> None:
    if found.yes or loaded(found).auto_install:
        return
    if not sys.stdin.isatty():
        raise PlanRefused(
            "confirmation is needed, and standard input is not a terminal",
            hint="add --yes to confirm in advance",
        )
    render.message(f"{question} [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise PlanRefused("not confirmed; nothing was changed")


def _verify_created(found: argparse.Namespace, created: Created) -> int:
    found.path = created.folder
    status = verify(found)
    if not found.json:
        render.message(f"{'found' if created.reused else 'created'} {created.folder}")
        if created.without:
            render.message(f"note: gpuforge itself was not installed in it: {created.without}")
        render.message(f"activate it: {_activation(created)}")
        if not (created.without or created.reused):
            render.message("then run a program: gpuforge run SCRIPT")
    return status


def _activation(created: Created) -> str:
    """Return the command that activates an environment, which depends on its installer."""
    folder, program = shlex.quote(str(created.folder)), created.record.installer
    if program == "pixi":
        return f"pixi shell --manifest-path {folder}/pixi.toml"
    if program in PROGRAMS:
        return f"{program} activate {folder}"
    windows = created.folder / "Scripts" / "activate"
    return str(windows) if windows.exists() else f"source {folder}/bin/activate"


def _show(found: argparse.Namespace, result: Verification) -> None:
    if found.json:
        render.document(result.as_dict())
        return
    rows = [(c.name, "ok" if c.ok else "FAILED", c.detail) for c in result.checks]
    word = "works" if result.ok else "does not work"
    render.data(
        f"{result.folder}: {result.framework} for {result.accelerator} {word}\n"
        + render.table(rows, indent="  ")
    )


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Report]:
    """Yield a function that shows the current step and its progress on a terminal."""
    from tqdm import tqdm

    # None makes tqdm show the bar on a terminal only.
    hidden = True if quiet else None
    with tqdm(total=1, unit=" packages", leave=False, dynamic_ncols=True, disable=hidden) as bar:

        def report(what: str, done: int, total: int) -> None:
            bar.total, bar.n = total, done
            bar.set_description_str(what[:40])

        yield report
