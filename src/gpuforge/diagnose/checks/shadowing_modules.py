"""Does a file of the project, or a folder in PYTHONPATH, shadow a module of the same name?"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gpuforge.diagnose.distribution import distributions_in
from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.path_folders import extends_path, folders_after
from gpuforge.diagnose.site import Site
from gpuforge.facts import known

SUMMARY = "no file or variable hides an installed module"
LIVE = True

# Names of projects' own folders and files that nothing else imports.
COMMON = {"test", "tests", "docs", "doc", "examples", "example", "scripts", "tools", "setup",
          "conftest", "benchmarks", "build", "src", "utils", "config", "main", "app", "helpers",
          "settings", "constants", "version", "_version", "versioneer"}  # fmt: skip
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
SHOWN = 5
OF_PYTHON = "of the standard library"


def check(site: Site) -> Iterator[Finding]:
    """Yield the modules in the current folder or PYTHONPATH that shadow installed ones."""
    modules = dict.fromkeys(sys.stdlib_module_names, OF_PYTHON)
    for folder in site.environment.folders:
        for name in known(site.probe.list_dir(str(folder))) or ():
            modules.setdefault(name.removesuffix(".py"), f"installed in {folder}")
    entries = site.probe.environ.get("PYTHONPATH", "").split(os.pathsep)
    added = [Path(entry).absolute() for entry in entries if entry]
    found = [f for folder in added for f in _packages_of_others(site, folder, "PYTHONPATH")]
    found += _packages_of_the_user(site)
    found += _hidden_parts(site, added)
    inner = [folder for folder in added if _is_inside_package(folder, site)]
    found += [f for folder in inner for f in _inside_package(site, folder, modules)]
    others = [one for one in added if one not in inner and not _holds_packages(one)]
    for folder in dict.fromkeys([*_current(), *others]):
        if not _is_library(folder, site):
            found += _hiding(site, folder, modules)
    yield from found or [Finding("ok", "no installed module is hidden")]


def _current() -> list[Path]:
    """Return the current folder; empty if it was removed."""
    try:
        return [Path.cwd()]
    except OSError:
        return []


def _hiding(site: Site, folder: Path, modules: dict[str, str]) -> Iterator[Finding]:
    for hit, module in _hits(site, folder, modules):
        named = hit.parent if hit.name == "__init__.py" else hit
        steps = (f"Rename {named}, and remove the folder "
                 f"__pycache__ beside it; or start Python in another folder.",)  # fmt: skip
        message = f"{hit} hides the module {module} {modules[module]}"
        yield Finding("error", message, "shadowing_module", (str(hit),), steps)


def _is_inside_package(folder: Path, site: Site) -> bool:
    """Return whether a folder is the inside of an installed package."""
    inside = folder.parent in site.environment.folders or folder.parent.name == "site-packages"
    return inside and (folder / "__init__.py").is_file()


def _inside_package(site: Site, folder: Path, modules: dict[str, str]) -> Iterator[Finding]:
    """Find the inside of a package on PYTHONPATH, whose modules become ones of the top level."""
    hits = list(_hits(site, folder, modules))
    if hits:
        names, first = [module for _, module in hits], hits[0][1]
        message = (
            f"PYTHONPATH holds the inside of the package {folder.name}, {folder}: its"
            f" {', '.join(names[:SHOWN])} hide the modules of the same names, such as {first}"
            f" {modules[first]}"
        )
        steps = ("Remove it from PYTHONPATH: what is needed is the folder above, if any.",)
        evidence = tuple(str(hit) for hit, _ in hits[:SHOWN])
        yield Finding("error", message, "shadowing_module", evidence, steps)


def _hits(site: Site, folder: Path, modules: dict[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield the modules in a folder that hide others of the same name."""
    names = known(site.probe.list_dir(str(folder))) or ()
    # The source of an installed project is the same package, not another one.
    is_project = any(name in names for name in PROJECT_FILES)
    for name in names:
        module = name.removesuffix(".py")
        if module not in modules or module in COMMON or not module.isidentifier():
            continue
        is_file = name.endswith(".py")
        hit = folder / name if is_file else folder / name / "__init__.py"
        if hit.is_file() and (is_file or not (is_project and _is_whole(site, module, hit.parent))):
            yield hit, module


def _is_whole(site: Site, module: str, source: Path) -> bool:
    """Return whether a package works from its source: pure Python, or built in place."""
    if not any(one.libraries for one in site.distributions if module in one.packages):
        return True
    return any(path.suffix in (".so", ".pyd") for path in source.rglob("*.*"))


def _hidden_parts(site: Site, added: list[Path]) -> Iterator[Finding]:
    """Find packages in a namespace, of which another folder makes a package that has no parts."""
    folders = [*dict.fromkeys((*added, *site.environment.folders, *folders_after(site)))]
    listed = {one: set(known(site.probe.list_dir(str(one))) or ()) for one in folders}
    made = [n for one in folders for n in listed[one] if n.endswith("-nspkg.pth")]
    count = Counter(name for one in folders for name in listed[one] if name.isidentifier())
    for name in sorted(name for name, times in count.items() if times > 1 and name not in COMMON):
        there = [one / name for one in folders if name in listed[one]]
        whole = next((one for one in there if (one / "__init__.py").is_file()), None)
        content = known(site.probe.read_bytes(f"{whole}/__init__.py")) if whole else None
        if whole is None or content is None or extends_path(content):
            continue
        if any(one.startswith((f"{name}_", f"{name}-")) for one in made):
            continue  # which makes the namespace before anything is imported
        for part in (one for one in there if not (one / "__init__.py").exists()):
            for hidden in sorted(_packages_in(part) - _packages_in(whole))[:1]:
                message = f"{whole}/__init__.py hides {name}.{hidden} of {part}"
                steps = (
                    f"Delete {whole}/__init__.py, if no package lists it as its own; or put the"
                    f" packages of {part.parent} into the same folder.",
                )
                yield Finding("error", message, "shadowing_module", (str(part / hidden),), steps)


def _packages_in(folder: Path) -> set[str]:
    """Return the packages in a folder; none if it cannot be read."""
    try:
        return {one.name for one in folder.iterdir() if (one / "__init__.py").is_file()}
    except OSError:
        return set()


def _packages_of_the_user(site: Site) -> Iterator[Finding]:
    """Find packages of ``pip install --user`` that shadow those of an environment."""
    environ, version = site.probe.environ, site.environment.version.split(".")[:2]
    if site.environment.kind == "virtual environment" or environ.get("PYTHONNOUSERSITE"):
        return
    base = Path(environ.get("PYTHONUSERBASE") or Path.home() / ".local")
    folder = base / "lib" / f"python{'.'.join(version)}" / "site-packages"
    yield from (f for f in _packages_of_others(site, folder, "pip install --user") if f.evidence)


def _packages_of_others(site: Site, folder: Path, by: str) -> Iterator[Finding]:
    """Find packages in another folder that shadow those of this environment."""
    if not _holds_packages(folder) or folder in site.environment.folders:
        return
    hidden = sorted({
        f"{one.name} {one.version} instead of {', '.join(site.packages[one.name])}"
        for one in distributions_in(folder, site.probe)
        if one.name in site.packages and (one.version,) != site.packages[one.name]
    })  # fmt: skip
    standard = dict.fromkeys(sys.stdlib_module_names, OF_PYTHON)
    hits = list(_hits(site, folder, standard)) if by == "PYTHONPATH" else []
    hidden[:0] = [f"{module} instead of the standard library's" for _, module in sorted(hits)]
    if not hidden and not _holds_packages(folder, ".dist-info"):
        return
    message = f"{by} puts the packages of {folder} before those of this environment"
    message += f"; {hits[0][0]} hides the module {hits[0][1]} {OF_PYTHON}" if hits else ""
    evidence = tuple(hidden[:SHOWN])
    steps = ("Unset PYTHONPATH, or remove that folder from it.",)
    if by != "PYTHONPATH":
        steps = (f"Set PYTHONNOUSERSITE=1, or remove those packages from {folder}.",)
    yield Finding("error" if hidden else "warning", message, "shadowing_module", evidence, steps)


def _holds_packages(folder: Path, *ends: str) -> bool:
    """Return whether a folder has installed packages; projects have an ``.egg-info`` as well."""
    ends = ends or (".dist-info", ".egg-info")[: 1 + folder.name.endswith("-packages")]
    try:
        return any(name.endswith(ends) for name in os.listdir(folder))
    except OSError:
        return False


def _is_library(folder: Path, site: Site) -> bool:
    """Return whether a folder is a package folder, rather than one of a project."""
    return folder in site.environment.folders or folder.name in ("site-packages", "dist-packages")
