"""The imports of all installed packages, read once and kept until a package changes."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from gpuforge import __version__, settings
from gpuforge.diagnose.distribution import Distribution
from gpuforge.diagnose.installed_modules import REMOVED, Modules
from gpuforge.diagnose.outgrown_imports import Fault, Walk
from gpuforge.diagnose.site import Site
from gpuforge.digest import digest
from gpuforge.log import logger
from gpuforge.stored import Damaged, sealed, unsealed, write

# What one run of doctor may spend, in seconds of processor time and four times as many of the
# clock, and how many modules of a package it reads. What is left is read by the next run, or if
# the check is named. Most faults are in old releases, which come first.
SECONDS, MODULES = 0.06, 150
_log = logger("diagnose")
_REQUIRES = re.compile(r"\nRequires-Python:[^\n]*>=? *3\.(\d+)")
_SUPPORTS = re.compile(r"\nClassifier: Programming Language :: Python :: 3\.(\d+)")


@dataclass
class Imports:
    """What was read.

    Attributes
    ----------
    faults : the imports that fail, by package
    left : the packages that the next run reads
    """

    faults: dict[str, list[Fault]] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


def read_imports(site: Site) -> Imports:
    """Read the imports of the packages that changed, as many as there is time for."""
    versions = {name: found[0] for name, found in site.packages.items() if len(found) == 1}
    folders, python = site.environment.folders, site.environment.version
    modules = Modules(folders, standard_folder(site), python, versions)
    path = os.environ.get("PYTHONPATH", "")
    place, of = _place(site), f"{__version__} {python} {path}"
    kept = _load(place).get(of, {})
    found, packages = Imports(), {one.name: one for one in site.distributions if one.record}
    stamps = _Stamps(modules, list(packages.values()))
    current = {n: kept[n] for n, one in packages.items() if n in kept and stamps.fit(one, kept[n])}
    if site.thorough:
        current = {name: entry for name, entry in current.items() if entry["all"]}
    over = timed(SECONDS)
    todo = sorted((one for name, one in packages.items() if name not in current), key=_age)
    for one in todo:
        if not site.thorough and over():
            found.left.append(one.name)
            continue
        walk = Walk(one, modules, 0 if site.thorough else MODULES)
        try:
            faults = [astuple(fault) for fault in walk.faults()]
        except Exception as error:  # noqa: BLE001 - one odd package must not hide the others'
            _log.info("the imports of %s cannot be read: %r", one.name, error)
            faults = []
        current[one.name] = {
            "of": stamps.of(one), "all": site.thorough, "faults": faults,
            "with": {n: stamps.of_module(n) for n in sorted(walk.outside) if stamps.may_change(n)},
        }  # fmt: skip
    found.faults = {n: [Fault(*one) for one in e["faults"]] for n, e in current.items()}
    if todo and len(found.left) < len(todo):
        with suppress(OSError):  # the next run reads them again
            text = json.dumps({of: current}, separators=(",", ":"))
            write(place, sealed(text), parents=True, durable=False)
    return found


def timed(seconds: float) -> Callable[[], bool]:
    """Return a function that tells whether that much time was spent since."""
    processor, clock = time.thread_time(), time.monotonic()
    return lambda: (
        time.thread_time() - processor > seconds or time.monotonic() - clock > 4 * seconds
    )


def standard_folder(site: Site) -> Path | None:
    """Return the folder of the modules that belong to the environment's Python."""
    home, minor = site.environment.home, ".".join(site.environment.version.split(".")[:2])
    prefix = home.parent if home else site.environment.prefix
    folder = prefix / "lib" / f"python{minor}"
    return folder if (folder / "os.py").exists() else None


def newest_python(one: Distribution) -> int:
    """Return the minor version of the newest Python that a package names, which tells its age.

    A package that names only the oldest one was made when there were about three newer ones.
    """
    known = [int(minor) for minor in _SUPPORTS.findall(one.metadata)]
    oldest = oldest_python(one)
    return max(known, default=oldest + 3 if oldest else 0)


def oldest_python(one: Distribution) -> int:
    """Return the minor version of the oldest Python that a package asks for; 0 for any."""
    found = _REQUIRES.search(one.metadata)
    return int(found[1]) if found else 0


def _age(one: Distribution) -> tuple[bool, int, int]:
    """Return what sorts packages that need others by their age."""
    return not one.requirements, newest_python(one), len(one.record)


class _Stamps:
    """What changes when a package or a module is replaced."""

    def __init__(self, modules: Modules, packages: list[Distribution]) -> None:
        self._modules, self._packages = modules, packages
        self._known: dict[str, str] = {}

    def of(self, one: Distribution) -> str:
        return f"{one.version} {self._of_file(f'{one.info}/RECORD')}"

    def of_module(self, name: str) -> str:
        module = self._modules.find(name)
        if module is None:
            return self._of_path_files
        if module.path:
            return self._of_file(module.path)
        if "" not in self._known:  # several packages may be in a folder without `__init__.py`
            self._known[""] = digest("".join(map(self.of, self._packages)))
        return self._known[""]

    @cached_property
    def _of_path_files(self) -> str:
        """What changes when a file that may add a missing module is added or replaced."""
        return digest(" ".join(f"{one} {self._of_file(one)}" for one in self._modules.path_files))

    def may_change(self, name: str) -> bool:
        """Return whether a module is not one of this version of Python."""
        return name in REMOVED or not self._modules.is_standard(name)

    def fit(self, one: Distribution, entry: dict[str, Any]) -> bool:
        """Return whether what was kept about a package still holds."""
        return bool(entry["of"] == self.of(one)) and all(
            self.of_module(name) == stamp for name, stamp in entry["with"].items()
        )

    def _of_file(self, path: str) -> str:
        if path not in self._known:
            try:
                status = os.stat(path)
                self._known[path] = f"{status.st_mtime_ns}.{status.st_size}"
            except OSError:
                self._known[path] = ""
        return self._known[path]


def _place(site: Site) -> Path:
    folder = settings.cache_folder(settings.load().settings) / "doctor"
    return folder / f"imports-{digest(str(site.environment.prefix))}.json"


def _load(place: Path) -> dict[str, Any]:
    """Return what was kept; empty if there is nothing, or if it is damaged."""
    try:
        found = json.loads(unsealed(place.read_text(encoding="utf-8")))
    except (OSError, Damaged, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
