"""Making a plan's changes, and taking them back."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from gpuforge.changes.keep import STORE, fingerprint, keep, put_back, remove
from gpuforge.changes.plan import Plan
from gpuforge.changes.record import UndoRecord, find_record, new_id, records_folder
from gpuforge.errors import PlanRefused


def apply_plan(plan: Plan) -> UndoRecord:
    """Make the changes of `plan` and return the record that undoes them.

    The state before is kept and recorded before each action, so an interruption at any moment
    leaves a record that can be undone. An action that fails is undone at once.

    Raises
    ------
    PlanRefused
        If the plan would not be safe, or an action failed; nothing is changed then.
    """
    plan.check()
    record = UndoRecord(new_id(), plan.title)
    record.save()
    for action in plan.actions:
        for path in action.touches:
            record = _keep(record, path)
        record = record.having(commands=(*record.commands, action.command))
        try:
            action.perform()
        except PlanRefused:
            undo(record.id)
            raise
    left = tuple(fingerprint(Path(target)) for target, _ in record.kept)
    return record.having(state="applied", left=left)


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
        If it was undone already, the kept state is gone, or other changes would be lost.
    """
    record = find_record(name)
    if record.state == "undone":
        raise PlanRefused(f"{name} was undone already")
    for target, store in reversed(record.kept):
        if not Path(store).is_dir():
            raise PlanRefused(
                f"what was kept of {target} is gone from {store}",
                hint="the environment was probably removed or made anew",
            )
    for (target, _), left in zip(record.kept, record.left, strict=False):
        if left != fingerprint(Path(target)) and not even_if_changed:
            raise PlanRefused(
                f"{target} was changed by something else since",
                hint="add --yes to go back all the same and lose that change",
            )
    for target, store in reversed(record.kept):
        put_back(Path(target), Path(store))
    record = record.having(state="undone")
    for _, store in record.kept:
        _forget(Path(store))
    return record


def _forget(store: Path) -> None:
    """Remove what was kept, and the folders above that hold nothing else."""
    remove(store)
    for folder in list(store.parents)[:3]:
        with suppress(OSError):
            folder.rmdir()


def _keep(record: UndoRecord, path: Path) -> UndoRecord:
    """Keep `path` unless an earlier action did, and note it."""
    path = path.absolute()
    if any(Path(target) == path for target, _ in record.kept):
        return record
    number = str(len(record.kept))
    # Inside an environment hard links work; a thing that may itself go is kept elsewhere.
    inside = (path / "pyvenv.cfg").exists() or (path / "conda-meta").is_dir()
    home = path / STORE if inside else records_folder()
    store = home / record.id / "kept" / number
    keep(path, store)
    return record.having(kept=(*record.kept, (str(path), str(store))))
