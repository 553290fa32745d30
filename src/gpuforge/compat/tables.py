"""The tables of `compat`, each read once."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

NAMES = (
    "cuda",
    "nvidia",
    "rocm",
    "intel",
    "pytorch",
    "tensorflow",
    "jax",
    "companions",
)


@cache
def table(name: str) -> dict[str, Any]:
    """Return the whole table `name`."""
    # Not importlib.resources, which costs 12 ms to import.
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


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
