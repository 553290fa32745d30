"""Does an installed package need what a later version of another one no longer has?"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpuforge.compat.breakages import Breakage, breakages
from gpuforge.diagnose.distribution import Distribution, normalised
from gpuforge.diagnose.finding import Finding, State
from gpuforge.diagnose.installed_modules import REMOVED
from gpuforge.diagnose.outgrown_imports import ZEROS
from gpuforge.diagnose.plain_requirement import EXTRA
from gpuforge.diagnose.read_imports import newest_python, oldest_python, read_imports
from gpuforge.diagnose.repair import pip, reinstall
from gpuforge.diagnose.site import Site
from gpuforge.units import counted

if TYPE_CHECKING:
    from gpuforge.changes.action import RunPip
    from gpuforge.diagnose.outgrown_imports import Fault

SUMMARY = "no installed package needs what another one no longer has"

SECONDS = 60.0

# Other tools may install packages that are patched under the same version.
INSTALLS_AS_RELEASED = ("pip", "uv", "poetry", "pdm")


# The packages that some modules are in. Of others, no name is guessed: anyone may have taken it.
PACKAGES = {
    "bs4": "beautifulsoup4", "Crypto": "pycryptodome", "cv2": "opencv-python",
    "dateutil": "python-dateutil", "dotenv": "python-dotenv", "faiss": "faiss-cpu",
    "fitz": "pymupdf", "git": "GitPython", "jwt": "PyJWT", "MySQLdb": "mysqlclient",
    "OpenSSL": "pyOpenSSL", "PIL": "pillow", "pkg_resources": "'setuptools<82'",
    "serial": "pyserial", "six": "six", "skimage": "scikit-image", "sklearn": "scikit-learn",
    "umap": "umap-learn", "yaml": "PyYAML", "zmq": "pyzmq",
}  # fmt: skip


def check(site: Site) -> Iterator[Finding]:
    """Yield the packages that do not work with the installed version of another one.

    The table comes first, since it also says which versions work.
    """
    versions = {name: found[0] for name, found in site.packages.items() if len(found) == 1}
    named = set()
    for row in breakages(versions | {"python": site.environment.version}):
        one = site.distribution(row.package)
        pair = row.package, row.other
        if one and pair not in named and _as_released(one) and not _is_unmet(site, row):
            named.add(pair)
            yield _outgrown(site, one, row)
    left = 0
    if site.live and not site.environment.fault:
        imports = read_imports(site)
        left = len(imports.left)
        for name, faults in imports.faults.items():
            for other, finding in _failing(site, name, faults).items():
                if (name, other) not in named:
                    named.add((name, other))
                    yield finding
    if left:
        yield Finding(
            "skipped",
            f"the imports of {counted(left, 'package')} are not read yet; each run reads some,"
            " 'gpuforge doctor outgrown_packages' reads all",
        )
    elif not named:
        yield Finding("ok", "every package imports only what the others have")


def _failing(site: Site, name: str, faults: list[Fault]) -> dict[str, Finding]:
    """Return the findings of imports that fail, one for each package that they fail for."""
    found = dict[str, Finding]()
    one = site.distribution(name)
    for fault in sorted(faults, key=lambda fault: fault.called) if one else ():
        if one and fault.name == ZEROS:  # as after a power failure, with the size unchanged
            message = f"{name} {one.version} is incomplete: a module of it holds only zero bytes"
            again = f"Reinstall it: pip install --force-reinstall --no-deps {name}=={one.version}"
            found[fault.path] = Finding("error", message, "package_incomplete", (fault.path,),
                                        (again,), reinstall(site, one))  # fmt: skip
            continue
        other = owner(site, fault.module) if fault.module else "python"
        if one is None or other in (name, *found):
            continue
        told = fault.path in [f"{one.folder}/{path}" for path in one.starts]
        too_new = oldest_python(one) > int(site.environment.version.split(".")[1])
        if (other == "python" and too_new) or (other == "setuptools" and told):
            continue  # which package_versions reports
        if not other:
            undeclared = None if found else _undeclared(site, one, fault)
            found |= {fault.module: undeclared} if undeclared else {}
            continue
        if not _counts_on(site, one, other, fault) or (
            fault.called and _is_newer(site, one, other)
        ):
            continue
        row = Breakage(
            package=name,
            versions="",
            other=other,
            others="",
            needs=needs(fault),
            use=_use(fault, is_main=fault.root in one.import_names),
            source=f"{fault.path}, line {fault.line}",
        )
        if not _is_unmet(site, row):
            found[other] = _outgrown(site, one, row)
    return found


def _use(fault: Fault, *, is_main: bool) -> str:
    """Return what fails; empty if importing the package does."""
    if fault.called:
        return f"a function in {Path(fault.path).name}"
    return "" if is_main else f"importing {fault.root}"


def needs(fault: Fault) -> str:
    """Return what an import that fails asks for."""
    of = f"{fault.module}." if fault.module else ""
    return f"{of}{fault.name}" if fault.name else f"the module {fault.module}"


def _undeclared(site: Site, one: Distribution, fault: Fault) -> Finding | None:
    """Return the finding of a package that imports what is not installed and not required by it.

    Not of one that another package requires, which may import it only where the rest is there:
    IPython brings matplotlib-inline, and works without Matplotlib.
    """
    is_main = not fault.name and fault.root in one.import_names
    if not is_main or "." in fault.module or fault.module in site.packages:
        return None
    if any(unmet.package == one.name for unmet in site.unmet()):
        return None  # which another check reports
    if site.requirements.requires(one.name):
        return None
    message = f"{one.name} {one.version} imports {fault.module}, which is not installed"
    package = PACKAGES.get(fault.module)
    install = f": pip install {package}" if package else f"; see the documentation of {one.name}"
    steps = (f"Install the package that has this module{install}",)
    evidence = (f"{fault.path}, line {fault.line}",)
    return Finding(
        "warning", f"{message}; it cannot be imported", "requirement_missing", evidence, steps
    )


def owner(site: Site, module: str) -> str:
    """Return the package that a module belongs to, or ``python``; empty if unknown."""
    top, path = module.partition(".")[0], module.replace(".", "/")
    if top in sys.stdlib_module_names or top in REMOVED:
        return "python"
    if top == "pkg_resources" and "setuptools" in site.packages:
        return "setuptools"
    while path:
        for one in site.distributions:
            if one.entry(f"{path}/__init__.py") or one.entry(f"{path}.py"):
                return one.name
        path = path.rpartition("/")[0]
    return ""


def _counts_on(site: Site, one: Distribution, other: str, fault: Fault) -> bool:
    """Return whether a package may count on another one where an import fails."""
    if other in ("python", "pytest") or fault.root in one.import_names:
        return True  # pytest imports all its plugins, which need not require it
    todo, seen = [one.name], set[str]()
    while todo:
        lines = site.requirement_lines.get(todo.pop(), ())
        names = (re.split(r"[^\w.-]", line)[0] for line in lines if not EXTRA.search(line))
        needed = set(map(normalised, names)) - seen
        todo += needed
        seen |= needed
    return other in seen


def _is_newer(site: Site, one: Distribution, other: str) -> bool:
    """Return whether a package is newer than another one, and may ask for what a later one has."""
    there = site.distribution(other)
    return there is not None and newest_python(one) > newest_python(there)


def _as_released(one: Distribution) -> bool:
    """Return whether it is certainly what the index has under that version."""
    return one.installer.split(" ")[0] in INSTALLS_AS_RELEASED and not one.origin


def _is_unmet(site: Site, row: Breakage) -> bool:
    """Return whether the package's own metadata say it, which check package_versions reports."""
    return any(one.package == row.package and one.needed == row.other for one in site.unmet())


def _outgrown(site: Site, one: Distribution, row: Breakage) -> Finding:
    is_python = row.other == "python"
    have = site.environment.version if is_python else site.version(row.other)
    other = f"{'Python' if is_python else row.other} {have}"
    fails = f"{row.use} fails" if row.use else "it cannot be imported"
    message = f"{one.name} {one.version} needs {row.needs}, which {other} does not have; {fails}"
    state: State = "warning" if row.use else "error"
    repair = () if is_python and not row.fixed else _repair(site, row)
    steps = tuple(_steps(row)) if row.versions else (_step(row),)
    return Finding(state, message, "outgrown_package", (row.source,), steps, repair)


def _step(row: Breakage) -> str:
    """Return what to do where the versions that work are not known."""
    upgrade = f"pip install --upgrade {row.package}"
    way = "an older Python" if row.other == "python" else f"another version of {row.other}"
    return f"Upgrade {row.package}: {upgrade}. If that does not help, it needs {way}."


def _ways(row: Breakage) -> list[tuple[str, str]]:
    """Return the packages of which other versions help, with these versions, best first."""
    ways = [(row.package, f">={row.fixed}")] if row.fixed else []
    # Where another package helps, an older version of this one may be too old for all others.
    ways += [(row.other, row.works_with)] if row.works_with and not row.helps else []
    return ways if row.works_with.startswith("<") else ways[::-1]  # rather newer than older


def _steps(row: Breakage) -> Iterator[str]:
    if row.helps:
        yield f"Install {row.helps}: pip install {row.helps}"
    for number, (name, versions) in enumerate(_ways(row)):
        start = "Or install" if number or row.helps else "Install"
        if name == "python":
            yield f"{start} Python {versions} in another environment: gpuforge env create --python"
        else:
            yield f"{start} another {name}: pip install '{name}{versions}'"


def _repair(site: Site, row: Breakage) -> tuple[RunPip, ...]:
    """Return the first way that the requirements of all installed packages allow."""
    for name, versions in _ways(row):
        bounds = None if name == "python" else site.requirements.bounds(name, versions)
        if bounds is not None:
            kept = row.other if name == row.package else row.package
            fixed = () if kept == "python" else (f"{kept}=={site.version(kept)}",)
            return pip(site, "install", "--upgrade", f"{name}{bounds}", *fixed)
    return ()
