"""Exact serialisation of facts to text and back, with a checksum."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

from gpuforge import facts, stored
from gpuforge.detect.seen import Seen, Sighting

CLASSES: dict[str, type[Any]] = {
    one.__name__: one
    for one in (*vars(facts).values(), Seen, Sighting)
    if isinstance(one, type) and is_dataclass(one)
}


def dumps(value: Any) -> str:
    """Return facts as text, preceded by a checksum."""
    return stored.sealed(stored.dumps(value))


def loads(text: str) -> Any:
    """Return the facts in `text`, or None if `dumps` did not write it."""
    try:
        return stored.loads(stored.unsealed(text), CLASSES)
    except stored.Damaged:
        return None
