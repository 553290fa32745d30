"""Facts to text and back, exactly, with a checksum."""

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
    """Return facts as text, a checksum before them."""
    return stored.sealed(stored.dumps(value))


def loads(text: str) -> Any:
    """Return the facts in `text`, or None when it is not what `dumps` wrote."""
    try:
        return stored.loads(stored.unsealed(text), CLASSES)
    except stored.Damaged:
        return None
