"""Access to the TOML tables of `compat`, each of which is read once."""

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
    """Return the ``[[kind]]`` entries of the table `name`, in file order."""
    found: list[dict[str, Any]] = table(name)[kind]
    return found


def every_entry(name: str) -> Iterator[dict[str, Any]]:
    """Yield every entry of the table `name`."""
    for value in table(name).values():
        if isinstance(value, list):
            yield from value


@cache
def checked(*names: str) -> date:
    """Return the date of the entry in the tables `names` that was checked longest ago."""
    days: list[date] = [entry["checked"] for name in names for entry in every_entry(name)]
    return min(days)
