"""Are packages installed that overwrite each other's files?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuforge.compat.tables import entries
from gpuforge.compat.versions import at_least, parse_version
from gpuforge.diagnose.checks.gpu_builds import driver_cuda
from gpuforge.diagnose.checks.shadowing_modules import COMMON
from gpuforge.diagnose.distribution import Distribution, normalised
from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.path_folders import extends_path
from gpuforge.diagnose.read_imports import newest_python
from gpuforge.diagnose.repair import pip
from gpuforge.diagnose.site import Site
from gpuforge.facts import known

if TYPE_CHECKING:
    from gpuforge.changes.action import RunPip

SUMMARY = "no two packages install the same module"


def check(site: Site) -> Iterator[Finding]:
    """Yield each set of packages that overwrite each other's files."""
    found, shared = [], _shared(site)
    unlisted = any(not one.record for one in site.distributions)
    tables = entries("companions", "module") if shared or unlisted else ()
    for entry in tables:
        installed = [name for name in entry["packages"] if name in site.packages]
        # A package may only depend on another one of the set, as tensorflow does on some systems.
        holding = [name for name in installed if _holds(site, name, entry["name"])]
        if len(holding) > 1 and entry["name"] == "cupy":
            found.append(_cupy(site, holding))
        elif len(holding) > 1:
            found.append(_sharing(site, entry["name"], holding))
    for module in shared.keys() - {entry["name"] for entry in tables} - COMMON:
        found += _overwritten(site, module, shared[module])
    found += _of_one_library(site)
    found += _hidden(site)
    found += [_several(site, name) for name, versions in site.packages.items() if len(versions) > 1]
    found += _over_conda(site)
    yield from found or [Finding("ok", "no two packages install the same module")]


def _shared(site: Site) -> dict[str, dict[str, Distribution]]:
    """Return the modules that several packages install, with the packages by name."""
    found = dict[str, dict[str, Distribution]]()
    for one in site.distributions:
        modules = [path for path in one.packages if "/" not in path]
        if len(one.record) < 2**14:  # as of packages that are a single module
            modules += [path[:-3] for path in one.modules if "/" not in path]
        for module in (*modules, "cupy") if one.name.startswith("cupy") else modules:
            found.setdefault(module, {}).setdefault(one.name, one)
    return {module: several for module, several in found.items() if len(several) > 1}


def _overwritten(site: Site, module: str, several: dict[str, Distribution]) -> Iterator[Finding]:
    """Find a regular module for which several packages list different contents."""
    path, folders = f"{module}/__init__.py", {one.folder for one in several.values()}
    if all(one.entry(f"{module}.py") for one in several.values()):
        path = f"{module}.py"
    content = known(site.probe.read_bytes(str(folders.pop() / path)))
    # Parts of a namespace may have an empty module, but no part is named like the whole.
    is_namespace = content is None or extends_path(content)
    is_namespace |= content == b"" and normalised(module) not in several
    if not folders and not is_namespace and len({o.entry(path) for o in several.values()}) > 1:
        yield replace(_sharing(site, module, sorted(several)), repair=())


def _of_one_library(site: Site) -> Iterator[Finding]:
    """Find GPU libraries for two versions of CUDA of which one has overwritten the other."""
    owners, told = dict[str, tuple[str, int]](), set[str]()
    for one in site.distributions:
        for path, size in one.libraries if one.name.startswith("nvidia-") else ():
            first, other = owners.setdefault(f"{one.folder}/{path}", (one.name, size))
            if first != one.name and other != size and one.name not in told:
                told.add(one.name)
                name = path.rpartition("/")[2]
                yield replace(_sharing(site, name, sorted((first, one.name))), repair=())


def _hidden(site: Site) -> Iterator[Finding]:
    """Find modules that Python never imports, since a folder of another package precedes them."""
    for folder in site.environment.folders:
        names = set(known(site.probe.list_dir(str(folder))) or ())
        both = [n for n in names if f"{n}.py" in names and n not in COMMON]
        for module in sorted(both):
            file, package = f"{module}.py", f"{module}/__init__.py"
            here = [one for one in site.distributions if one.folder == folder]
            first = next((one.name for one in here if one.entry(package)), "")
            second = next((one.name for one in here if one.entry(file)), "")
            hides = first and second and first != second and (folder / package).is_file()
            if hides and not site.requirements.requires(first) and not _steps_aside(folder / file):
                message = f"the folder {module} of {first} hides {file} of {second}"
                evidence = (str(folder / module), str(folder / file))
                steps = (f"Remove {first}, if nothing needs it: pip uninstall -y {first}",)
                yield Finding("warning", message, "duplicate_module", evidence, steps)


def _steps_aside(path: Path) -> bool:
    """Return whether a module replaces itself, as pytest's ``py.py`` does where py is missing."""
    with suppress(OSError):
        return bool(re.search(rb"sys\.modules\[[\"']", path.read_bytes()))
    return False


def _over_conda(site: Site) -> Iterator[Finding]:
    """Find conda packages that pip or uv replaced with another version."""
    for path in sorted((site.environment.prefix / "conda-meta").glob("*-*-*.json")):
        name, have, _ = path.stem.rsplit("-", 2)
        one = site.distribution(normalised(name))
        same = one is None or (at_least(one.version, have) and at_least(have, one.version))
        if one and not same and one.installer in ("pip", "uv"):
            message = f"{one.installer} replaced conda's {name} {have} with {one.version}"
            steps = (f"pip uninstall {name}; conda install --force-reinstall {name}",)
            yield Finding("warning", message, "conda_overwritten", (str(path),), steps)


def _holds(site: Site, package: str, module: str) -> bool:
    installed = site.distribution(package)
    if installed is None:
        return False
    return module == "cupy" or not installed.record or f"{module}/".encode() in installed.record


def _cupy(site: Site, installed: list[str]) -> Finding:
    """Return the finding of several CuPy wheels; the repair keeps the one that fits the driver."""
    fitting = [name for name in installed if name == f"cupy-cuda{driver_cuda(site)}x"]
    keep = (fitting or sorted(installed))[-1]
    repair = (*pip(site, "uninstall", "-y", *installed), *pip(site, "install", keep))
    return of_cause("cupy_multiple_packages", "error", evidence=tuple(installed), repair=repair)


def _sharing(site: Site, module: str, installed: list[str]) -> Finding:
    message = f"{' and '.join(installed)} overwrite each other's files: all install {module}"
    keep = _to_keep(site, installed)
    there = filter(None, map(site.distribution, installed))
    kept = keep or max(there, key=newest_python).name  # the one that is looked after
    repair: tuple[RunPip, ...] = ()
    if keep:
        version = site.version(keep)
        repair = (*pip(site, "uninstall", "-y", *installed),
                  *pip(site, "install", f"{keep}=={version}"))  # fmt: skip
    steps = (f"Keep only one: pip uninstall -y {' '.join(installed)}; "
             f"pip install {kept}",)  # fmt: skip
    return Finding("warning", message, "duplicate_module", tuple(installed), steps, repair)


def _to_keep(site: Site, installed: list[str]) -> str:
    """Return the only one that other packages require; empty if there is none or several."""
    required = [name for name in installed if site.requirements.requires(name)]
    return required[0] if len(required) == 1 else ""


def _several(site: Site, name: str) -> Finding:
    versions = site.packages[name]
    message = f"{len(versions)} versions of {name} are installed"
    newest = f"{name}=={max(versions, key=parse_version)}"
    steps = (f"Reinstall it: pip install --force-reinstall --no-deps {newest}",)
    return Finding("warning", message, "several_versions", versions, steps)
