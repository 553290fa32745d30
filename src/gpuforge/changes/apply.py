"""Making a plan's changes, and taking them back."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from gpuforge.changes.keep import (
    STORE,
    changed_since,
    fingerprint,
    is_put_back,
    keep,
    needed_bytes,
    put_back,
    remove,
)
from gpuforge.changes.lock import sole_change
from gpuforge.changes.plan import Plan
from gpuforge.changes.record import RECORD, UndoRecord, find_record, new_id, records_folder
from gpuforge.errors import PlanRefused
from gpuforge.units import format_bytes

# What pip needs besides: it unpacks a wheel before the old version goes.
RESERVE_BYTES = 32 * 2**20
SHOWN = 3


def apply_plan(plan: Plan) -> UndoRecord:
    """Make the changes of `plan` and return the record that undoes them.

    The state before is kept and recorded before the first action, so an interruption at any moment
    leaves a record that can be undone. An action that fails is undone at once.

    Raises
    ------
    PlanRefused
        If the plan would not be safe, there is no room to undo it, or an action failed; what was
        changed by then is put back, and the message says so if that failed as well.
    """
    plan.check()
    with sole_change() as lock:
        record = _keep_state(plan)
        try:
            record = record.having(state="applying")
            for action in plan.actions:
                record = record.having(commands=(*record.commands, action.command))
                action.perform(holding=(lock,))
            left = tuple(fingerprint(Path(target), Path(store)) for target, store in record.kept)
            return record.having(state="applied", left=left)
        except (PlanRefused, OSError) as error:
            _take_back(record)
            raise PlanRefused(
                f"{error}\nnothing was changed: the previous state is restored"
            ) from error


def undo(name: str, *, even_if_changed: bool = False) -> UndoRecord:
    """Put everything back that a record tells of, and return the record.

    Parameters
    ----------
    name
        The record's id.
    even_if_changed
        Go back even if others changed the same environment since, and lose what they did.

    Raises
    ------
    UnknownName
        If there is no such record.
    PlanRefused
        If it was undone already, the kept state is gone, other changes would be lost, the change
        is still being made, or not everything could be put back.
    """
    record = find_record(name)
    if record.state == "undone":
        raise PlanRefused(f"{name} has already been undone")
    with sole_change():
        if record.state != "keeping":
            _check_kept(record)
            if not even_if_changed:
                _check_unchanged(record)
            with suppress(OSError):  # what matters on a full disk is to go on and make room
                record = record.having(state="applying", left=())
        return _take_back(record)


def _keep_state(plan: Plan) -> UndoRecord:
    """Keep the state before of all that `plan` touches, and return the record of it."""
    record_id, kept = new_id(), list[tuple[Path, Path]]()
    needed: dict[Path, int] = {}
    for path in dict.fromkeys(p.absolute() for action in plan.actions for p in action.touches):
        # Inside an environment hard links work; a thing that may itself go is kept elsewhere.
        inside = (path / "pyvenv.cfg").exists() or (path / "conda-meta").is_dir()
        home = path / STORE if inside else records_folder()
        kept.append((path, home / record_id / "kept" / str(len(kept))))
        needed[home] = needed.get(home, RESERVE_BYTES) + needed_bytes(*kept[-1])
    for home, size in needed.items():
        existing = next(p for p in (home, *home.parents) if p.exists())
        if (free := shutil.disk_usage(existing).free) < size:
            raise PlanRefused(
                f"not enough disk space for an undo copy: {format_bytes(size)} are needed "
                f"on the disk of {existing}, {format_bytes(free)} are free",
                hint="free some space there, then run the command again",
            )
    record = UndoRecord(record_id, plan.title, kept=tuple((str(p), str(s)) for p, s in kept))
    try:
        record.save()
        for path, store in kept:
            keep(path, store)
    except OSError as error:
        with suppress(OSError):
            _forget(record)
        remove(records_folder() / record_id)
        raise PlanRefused(
            f"nothing was changed: the current state cannot be saved: {error}"
        ) from None
    return record


def _check_kept(record: UndoRecord) -> None:
    for target, store in record.kept:
        if not Path(store).is_dir():
            raise PlanRefused(
                f"the saved copy of {target} is missing from {store}",
                hint="the environment was probably removed or recreated",
            )


def _check_unchanged(record: UndoRecord) -> None:
    for (target, store), left in zip(record.kept, record.left, strict=False):
        if left == fingerprint(Path(target), Path(store)):
            continue
        found = changed_since(Path(target), (records_folder() / record.id / RECORD).stat().st_mtime)
        shown = ", ".join(map(str, found[:SHOWN])) + (" ..." if len(found) > SHOWN else "")
        raise PlanRefused(
            f"{target} was changed by something else after the repair"
            + (f" ({shown})" if shown else " (files were removed)"),
            hint="add --yes to undo the repair and lose those changes",
        )


def _take_back(record: UndoRecord) -> UndoRecord:
    """Put back what was kept, make sure that it is, and forget the copies."""
    try:
        if record.state != "keeping":
            for target, store in reversed(record.kept):
                put_back(Path(target), Path(store))
            for target, store in record.kept:
                if not is_put_back(Path(target), Path(store)):
                    raise OSError(f"{target} still differs from its saved copy")
        record = record.having(state="undone")
        _forget(record)
    except OSError as error:
        raise PlanRefused(
            f"not everything could be restored: {error}; the saved copies are kept",
            hint=f"fix that, then run: gpuforge doctor --undo {record.id}",
        ) from None
    return record


def _forget(record: UndoRecord) -> None:
    """Remove what was kept, and the folders above that hold nothing else."""
    for _, store in record.kept:
        remove(Path(store))
        for folder in list(Path(store).parents)[:3]:
            with suppress(OSError):
                folder.rmdir()
