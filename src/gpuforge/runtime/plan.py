"""The recorded plan of deterministic mode: where each signature runs, in a file to commit."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuforge.errors import InvalidSettings
from gpuforge.log import logger
from gpuforge.settings import Settings

_log = logger("plan")


@dataclass
class Plan:
    """Placements by signature.

    Attributes
    ----------
    path : the file; None when the plan cannot be kept
    placements : ``"function/kind/signature"`` to backend name
    """

    path: Path | None
    machine: str
    placements: dict[str, str] = field(default_factory=dict)
    changed: bool = False

    @classmethod
    def open(cls, settings: Settings, folder: Path | None, machine: str) -> Plan:
        """Return the plan that the settings name, an empty one if its file does not exist.

        Raises
        ------
        InvalidSettings
            If the file exists and is no plan. It is never overwritten then.
        """
        path = Path(settings.plan) if settings.plan else None
        if path is None and folder is not None:
            path = folder / f"plan-{machine}.json"
        if path is None or not path.exists():
            return cls(path, machine)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            placements = _checked(content)
        except (OSError, ValueError, RecursionError) as error:
            raise InvalidSettings(
                f"{path} is no gpuforge plan: {error}",
                hint="remove it, or name another with 'plan'",
            ) from None
        return cls(path, machine, placements)

    def backend(self, key: str) -> str | None:
        """Return where a signature runs, or None when the plan does not say."""
        return self.placements.get(key)

    def record(self, key: str, backend: str) -> None:
        """Take in where a signature runs from now on."""
        self.placements[key] = backend
        self.changed = True

    def save(self) -> None:
        """Write the plan, whole or not at all."""
        if self.path is None or not self.changed:
            return
        content = {"schema_version": 1, "machine": self.machine, "placements": self.placements}
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(content, indent=1, sort_keys=True), encoding="utf-8")
            draft.replace(self.path)
            self.changed = False
        except OSError as error:
            draft.unlink(missing_ok=True)
            _log.warning("the plan is not kept: %s", error)


def _checked(content: Any) -> dict[str, str]:
    placements = content.get("placements") if isinstance(content, dict) else None
    if not isinstance(placements, dict):
        raise ValueError("it holds no 'placements'")
    if not all(isinstance(k, str) and isinstance(v, str) for k, v in placements.items()):
        raise ValueError("a placement is not text")
    return placements
