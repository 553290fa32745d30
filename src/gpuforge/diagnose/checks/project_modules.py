"""Can modules beside the packages be imported: not made for another Python, not hidden?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gpuforge.diagnose.distribution import Distribution
from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.path_folders import folders_after, folders_before
from gpuforge.diagnose.site import Site
from gpuforge.facts import known

SUMMARY = "modules of projects are for this Python, and none is hidden"
LIVE = True

# The first number of compiled modules from each Python on (Lib/importlib/_bootstrap_external.py).
MAGIC = ((3390, "3.7"), (3400, "3.8"), (3420, "3.9"), (3430, "3.10"), (3450, "3.11"),
         (3500, "3.12"), (3550, "3.13"), (3600, "3.14"), (3650, "3.15"))  # fmt: skip
OF_PYTHON_2 = 20000  # and above
OLDEST_CHECKED, NEWEST_CHECKED = (3, 8), (3, 14)
# Names that a project may give its own modules, and that no package for others should have.
UNSPECIFIC = {"utils", "util", "tools", "config", "configs", "src", "app", "main", "scripts", "lib",
              "common", "helpers", "core", "models", "model", "data", "settings"}  # fmt: skip
# Names of folders with tests, which a package may have by mistake. Tools that run tests put the
# folder of the project first, so this matters only for a folder that a user put on the path.
OF_TESTS = {"tests", "test"}
# Folders of these names without ``__init__.py`` hold programs or files, as a rule.
NOT_IMPORTED = {"scripts", "src", "tools", "data", "config", "configs", "lib"}
_TAGGED = re.compile(r"(\w+)\.(?:cpython-|cp)(3\d+)[a-z]*-[\w-]+\.(?:so|pyd)")


def check(site: Site) -> Iterator[Finding]:
    """Yield each module of a project that Python cannot import, or finds elsewhere."""
    first, last = folders_before(site), folders_after(site)
    found = [finding for folder in (*first, *last) for finding in _of_other_pythons(site, folder)]
    found += [finding for one in site.distributions for finding in _without_source(site, one)]
    found += [finding for folder in first for finding in _hidden(site, folder, regular=False)]
    found += [finding for folder in last for finding in _hidden(site, folder, regular=True)]
    for folder in folders_after(site, by_hand=True):
        if folder not in first:
            found += _hidden(site, folder, OF_TESTS, regular=True)
    yield from found or [Finding("ok", "no module of a project is hidden or of another Python")]


def _of_other_pythons(site: Site, folder: Path) -> Iterator[Finding]:
    """Find modules in a folder that were compiled for another Python, without a fitting one."""
    names = known(site.probe.list_dir(str(folder))) or ()
    have = set(names)
    for name in names:
        stem = name.partition(".")[0]
        alone = name == f"{stem}.pyc" and not any(
            one.startswith(f"{stem}.") for one in have - {name}
        )
        version = _other_version(site, folder / name) if alone and stem not in have else ""
        if version:
            yield _foreign(folder / name, version)
    tagged = [found for name in names if (found := _TAGGED.fullmatch(name))]
    own = "".join(site.environment.version.split(".")[:2])
    for found in tagged:
        if any(any(there.glob(f"{found[1]}*")) for there in site.environment.folders):
            continue  # Python goes on to that one
        fits = {one[2] for one in tagged if one[1] == found[1]} | {
            own for end in ("", ".py", ".so", ".pyd", ".abi3.so") if f"{found[1]}{end}" in have
        }
        if own and own not in fits:
            yield _foreign(folder / found[0], f"{found[2][0]}.{found[2][1:]}")
            return


def _without_source(site: Site, one: Distribution) -> Iterator[Finding]:
    """Find a package that consists of modules compiled by another Python."""
    if b".pyc," not in one.record or not one.files:
        return
    plain = [path for path in one.files if path.endswith(".pyc") and "__pycache__" not in path]
    path = next((path for path in plain if not one.entry(path[:-1])), "")
    if path and (version := _other_version(site, one.folder / path)):
        yield _foreign(one.folder / path, version)


def _foreign(path: Path, version: str) -> Finding:
    message = f"{path} was compiled for Python {version}, and there is none for this Python"
    steps = (f"Delete {path}, or put its source or a build for this Python there.",)
    return Finding("warning", message, "module_of_another_python", (str(path),), steps)


def _other_version(site: Site, path: Path) -> str:
    """Return the version of another Python that compiled a module; empty if it is this one."""
    own = tuple(map(int, re.findall(r"\d+", site.environment.version)[:2]))
    try:
        with open(path, "rb") as file:
            head = file.read(4)
    except OSError:
        return ""
    if head[2:] != b"\r\n" or not OLDEST_CHECKED <= own <= NEWEST_CHECKED:
        return ""
    magic = int.from_bytes(head[:2], "little")
    older = "2" if magic >= OF_PYTHON_2 else "3.6 or older"
    found = (name for start, name in reversed(MAGIC) if start <= magic < OF_PYTHON_2)
    version = next(found, older)
    return "" if version == ".".join(map(str, own)) else version


def _hidden(
    site: Site, folder: Path, names: set[str] = UNSPECIFIC, *, regular: bool
) -> Iterator[Finding]:
    """Find modules of a project instead of which Python imports those of a package.

    A folder without ``__init__.py`` comes after every package, wherever it is on the path.
    """
    for name in known(site.probe.list_dir(str(folder))) or ():
        module = name.removesuffix(".py")
        if module not in names or (not regular and module in NOT_IMPORTED):
            continue
        place = folder / name
        is_package = (place / "__init__.py").is_file()
        own = regular and (name.endswith(".py") or is_package)
        own = own or (not is_package and place.is_dir() and any(place.glob("*.py")))
        for there in site.environment.folders if own else ():
            for hit in (there / module / "__init__.py", there / f"{module}.py"):
                if hit.is_file():
                    message = f"import {module} finds {hit}, not {place}"
                    steps = (f"Rename {place}, or remove the package that brings {hit}.",)
                    yield Finding("warning", message, "shadowing_module", (str(hit),), steps)
                    return
