"""Undo records: what was changed, and where the previous state is saved; one folder each."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gpuforge import stored
from gpuforge.errors import UnknownName, WorkloadError
from gpuforge.folders import user_folder

RECORD = "record.json"
State = Literal["keeping", "applying", "applied", "undone"]


@dataclass(frozen=True)
class UndoRecord:
    """The changes made by applying one plan.

    Attributes
    ----------
    id : date and a random word, such as ``20260102-101500-3fa9``
    title : the title of the plan
    state : ``keeping`` until the previous state is saved, then ``applying`` until all changes are
        made; an interrupted record stays in one of these states, and both can be undone
    commands : what was done, in order
    kept : pairs of a path that may have changed and the folder with its saved state
    left : for each of these pairs, the fingerprint of the difference that the changes made
    """

    id: str
    title: str
    state: State = "keeping"
    commands: tuple[str, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()
    left: tuple[str, ...] = ()

    def save(self) -> None:
        """Write the record atomically."""
        text = stored.dumps(self, indent=1) + "\n"
        stored.write(records_folder() / self.id / RECORD, text, parents=True)

    def updated(self, **changes: object) -> UndoRecord:
        """Return a copy of the record with some fields replaced, after saving it."""
        record = replace(self, **changes)  # type: ignore[arg-type]
        record.save()
        return record


def records_folder() -> Path:
    """Return the folder of all records; it may not exist yet."""
    return user_folder("data") / "undo"


def new_id() -> str:
    """Return an id for a new record."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"


def records() -> tuple[UndoRecord, ...]:
    """Return the readable records, oldest first."""
    return tuple(one for one in _read_all() if isinstance(one, UndoRecord))


def unreadable_records() -> tuple[WorkloadError, ...]:
    """Return one error for each unreadable record, with a hint on what to do about it."""
    return tuple(one for one in _read_all() if isinstance(one, WorkloadError))


def _read_all() -> Iterator[UndoRecord | WorkloadError]:
    for path in sorted(records_folder().glob(f"*/{RECORD}")):
        try:
            yield find_record(path.parent.name)
        except WorkloadError as error:
            yield error


def find_record(name: str) -> UndoRecord:
    """Return one record.

    Raises
    ------
    UnknownName
        If there is no record with that id.
    WorkloadError
        If its file is damaged or cannot be read.
    """
    path = records_folder() / name / RECORD
    if Path(name).name != name or not path.exists():
        known = [found.parent.name for found in records_folder().glob(f"*/{RECORD}")]
        raise UnknownName.among("undo record", name, known)
    try:
        return stored.loads_as(UndoRecord, path.read_text(encoding="utf-8"))
    except OSError as error:
        hint = "correct its permissions"
        raise WorkloadError(f"{path} cannot be read: {error.strerror}", hint=hint) from None
    except ValueError as error:
        hint = (
            "gpuforge cannot undo this repair; the saved state is in "
            f"{path.parent}: copy it back by hand, or delete that folder if the environment works"
        )
        raise WorkloadError(f"{path} is damaged: {error}", hint=hint) from None
