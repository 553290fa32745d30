"""Do the programs in the current folder import what is installed?"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from gpuforge import registry
from gpuforge.diagnose.checks.outgrown_packages import PACKAGES, needs, owner
from gpuforge.diagnose.distribution import normalised
from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.installed_modules import Module, Modules
from gpuforge.diagnose.module_demands import demands, is_in_text, line_of_import
from gpuforge.diagnose.outgrown_imports import FINDS, Walk
from gpuforge.diagnose.path_folders import folders_after, folders_before
from gpuforge.diagnose.read_imports import standard_folder, timed
from gpuforge.diagnose.site import NOT_RECORDED, Site
from gpuforge.facts import known

SUMMARY = "programs in this folder import what the installed packages have"

# Programs of a folder that are read, and modules that are followed from each of them.
PROGRAMS, MODULES, AT_MOST = 20, 20, 0.02
ENTRIES = 1000  # of a folder that are looked at for modules
# Larger programs hold data, and take seconds to read: each use is compared with all text before it.
LARGEST, MOST_USES = 1 << 18, 50
# Programs that other programs run, with modules of their own environments.
_RUN_BY_OTHERS = re.compile(
    r"(?:setup|conftest|noxfile|fabfile|tasks|dodo|conanfile|wscript|locustfile|test_\w+|\w+_test)"
)
_OF_PYTHON_2 = re.compile(rb"\n#![^\n]*python2")
_IS_MODULE = (".py", ".pyc", ".so", ".pyd")


@dataclass(frozen=True)
class Program:
    """A program in a folder, whose imports are followed like those of a package."""

    name: str
    packages: tuple[str, ...] = ()
    entry_points: str = ""

    @property
    def modules(self) -> tuple[str, ...]:
        return (f"{self.name}.py",)


def check(site: Site) -> Iterator[Finding]:
    """Yield each import in a program of the current folder that certainly fails."""
    if not site.live or site.environment.fault:
        yield Finding("skipped", NOT_RECORDED.reason if not site.live else site.environment.fault)
        return
    here = _folder(site)
    programs = _programs(site, here) if here else []
    if not here or not programs:
        yield Finding("skipped", "there is no program to read in the current folder")
        return
    modules, over = _modules(site, here), timed(AT_MOST)
    found, left = list[Finding](), len(programs)
    for number, name in enumerate(programs):
        if not site.thorough and (over() or number == PROGRAMS):
            break
        left -= 1
        module = modules.find(name)
        if module and module.path == str(here / f"{name}.py") and len(module.text) < LARGEST:
            found += _outgrown(site, modules, module, name)
            found += _not_installed(site, modules, module, here)
            found += _insufficient(site, module)
    yield from found
    if left:
        yield Finding(
            "skipped",
            f"{left} of {len(programs)} programs in the current folder are not read;"
            " 'gpuforge doctor project_programs' reads all",
        )
    elif not found:
        yield Finding("ok", "the programs read in the current folder import what is there")


def _folder(site: Site) -> Path | None:
    """Return the current folder; None if it is gone, the home folder or in the environment."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        return None
    return None if here == Path.home() or here.is_relative_to(site.environment.prefix) else here


def _programs(site: Site, here: Path) -> list[str]:
    names = [one for one in known(site.probe.list_dir(str(here))) or () if one.endswith(".py")]
    named = sorted(n[:-3] for n in names if n[:-3].isidentifier())
    return [name for name in named if not _RUN_BY_OTHERS.fullmatch(name)]


def _modules(site: Site, here: Path) -> Modules:
    """Return what programs in a folder import from; their own folder comes first."""
    project = site.environment.prefix.parent
    versions = {name: found[0] for name, found in site.packages.items() if len(found) == 1}
    places = (here, *folders_before(site), *site.environment.folders, *folders_after(site))
    # A program may be run with `-m`, or with PYTHONPATH, from a folder above it.
    above = (one for one in (*here.parents, project / "src") if one.is_relative_to(project))
    return Modules(
        dict.fromkeys((*places, *above)), standard_folder(site), site.environment.version, versions
    )


def _outgrown(site: Site, modules: Modules, module: Module, name: str) -> Iterator[Finding]:
    """Find what a program needs of a package that has it in another version."""
    told = {"", "python"} if _OF_PYTHON_2.match(module.text) else {""}
    for fault in Walk(Program(name), modules, MODULES).faults():
        other = owner(site, fault.module) if fault.module else "python"
        if other in told:
            continue
        told.add(other)
        have = site.environment.version if other == "python" else site.version(other)
        having = f"{'Python' if other == 'python' else other} {have}"
        message = f"{fault.path} needs {needs(fault)}, which {having} does not have"
        steps = (f"Change that line, or install a version of {other} that has it.",)
        evidence = (f"{fault.path}, line {fault.line}",)
        yield Finding("warning", message, "outgrown_package", evidence, steps)


def _not_installed(site: Site, modules: Modules, module: Module, here: Path) -> Iterator[Finding]:
    """Find what a program imports that nothing provides, or only a folder without modules.

    A program may be for another environment, unless this one is in the same project and has
    something else that the program imports.
    """
    tops = {written.partition(".")[0]: written for written, _ in demands(module.text)}
    outside = {top for top in tops if top and top not in sys.stdlib_module_names}
    project = site.environment.prefix.parent
    is_for_this = project != Path.home() and here.is_relative_to(project)
    is_for_this = is_for_this and any(owner(site, top) for top in outside)
    for top in sorted(outside):
        taken = _only_a_folder(modules, top, (here, *site.environment.folders))
        absent = is_for_this and modules.is_absent(top) and not FINDS.search(module.text)
        certain = module.tree if taken or absent else None
        line = line_of_import(certain, tops[top], "") if certain else 0
        if not line:
            continue
        message = f"{module.path} imports {top}, which is not installed"
        message += f": Python takes the folder {taken}, which has no modules" if taken else ""
        package = PACKAGES.get(top)
        steps = (f"Install the package that has this module{f': {package}' if package else ''}.",)
        cause = "shadowing_module" if taken else "requirement_missing"
        yield Finding("warning", message, cause, (f"{module.path}, line {line}",), steps)


def _only_a_folder(modules: Modules, top: str, places: tuple[Path, ...]) -> str:
    """Return the folder without any modules that is all that Python finds of that name, if so."""
    found = modules.find(top)
    folder = Path(found.folders[0]) if found and len(found.folders) == 1 else Path()
    if found is None or found.path or folder.parent not in places:
        return ""
    inside = list(islice(folder.rglob("*"), ENTRIES))
    is_all = len(inside) < ENTRIES and not any(map(Path.is_symlink, (folder, *inside)))
    is_left = all(one.is_dir() or one.suffix == ".pyc" for one in inside)
    bare = folder.parent == places[0] and not any(one.name.endswith(_IS_MODULE) for one in inside)
    return str(folder) * (is_all and (bare or is_left))


def _insufficient(site: Site, module: Module) -> Iterator[Finding]:
    """Find what a program uses of a package for which that needs more than is installed."""
    rows = registry.rows(__file__, "project_programs", "use")
    for row in (one for one in rows if one["of"] in site.packages):
        at = next(_uses(module.text, row), None)
        if at is None:
            continue
        given = (at[1] or b"").decode() if at.re.groups else ""
        if any(any(root.glob(one)) for root in _data(site) for one in row.get("files", ())):
            continue
        wanted = [one.format(given) for one in row.get("needs", row.get("files", ()))]
        if any(normalised(one) in site.packages for one in wanted):
            continue
        some = " or ".join(wanted[:3])
        message = f"{module.path} uses {row['of']} for {row['what'].format(given)}, which needs"
        message += f" {some}; that is not there"
        line = module.text.count(b"\n", 0, at.start())
        steps = (f"pip install {wanted[0]}" if "needs" in row else f"See {row['source']}",)
        evidence = (f"{module.path}, line {line}",)
        yield Finding("warning", message, "requirement_missing", evidence, steps)


def _uses(text: bytes, row: dict[str, Any]) -> Iterator[re.Match[bytes]]:
    imported = rf"(?m)^[ \t]*(?:from|import)\b[^\n]*\b(?:{row.get('module', row['of'])})\b"
    unless = row.get("unless", "(?!)")
    if re.search(imported.encode(), text) and not re.search(unless.encode(), text):
        found = islice(re.finditer(rf"(?<!def )(?:{row['like']})".encode(), text), MOST_USES)
        yield from (one for one in found if not is_in_text(text, one.start()))


def _data(site: Site) -> list[Path]:
    """Return the folders in which NLTK looks for its data."""
    own, system = site.environment.prefix, map(Path, ("/usr", "/usr/local"))
    above = [Path.home(), own, *(one / part for one in (own, *system) for part in ("share", "lib"))]
    named = site.probe.environ.get("NLTK_DATA", "").split(os.pathsep)
    return [*(one / "nltk_data" for one in above), *(Path(one) for one in named if one)]
