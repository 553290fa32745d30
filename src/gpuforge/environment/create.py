"""Creating the environment that a plan describes, switching its framework, and fetching wheels."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gpuforge.environment import itself
from gpuforge.environment.companions import Package
from gpuforge.environment.installed import check_resolved
from gpuforge.environment.installers import Installer, Pip, Report, Sources, fetch
from gpuforge.environment.interruption import check, deferred
from gpuforge.environment.place import Place
from gpuforge.environment.planning import Plan
from gpuforge.environment.record import Record, read_record, write_record
from gpuforge.errors import EnvironmentMismatch, PlanRefused

_FULL_BELOW_BYTES = 2**20


@dataclass(frozen=True)
class Created:
    """An environment on the disk.

    Attributes
    ----------
    without : why gpuforge itself is not installed in it; empty if it is
    """

    folder: Path
    record: Record
    reused: bool = False
    without: str = ""


@deferred()
def create_environment(
    plan: Plan,
    path: Path,
    installer: Installer,
    sources: Sources,
    report: Report,
    *,
    overwrite: bool = False,
    base: str = "",
) -> Created:
    """Create the environment that `plan` describes, whole or not at all.

    Parameters
    ----------
    path
        The folder of the environment.
    sources
        Where packages come from; the indexes of the plan are added.
    report
        Called with the current step, the number of finished packages and their total number.
    overwrite
        Whether to replace an existing environment once the new one is complete.
    base
        Folder name of the environment that this one was switched from; empty if from none.

    Raises
    ------
    EnvironmentMismatch
        If the plan is a refusal, an installer fails, or the resolved packages are incompatible.
    PlanRefused
        If the folder cannot be used.
    """
    plan.check()
    place = Place(path)
    with _disk_errors(place.path):
        place.prepare(overwrite=overwrite)
    try:
        with _disk_errors(place.path):
            pins, without = _fill(plan, place, installer, _with_indexes(sources, plan), report)
            record = Record(
                profile=plan.profile,
                framework=plan.framework,
                accelerator=plan.accelerator,
                python=plan.target.python,
                base=base or place.path.name,
                installer=installer.name,
                pins=pins,
            )
            write_record(place.staging, record)
            check()
            place.finish()
    finally:
        place.discard()
    return Created(place.path, record, without=without)


def _fill(
    plan: Plan, place: Place, installer: Installer, sources: Sources, report: Report
) -> tuple[dict[str, str], str]:
    """Fill the staging folder; return the installed packages, and why gpuforge is not included."""
    report("making the environment", 0, 1)
    installer.make(place.staging, plan, place.path.name, sources)
    report("resolving", 0, 1)
    pins, without = _resolve_both(installer, place.staging, plan, sources)
    installer.install(place.staging, pins, sources, report)
    if not without:
        try:
            with tempfile.TemporaryDirectory() as scratch:
                installer.add(place.staging, itself.pack(Path(scratch)))
        except EnvironmentMismatch as error:
            without = str(error)
    return pins, without


def _resolve_both(
    installer: Installer, folder: Path, plan: Plan, sources: Sources
) -> tuple[dict[str, str], str]:
    """Return the packages, and why gpuforge's requirements are missing (empty if they are not)."""
    without = itself.obstacle(plan.build, plan.target.python)
    if not without:
        needs = (Package(text, "gpuforge itself needs it") for text in itself.requirements())
        both = replace(plan, packages=(*plan.packages, *needs))
        try:
            return _resolve(installer, folder, both, sources), ""
        except EnvironmentMismatch as error:
            without = f"the packages can be resolved only without it ({error})"
    return _resolve(installer, folder, plan, sources), without


@deferred()
def fetch_plan(
    plan: Plan, installer: Installer, sources: Sources, report: Report
) -> dict[str, str]:
    """Fetch all wheels of a plan into the wheelhouse; return their versions by package."""
    plan.check()
    sources = _with_indexes(sources, plan)
    with tempfile.TemporaryDirectory() as scratch, _disk_errors(sources.wheelhouse, "--wheelhouse"):
        folder = Path(scratch) / "environment"
        Pip(tuple).make(folder, plan, "fetch", sources)
        pins, _ = _resolve_both(installer, folder, plan, sources)
        fetch(folder, pins, sources, report, tuple)
    return pins


def switched_path(path: Path, framework: str) -> tuple[Path, Record]:
    """Return the folder for the same profile with another framework, and the record at `path`.

    The first environment keeps its name; each other framework gets a folder next to it.

    Raises
    ------
    PlanRefused
        If `path` was not created by gpuforge.
    """
    record = read_record(path)
    if record is None:
        raise PlanRefused(
            f"{path} was not created by gpuforge", hint="create one with 'gpuforge env create'"
        )
    base = path.parent / record.base
    first = read_record(base) or record
    if first.framework == framework:
        return base, record
    return base.with_name(f"{record.base}-{framework}"), record


def _with_indexes(sources: Sources, plan: Plan) -> Sources:
    return replace(sources, extra=(*sources.extra, *plan.indexes))


def _resolve(installer: Installer, folder: Path, plan: Plan, sources: Sources) -> dict[str, str]:
    """Return all packages with their versions; raise if they are incompatible."""
    pins = installer.resolve(folder, plan, sources)
    if problems := check_resolved(pins, plan):
        raise EnvironmentMismatch(
            f"the packages resolve but do not work together: {'; '.join(problems)}",
            hint="remove the package that requires it from the profile",
        )
    return pins


@contextmanager
def _disk_errors(path: Path, flag: str = "--path") -> Iterator[None]:
    """Turn file system errors into an error that names `path` and the flag that changes it."""
    hint = f"free some space, or choose another folder with {flag}"
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "the disk is full" if full else str(error)
        raise EnvironmentMismatch(
            f"cannot create {path}: {what}",
            hint=hint if full else f"choose another folder with {flag}",
        ) from error
    except EnvironmentMismatch as error:
        # Some installers fail on a full disk without saying so.
        if not path.parent.exists() or shutil.disk_usage(path.parent).free >= _FULL_BELOW_BYTES:
            raise EnvironmentMismatch(str(error), hint=error.hint.replace("--path", flag)) from None
        raise EnvironmentMismatch(
            f"cannot create {path}: the disk is full ({error})", hint=hint
        ) from error
