"""The tables of `compat`, each read once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from functools import cache
from typing import Any

from gpuforge import registry


def table(name: str) -> dict[str, Any]:
    """Return the whole table `name`."""
    return registry.table(__file__, name)


def entries(name: str, kind: str) -> list[dict[str, Any]]:
    """Return the entries ``[[kind]]`` of the table `name`, in their order."""
    found: list[dict[str, Any]] = table(name)[kind]
    return found


def every_entry(name: str) -> Iterator[dict[str, Any]]:
    """Yield every entry of the table `name`."""
    for value in table(name).values():
        if isinstance(value, list):
            yield from value


@cache
def checked(*names: str) -> date:
    """Return the day on which the oldest entry of the tables `names` was checked."""
    days: list[date] = [entry["checked"] for name in names for entry in every_entry(name)]
    return min(days)
