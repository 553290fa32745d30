"""The directory is the registry: the modules in a package folder are the registered ones.

A module that fails to load becomes a `LoadFailure` that the user sees. Entry points of other
packages are read only on request, because that takes about 30 ms. Tables of facts are stored next
to the module that reads them.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.machinery import all_suffixes
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

_SUFFIXES = frozenset(all_suffixes())


class LoadFailure(NamedTuple):
    """A registered module that could not be loaded.

    Attributes
    ----------
    name : the registered name
    reason : the exception, in one line
    """

    name: str
    reason: str


class Registered(NamedTuple):
    """The modules of one registry by name, and the ones that failed to load."""

    modules: dict[str, ModuleType]
    failures: tuple[LoadFailure, ...] = ()


def names(package: str) -> tuple[str, ...]:
    """Return the names of the public modules in `package`, sorted, without importing them."""
    folders = importlib.import_module(package).__path__
    found = {name for folder in folders for name in _modules(folder)}
    return tuple(sorted(name for name in found if name[0] != "_"))


def _modules(folder: str) -> Iterator[str]:
    """Yield the names of the modules in a folder."""
    # Not pkgutil, which takes 5 ms to import and asks `inspect` about each file.
    for entry in os.listdir(folder) if os.path.isdir(folder) else ():
        name, dot, suffix = entry.partition(".")
        is_module = dot + suffix in _SUFFIXES if dot else _is_package(os.path.join(folder, entry))
        if is_module:
            yield name


def _is_package(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "__init__.py"))


@cache
def table(module_file: str, name: str) -> dict[str, Any]:
    """Return the TOML table `name` next to the module whose ``__file__`` this is; read once."""
    import tomllib

    # Not importlib.resources, which costs 12 ms to import.
    return tomllib.loads(Path(module_file).with_name(f"{name}.toml").read_text(encoding="utf-8"))


@cache
def rows(module_file: str, name: str, kind: str) -> list[dict[str, Any]]:
    """Return the rows of one kind in the JSON table `name` next to a module; read once."""
    import json

    text = Path(module_file).with_name(f"{name}.json").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(text)[kind]
    return found


def load(package: str, *, entry_points: str | None = None) -> Registered:
    """Import every public module of `package`, and of the entry point group if one is named."""
    loaders: dict[str, Callable[[], ModuleType]] = {
        name: partial(importlib.import_module, f"{package}.{name}") for name in names(package)
    }
    if entry_points is not None:
        from importlib.metadata import entry_points as read

        loaders.update((point.name, point.load) for point in read(group=entry_points))
    modules: dict[str, ModuleType] = {}
    failures: list[LoadFailure] = []
    for name, loader in loaders.items():
        try:
            modules[name] = loader()
        except Exception as error:  # noqa: BLE001 - any failure of a foreign module is a record
            failures.append(LoadFailure(name, f"{type(error).__name__}: {error}"))
    return Registered(modules, tuple(failures))
