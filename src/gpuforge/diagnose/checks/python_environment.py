"""Does the active environment have a working Python, and may packages be installed in it?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from gpuforge.changes.environment import PythonEnvironment
from gpuforge.diagnose.finding import Finding, State, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.diagnose.table_paths import is_writable
from gpuforge.facts import Absent, Failed

SUMMARY = "the active environment works and can be changed"
LIVE = True

SHOWN = 5
OPTIONAL, BUILT_APART = ("_bz2", "_ctypes", "_lzma", "_sqlite3", "_ssl"), 30
# Scripts start an interpreter with a long path or spaces through the shell; "\r" is of Windows.
_PIP = re.compile(r"pip[\d.]*")
_STARTS = re.compile(rb"""#!(?:/bin/sh\n'''exec' )?"?(/[^"\n]*/python[\d.]*\r?|/.*\r(?=\n))"?""")
CREATE = "Create an environment for your packages: gpuforge env create --path FOLDER"


def check(site: Site) -> Iterator[Finding]:
    """Yield the worst problem of the environment, or that it works."""
    yield next(chain(_faults(site), _flaws(site), _state(site)))


def _faults(site: Site) -> Iterator[Finding]:
    """Yield faults that keep the environment from running at all."""
    environment, prefix = site.environment, site.environment.prefix
    if environment.fault:
        leave = (f"Or leave it: unset {environment.named_by}",) if environment.named_by else ()
        again = f"Create the environment again: python -m venv --clear {prefix}"
        real = environment.python and environment.python.resolve()
        if real and real.exists() and not (prefix / "pyvenv.cfg").exists():
            again = f"Create the file again, which keeps the packages: {real} -m venv {prefix}"
        steps = (again, *leave)
        yield Finding("error", environment.fault, "environment_broken", (str(prefix),), steps)
    if (other := site.probe.environ.get("PYTHONHOME")) and _is_elsewhere(environment, other):
        message = f"PYTHONHOME makes Python use the standard library of another Python, in {other}"
        steps = ("Unset PYTHONHOME: no environment needs it.",)
        yield Finding("error", message, "pythonhome_set", (f"PYTHONHOME={other}",), steps)
    if isinstance(folder := site.packages_folder, Absent | Failed):
        yield Finding("error", folder.reason, "environment_broken", (str(prefix),), (CREATE,))
    mark = next(prefix.glob("lib/python3*/EXTERNALLY-MANAGED"), None)
    if mark and environment.kind == "system Python":
        cause = "externally_managed_environment"
        # This is no problem, unless the user has the error message of a refused installation.
        state: State = "warning" if cause in site.asked else "ok"
        yield of_cause(cause, state, evidence=(str(mark),))


def _flaws(site: Site) -> Iterator[Finding]:
    """Yield problems of an environment that runs, errors before warnings."""
    environment, prefix = site.environment, site.environment.prefix
    folder = site.packages_folder
    if isinstance(folder, Absent | Failed):
        return
    moved = _broken_script(prefix) if environment.kind != "system Python" else None
    if _is_noexec(folder):
        message = f"{folder} is mounted noexec: no compiled module can be loaded from there"
        steps = ("Mount it without noexec, or create the environment on another file system.",)
        yield Finding("error", message, "mounted_noexec", (str(folder),), steps)
    if not is_writable(folder):
        yield of_cause("site_packages_permission_denied", "error", evidence=(str(folder),))
    if moved and Path(moved[0]).name.startswith("pip"):
        where = "is that of another environment" if os.path.exists(moved[1]) else "does not exist"
        message = f"{moved[0]} starts {moved[1]}, which {where}: {prefix} was moved or copied"
        steps = (f"Use python -m pip, or create it again: python -m venv --clear {prefix}",)
        yield Finding("error", message, "environment_moved", moved, steps)
    if lacking := _missing_modules(environment):
        message = f"this Python was built without {', '.join(lacking)}"
        steps = ("Install what they need, such as liblzma-dev or libffi-dev, and rebuild Python.",)
        yield Finding("warning", message, "python_incomplete", (str(environment.home),), steps)
    if fixed := _unwritable_packages(site, folder):
        message = f"this user may not change {len(fixed)} packages, such as {fixed[0]}"
        cause = "site_packages_permission_denied"
        yield of_cause(cause, "warning", message, evidence=fixed[:SHOWN])
    if left := _left_behind(environment):
        message = f"Python {environment.version} does not use the packages of {left[0].parent}"
        steps = (f"Create it again, then install what you need: python -m venv --clear {prefix}",)
        evidence = tuple(path.name for path in left[:SHOWN])
        yield Finding("warning", message, "packages_of_another_python", evidence, steps)
    if moved:
        message = f"{moved[0]} starts {moved[1]}, which does not exist"
        steps = ("Reinstall the package that it belongs to.",)
        yield Finding("warning", message, "environment_moved", moved, steps)


def _state(site: Site) -> Iterator[Finding]:
    """Yield whether packages can be installed in an environment without problems."""
    environment, folder = site.environment, site.packages_folder
    if environment.refusal:
        yield Finding("ok", environment.refusal)
    if not environment.has_pip and not environment.made_by_uv and "conda" not in environment.kind:
        steps = (f"Install it: {environment.python} -m ensurepip; or use uv instead.",)
        yield Finding("warning", "the environment has no pip", "pip_missing", (str(folder),), steps)
    yield Finding("ok", f"packages can be installed in {environment.prefix}")


def _is_noexec(folder: Path) -> bool:
    flag = getattr(os, "ST_NOEXEC", 0)  # Linux only
    return bool(flag and os.statvfs(folder).f_flag & flag)


def _missing_modules(environment: PythonEnvironment) -> list[str]:
    """Return the standard library modules that a Python was built without.

    A Python with few files in ``lib-dynload`` has its modules built in and is not checked.
    """
    minor = ".".join(environment.version.split(".")[:2])
    above = environment.home.parent if environment.home else environment.prefix
    there = [path.name.partition(".")[0] for path in above.glob(f"lib/python{minor}/lib-dynload/*")]
    return [name for name in OPTIONAL if name not in there] if len(there) > BUILT_APART else []


def _is_elsewhere(environment: PythonEnvironment, other: str) -> bool:
    """Return whether a PYTHONHOME is not the base Python of the environment."""
    home = environment.home
    return home is not None and Path(other.split(os.pathsep)[0]).resolve() != home.parent.resolve()


def _left_behind(environment: PythonEnvironment) -> list[Path]:
    """Return the packages of another Python that the environment was created with before."""
    if environment.kind != "virtual environment":
        return []
    found = environment.prefix.glob("lib/python3.*/site-packages/*.dist-info")
    return [path for path in sorted(found) if path.parent not in environment.folders
            and not path.name.startswith(("pip-", "setuptools-", "wheel-"))]  # fmt: skip


def _broken_script(prefix: Path) -> tuple[str, str] | None:
    """Return a script whose interpreter is not there, or of pip elsewhere, and that; None if none.

    Scripts contain the full path of their environment's Python, so they break if it is moved.
    """
    found = []
    for path in sorted(prefix.glob("bin/*")):
        with suppress(OSError), open(path, "rb") as file:
            starts = _STARTS.match(file.read(256))
            is_pip = _PIP.fullmatch(path.name) and not path.is_symlink()
            if starts and (
                not os.path.exists(starts[1]) or (is_pip and _is_of_another(starts[1], prefix))
            ):
                found.append((str(path), os.fsdecode(starts[1]).replace("\r", "\\r")))
    return next((script for script in found if "/bin/pip" in script[0]), next(iter(found), None))


def _is_of_another(python: bytes, prefix: Path) -> bool:
    """Return whether a Python exists and is of another environment, or of none."""
    place = Path(os.fsdecode(python)).parent.parent
    return place.is_dir() and not place.samefile(prefix)


def _unwritable_packages(site: Site, folder: Path) -> tuple[str, ...]:
    """Return the packages in a folder that another user, usually root, installed."""
    infos = (one.info for one in site.distributions if one.folder == folder)
    return tuple(str(info) for info in infos if not is_writable(info))
