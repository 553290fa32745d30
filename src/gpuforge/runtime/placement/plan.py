"""The recorded plan of deterministic mode: where each signature runs, in a committable file."""

from __future__ import annotations

import os
from pathlib import Path

from gpuforge import stored
from gpuforge.dataclass import dataclass, field
from gpuforge.errors import InvalidSettings
from gpuforge.log import logger
from gpuforge.settings import Settings

_log = logger("plan")


@dataclass(frozen=True)
class Recorded:
    """Content of the plan file."""

    machine: str
    placements: dict[str, str]


@dataclass
class Plan:
    """Placements by signature.

    Attributes
    ----------
    path : the file; None if the plan cannot be saved
    placements : ``"function/kind/signature"`` to backend name
    """

    path: Path | None
    machine: str
    placements: dict[str, str] = field(default_factory=dict)
    changed: bool = False

    @classmethod
    def open(cls, settings: Settings, folder: Path | None, machine: str) -> Plan:
        """Return the plan that the settings name, an empty one if its file does not exist.

        If the settings name none, the plan is kept in `folder`; if the file there cannot be read,
        this process uses an empty plan that is not saved.

        Raises
        ------
        InvalidSettings
            If the file that the settings name is not a plan. Such a file is never overwritten.
        """
        path = Path(settings.plan) if settings.plan else None
        if path is None and folder is not None:
            path = folder / f"plan-{machine}.json"
        if path is None or not os.path.lexists(path):
            return cls(path, machine)
        try:
            found = stored.loads_as(Recorded, path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            if not settings.plan:
                _log.warning("%s is not used: %s", path, error)
                return cls(None, machine)
            raise InvalidSettings(
                f"{path} is not a plan written by gpuforge: {error}",
                hint="remove it, or set 'plan' to another file",
            ) from None
        return cls(path, machine, found.placements)

    def backend(self, key: str) -> str | None:
        """Return the backend of a signature, or None if the plan has no entry."""
        return self.placements.get(key)

    def record(self, key: str, backend: str) -> None:
        """Set the backend of a signature."""
        self.placements[key] = backend
        self.changed = True

    def save(self) -> None:
        """Write the plan atomically, if it changed."""
        if self.path is None or not self.changed:
            return
        placements = dict(sorted(self.placements.items()))
        try:
            text = stored.dumps(Recorded(self.machine, placements), indent=1)
            stored.write(self.path, text, parents=True)
            self.changed = False
        except OSError as error:
            _log.warning("the plan cannot be saved: %s", error)
