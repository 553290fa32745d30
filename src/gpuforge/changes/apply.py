"""Applying the changes of a plan, and undoing them."""

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
from gpuforge.changes.lock import change_lock
from gpuforge.changes.plan import Plan
from gpuforge.changes.record import RECORD, UndoRecord, find_record, new_id, records_folder
from gpuforge.errors import PlanRefused
from gpuforge.units import format_bytes

# Extra room for pip, which unpacks a wheel before it removes the old version.
RESERVE_BYTES = 32 * 2**20
SHOWN = 3


def apply_plan(plan: Plan) -> UndoRecord:
    """Make the changes of `plan` and return the record that undoes them.

    The current state is saved and recorded before the first action, so an interruption at any
    moment leaves a record that can be undone. If an action fails, the plan is undone at once.

    Raises
    ------
    PlanRefused
        If the plan is unsafe, there is too little disk space to save the current state, or an
        action failed. In the last case the state is restored; the message says so if that failed.
    """
    plan.check()
    with change_lock() as lock:
        record = _keep_state(plan)
        try:
            record = record.updated(state="applying")
            for action in plan.actions:
                record = record.updated(commands=(*record.commands, action.command))
                action.perform(holding=(lock,))
            left = tuple(fingerprint(Path(target), Path(store)) for target, store in record.kept)
            return record.updated(state="applied", left=left)
        except (PlanRefused, OSError) as error:
            _restore(record)
            raise PlanRefused(
                f"{error}\nnothing was changed: the previous state is restored"
            ) from error


def undo(name: str, *, even_if_changed: bool = False) -> UndoRecord:
    """Restore everything that a record lists, and return the record.

    Parameters
    ----------
    name
        The record's id.
    even_if_changed
        Undo even if something else has changed the environment since; those changes are lost.

    Raises
    ------
    UnknownName
        If there is no such record.
    PlanRefused
        If the change was already undone or is still being made, the saved state is missing, later
        changes would be lost, or not everything could be restored.
    """
    record = find_record(name)
    if record.state == "undone":
        raise PlanRefused(f"{name} has already been undone")
    with change_lock():
        if record.state != "keeping":
            _check_kept(record)
            if not even_if_changed:
                _check_unchanged(record)
            with suppress(OSError):  # on a full disk it matters more to go on and free space
                record = record.updated(state="applying", left=())
        return _restore(record)


def _keep_state(plan: Plan) -> UndoRecord:
    """Save the current state of everything that `plan` touches, and return its record."""
    record_id, kept = new_id(), list[tuple[Path, Path]]()
    needed: dict[Path, int] = {}
    for path in dict.fromkeys(p.absolute() for action in plan.actions for p in action.touches):
        # Hard links work inside an environment; anything else may be removed as a whole.
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
            _delete_copies(record)
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


def _restore(record: UndoRecord) -> UndoRecord:
    """Restore the saved state, verify it, and delete the saved copies."""
    try:
        if record.state != "keeping":
            for target, store in reversed(record.kept):
                put_back(Path(target), Path(store))
            for target, store in record.kept:
                if not is_put_back(Path(target), Path(store)):
                    raise OSError(f"{target} still differs from its saved copy")
        record = record.updated(state="undone")
        _delete_copies(record)
    except OSError as error:
        raise PlanRefused(
            f"not everything could be restored: {error}; the saved copies are kept",
            hint=f"fix that, then run: gpuforge doctor --undo {record.id}",
        ) from None
    return record


def _delete_copies(record: UndoRecord) -> None:
    """Delete the saved copies, and the parent folders that this leaves empty."""
    for _, store in record.kept:
        remove(Path(store))
        for folder in list(Path(store).parents)[:3]:
            with suppress(OSError):
                folder.rmdir()
