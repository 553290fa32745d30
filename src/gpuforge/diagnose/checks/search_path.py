"""Do the folders and modules that an environment adds to Python's import path still exist?"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gpuforge.diagnose.distribution import Distribution
from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.site import Site
from gpuforge.facts import known
from gpuforge.probe.files import text_of

SUMMARY = "the folders and modules that the environment adds to the search path exist"
LIVE = True

CUSTOMISING = ("sitecustomize.py", "usercustomize.py")
_IMPORT = re.compile(
    r"^(?:import|from)[ \t]+(\w+)[\w.]*\s*(?:;|$|import\b)|__import__\(['\"](\w+)['\"]\)"
)
_VARIABLE = re.compile(r"\bos\.environ\[['\"](\w+)['\"]\](?!\s*=[^=])")
_NAMESPACE = re.compile(r"\['sitedir'\], \*\(([^)]*)\)\)")
_MAPPING = re.compile(r"^MAPPING\b[^=\n]*= (\{.*\})$", re.M)


def check(site: Site) -> Iterator[Finding]:
    """Yield each ``.pth`` file and editable package that refers to something missing."""
    # A ``.pth`` file usually names the folder of an editable package, too: report it only once.
    found = dict((*_lines(site), *_editable(site)))
    yield from found.values() or [Finding("ok", "everything on the search path exists")]


def _editable(site: Site) -> Iterator[tuple[str, Finding]]:
    for one in site.distributions:
        try:
            table = json.loads(one.origin or "{}")
            url = urlsplit(table["url"]) if table.get("dir_info", {}).get("editable") else None
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # pip writes this file only for other tools, so an unreadable one is harmless
        folder = Path(unquote(url.path)) if url and url.scheme == "file" else None
        if folder and not folder.is_dir():
            message = f"{one.name} is installed from {folder}, which does not exist"
            steps = (f"Install it from its new folder: pip install -e FOLDER; or remove it: "
                     f"pip uninstall {one.name}",)  # fmt: skip
            yield one.name, Finding("error", message, "source_gone", (str(one.info),), steps)
        elif folder and (gone := _lost_tool(one)):
            message = f"{one.name} is built on import by {gone}, which does not exist"
            steps = (
                f"Install its build tools, then run: pip install --no-build-isolation -e {folder}",
            )
            yield one.name, Finding("error", message, "source_gone", (str(one.info),), steps)
        elif folder and (lost := _lost_modules(one)):
            message = f"the modules of {one.name} are no longer in {folder}: {', '.join(lost)}"
            steps = (f"Install the project again: pip install -e {folder}",)
            yield one.name, Finding("error", message, "source_gone", (str(one.info),), steps)


def _lost_tool(one: Distribution) -> str:
    """Return the build tool that the loader of an editable package runs, if it does not exist."""
    for file in (name for name in one.files if name.endswith("_editable_loader.py")):
        text = known(one.probe.read_text(str(one.folder / file))) or ""
        for path in re.findall(r"['\"](/[^'\"\n]*/bin/[^'\"\n]+)['\"]", text):
            if not Path(path).exists():
                return str(path)
    return ""


def _lost_modules(one: Distribution) -> list[str]:
    """Return the modules of an editable package that are not where its files say.

    The build backend writes the folder of all modules, or a table with the path of each.
    """
    names, places = one.top_level, list[Path]()
    for file in (name for name in one.files if name.endswith((".pth", "_finder.py"))):
        text = known(one.probe.read_text(str(one.folder / file))) or ""
        if mapping := _MAPPING.search(text):
            places += map(Path, ast.literal_eval(mapping[1]).values())
        elif file.endswith(".pth") and not text.startswith("import"):
            places += [Path(line) / name for line in text.splitlines() for name in names]
    there = {
        place.name for place in places for path in (place, *place.parent.glob(f"{place.name}.*"))
        if (path.is_dir() if path == place else path.suffix in (".py", ".so", ".pyd"))
    }  # fmt: skip
    return sorted({place.name for place in places} - there)


def _undecodable(content: bytes) -> str:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return str(error)
    return "it contains null characters" if b"\0" in content else ""


def _failing(site: Site, path: Path, modules: set[str], line: str) -> str:
    """Return why Python cannot run a line of a ``.pth`` file; empty if nothing shows that.

    The lines that setuptools wrote for namespaces look for their folder as for a module.
    """
    if fault := unreadable(line.encode()):
        return fault
    imports = (node for node in ast.parse(line).body if isinstance(node, ast.Import))
    tops = {one.name.partition(".")[0] for node in imports for one in node.names}
    if lacking := sorted(tops - modules):
        return f"the module {lacking[0]} is not installed"
    named = () if re.search(r"\b(?:try|if|in|get)\b", line) else _VARIABLE.findall(line)
    if unset := [name for name in named if name not in site.probe.environ]:
        return f"the variable {unset[0]} is not set"
    space = _NAMESPACE.search(line) if "module_from_spec(" in line else None
    parts = re.findall(r"['\"]([\w.-]+)['\"]", space[1]) if space else []
    if parts and not path.parent.joinpath(*parts).is_dir():
        return f"the namespace {'.'.join(parts)} has no folder any more"
    return ""


def unreadable(text: bytes) -> str:
    """Return why Python cannot read the text of a module; empty if it can."""
    try:
        ast.parse(text)
    except SyntaxError as error:
        return f"invalid syntax: {error.msg}"
    except (ValueError, RecursionError) as error:
        return str(error)
    return ""


def _imports_in(content: bytes) -> list[str]:
    """Return the lines of a module's imports, unless it changes where modules are found."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return []  # which is reported on its own
    if b"sys.path" in content:
        return []
    return [ast.unparse(one) for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)]


def _is_folder(path: Path) -> bool:
    """Return whether there is a folder that can be listed."""
    return os.path.isdir(path) and os.access(path, os.R_OK)


def _lines(site: Site) -> Iterator[tuple[str, Finding]]:
    """Find lines in ``.pth`` files and ``sitecustomize`` that refer to something missing."""
    own, named = site.environment.folders, site.probe.environ.get("PYTHONPATH", "")
    for folder in (*own, *(Path(one) for one in named.split(os.pathsep) if one)):
        names = known(site.probe.list_dir(str(folder))) or ()
        hooks = [n for n in names if (n.endswith(".pth") and folder in own) or n in CUSTOMISING]
        modules = {n.partition(".")[0] for n in names if n not in hooks} | sys.stdlib_module_names
        for name in hooks:
            path, adds = folder / name, name.endswith(".pth")
            starts = ("import ", "import\t") if adds else ("import ", "from ")
            content = known(site.probe.read_bytes(str(path))) or b""
            if adds and (fault := _undecodable(content)):
                message = f"{path} is not valid UTF-8, so Python does not start: {fault}"
                steps = (f"Save {path} as UTF-8, or delete it.",)
                yield str(path), Finding("error", message, "search_path_gone", (str(path),), steps)
            elif not adds and (fault := unreadable(content)):
                steps = (f"Correct {path}, or delete it.",)
                message = f"{path} cannot be run: {fault}"
                yield str(path), Finding("error", message, "search_path_gone", (str(path),), steps)
            lines = text_of(content).splitlines() if adds else _imports_in(content)
            added = [p for line in lines if line and (p := folder / line) and _is_folder(p)]
            modules |= {one.partition(".")[0] for p in added for one in os.listdir(p)}
            for number, line in enumerate(lines, 1):
                runs, place = line.startswith(starts), line.strip()
                wanted = {a or b for a, b in _IMPORT.findall(line) if runs and "except" not in line}
                if lacking := {m for m in wanted - modules if adds or site.lacks_module(m)}:
                    what = f"names the module {lacking.pop()}, which is not installed"
                elif adds and runs and (fault := _failing(site, path, modules, line)):
                    what = f"fails in line {number}, and what follows is ignored: {fault}"
                elif adds and place and not runs and (
                    not line.startswith("#") and not os.path.exists(folder / place)
                ):  # fmt: skip
                    what = f"names {place}, which does not exist"
                else:
                    continue
                steps = (f"Correct the line in {path}, or delete the file.",)
                of = re.search(r"__editable__[._](\w+)-", name)
                finding = Finding("warning", f"{path} {what}", "search_path_gone", (line,),
                                  steps)  # fmt: skip
                yield of[1].replace("_", "-").lower() if of else f"{path}: {line}", finding
