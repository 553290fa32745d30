"""What variables must hold, by the rules of a table: values, files, packages, libraries."""

from __future__ import annotations

import codecs
import mmap
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatch, translate
from itertools import islice
from pathlib import Path
from typing import Any

from gpuforge.compat.versions import RELEASE, at_least, meets
from gpuforge.diagnose.distribution import normalised
from gpuforge.diagnose.site import Site
from gpuforge.diagnose.table_paths import first_existing, is_writable
from gpuforge.facts import known

# A Python with fewer files in ``lib-dynload`` has its modules built in.
BUILT_APART = 30
NEAR = 5000  # entries in and below the current folder that are looked at
Entry = dict[str, Any]
_PIN = re.compile(r"\s*([\w.-]+)\s*((?:[<>=!~]=?[\d.*, ]+)+)(?:#.*)?")


class VariableRules:
    """Says what is wrong with the values of variables on one machine."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def fault(self, entry: Entry, name: str, value: str) -> str:
        """Return the fault of a value by one entry of the table; empty if it has none."""
        if not self._applies(entry) or not re.fullmatch(entry.get("if", "(?s:.*)"), value):
            return ""
        for rule in (self._valued, self._flagged, self._needing, self._linking, self._misnamed,
                     self._empty_handed, self._outdated, self._pinned, self._warned):  # fmt: skip
            if found := rule(entry, name, value):
                return found
        return ""

    def _applies(self, entry: Entry) -> bool:
        site, packages = self._site, entry.get("packages")
        here = site.probe.platform
        if (entry.get("posix") and here == "win32") or entry.get("system", here) != here:
            return False
        if packages and not any(name in site.packages for name in packages):
            return False
        if any(site.probe.environ.get(name) for name in entry.get("unless_set", ())):
            return False
        if (library := entry.get("beside_library")) and not any(
            library in path for one in site.distributions for path, _ in one.libraries
        ):
            return False
        if "here" in entry and not _are_near(entry["here"]):
            return False
        package, clauses = entry.get("versions", ("", ""))
        if package and not meets(self._version(package) or "", clauses):
            return False
        package, first = entry.get("since", ("", "0"))
        have = self._version(package)
        # The second comparison knows pre-releases, but has to import a parser.
        return not package or not have or meets(have, f">={first}") or at_least(have, first)

    def _version(self, package: str) -> str | None:
        """Return the version of a package, or of Python itself."""
        site = self._site
        return site.environment.version if package == "python" else site.version(package)

    def _valued(self, entry: Entry, name: str, value: str) -> str:
        """Find a value that does not look as it must, or names a module that is not there."""
        fits = re.fullmatch(entry.get("value", ".*"), value, re.DOTALL) and _is_codec(entry, value)
        module = re.fullmatch(entry.get("module", "(?!)"), value)
        if fits and module:
            fits = not self._site.lacks_module(module[1])
        return "" if fits else f"packages cannot use {name}={value}"

    def _flagged(self, entry: Entry, name: str, value: str) -> str:
        """Find a flag that does not occur in the library that parses it."""
        flags = re.findall(entry["flags"], value) if "flags" in entry else []
        one = self._site.distribution(entry["packages"][0]) if flags else None
        sizes = {size: path for path, size in one.libraries} if one else {}
        if not one or not sizes:
            return ""
        with open(one.folder / sizes[max(sizes)], "rb") as file:
            held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with held:
            unknown = next((flag for flag in flags if held.find(f"{flag}\0".encode()) < 0), "")
        return unknown and f"{name} sets {unknown}, a flag that {one.name} rejects"

    def _needing(self, entry: Entry, name: str, value: str) -> str:
        """Find a value that needs a package which is not installed."""
        if (self._site.environment.prefix / "conda-meta").is_dir():
            return ""  # conda splits packages differently
        for some in _chosen(entry, "needs", value):
            if not any(map(self._site.distribution, some)):
                return f"{name}={value} needs {' or '.join(some[:2])}, which is not installed"
        return ""

    def _linking(self, entry: Entry, name: str, value: str) -> str:
        """Find a value that needs a library, program or network interface that is not there."""
        site = self._site
        for some in _chosen(entry, "library", value) if site.loader.cached else ():
            if not any(map(site.loader.has, some)):
                return f"{name}={value} needs {some[0].strip('*')}, which this system does not have"
        for some in _chosen(entry, "program", value):
            if not any(isinstance(site.probe.find_program(one), str) for one in some):
                return f"{name}={value} needs the program {some[0]}, which is not installed"
        for some in _chosen(entry, "extension", value):
            if not any(map(self._has_extension, some)):
                return f"{name}={value} needs the module {some[0]}, which this Python lacks"
        there = known(site.probe.list_dir("/sys/class/net")) if "interface" in entry else None
        wanted = [part.lstrip("=").split(":")[0] for part in value.split(",") if part]
        if there and value[:1] != "^" and wanted and not any(
            one.startswith(part) for part in wanted for one in there
        ):  # fmt: skip
            return f"{name} names the network interface {wanted[0]}, which does not exist"
        return ""

    def _misnamed(self, entry: Entry, name: str, value: str) -> str:
        """Find the name of a program, file or folder that does not exist."""
        what, path = entry.get("names", ""), Path(os.path.expanduser(value))
        if not what or "://" in value:
            return ""
        lacks = ""
        if what == "program":
            found = os.path.exists(path) or isinstance(
                self._site.probe.find_program((value.split() or [""])[0]), str
            )
            lacks = "" if found else "a program that does not exist"
        elif what == "file":
            lacks = "" if os.path.exists(path) else "a file that does not exist"
        elif what == "folder":  # or several of them
            lacks = "" if any(_folders(value)) else "a folder that does not exist"
        elif what == "placed":  # a file that is opened to be written
            usable = not os.path.isdir(path) and (os.path.exists(path) or path.parent.is_dir())
            lacks = "" if usable else "a file that cannot be created: its folder does not exist"
        elif not (what == "made" and os.path.isdir(path)):  # an existing cache may be read-only
            there = first_existing(path)
            usable = there.is_dir() and is_writable(there)
            lacks = "" if usable else "a folder that cannot be written"
        return lacks and f"{name} points to {lacks}"

    def _empty_handed(self, entry: Entry, name: str, value: str) -> str:
        """Find a folder without what it is named for, or a file with another content."""
        wanted = entry.get("holds", ())
        if wanted and not any(any(one.glob(part)) for one in _folders(value) for part in wanted):
            return f"{name} points to a folder without {' or '.join(wanted[:2])}"
        above = entry.get("under", "")
        if os.path.isdir(above) and not os.path.exists(os.path.join(above, value.lstrip(":"))):
            return f"{name}={value} names {entry['what']} that {above} does not have"
        sections = "\n".join(self._text(one) for one in entry.get("section_of", ()))
        named = rf"(?m)^\s*\[\s*(?:profile\s+)?['\"]?{re.escape(value)}['\"]?\s*\]"
        if "section_of" in entry and not re.search(named, sections):
            return f"{name}={value} names a section that {entry['section_of'][0]} does not have"
        content = known(self._site.probe.read_bytes(value)) if "contains" in entry else None
        if content is not None and not re.search(entry["contains"].encode(), content):
            return f"{name} points to a file that is not {entry['what']}"
        return ""

    def _outdated(self, entry: Entry, name: str, value: str) -> str:
        """Find a database of PROJ that is older than the library of an installed package."""
        if "layout_of" not in entry:
            return ""
        path = next(
            (one / "proj.db" for one in _folders(value) if (one / "proj.db").is_file()), None
        )
        for package in entry["layout_of"] if path else ():
            one = self._site.distribution(package)
            own = [f for f in one.files if f.endswith("/proj.db")] if one else []
            have, need = _layout(path), _layout(one.folder / own[0]) if one and own else 0
            if 0 < have < need:
                return (
                    f"{name} points to the data of an older PROJ (layout {have}) than {package}'s"
                    f" own ({need}), which refuses it"
                )
        return ""

    def _pinned(self, entry: Entry, name: str, value: str) -> str:
        """Find a file of constraints that excludes what is installed."""
        for line in self._text(value).splitlines() if "pins" in entry else ():
            pin = _PIN.fullmatch(line)
            have = self._site.version(normalised(pin[1])) if pin else None
            if pin and have and RELEASE.fullmatch(have) and not meets(have, pin[2]):
                return f"{name} allows only {pin[1]} {pin[2].strip()}, but {have} is installed"
        return ""

    def _warned(self, entry: Entry, name: str, value: str) -> str:
        """Find a value that is valid and keeps things from working as one expects."""
        for like, text in entry.get("warns", {}).items():
            if re.fullmatch(like, value):
                return f"{name}={value} {text}"
        listed = re.fullmatch(entry.get("listed", "(?!)"), value)
        one = self._site.distribution(entry["packages"][0]) if listed else None
        if listed and one and one.record:
            wanted = entry["as"].format(listed[1])
            if not any(fnmatch(path, wanted) for path, _ in one.libraries):
                return (
                    f"{name}={value} names {wanted}, which {one.name} {one.version} does not have"
                )
        return ""

    def _text(self, path: str) -> str:
        return known(self._site.probe.read_text(os.path.expanduser(path))) or ""

    def _has_extension(self, name: str) -> bool:
        """Return whether the Python of the environment has a compiled module of its own."""
        environment = self._site.environment
        above = environment.home.parent if environment.home else environment.prefix
        minor = ".".join(environment.version.split(".")[:2])
        there = {
            one.name.partition(".")[0] for one in above.glob(f"lib/python{minor}/lib-dynload/*")
        }
        return name in there or len(there) <= BUILT_APART


def _folders(value: str) -> Iterator[Path]:
    """Yield the folders that exist among those that a value lists."""
    for one in value.split(os.pathsep):
        if one and os.path.exists(os.path.expanduser(one)):
            yield Path(os.path.expanduser(one))


def _chosen(entry: Entry, kind: str, value: str) -> list[list[str]]:
    """Return what the parts of a value ask for, each as a list of what serves."""
    asks = entry.get(kind, {})
    parts = value.split(",") if asks else []
    return [asks[like] for part in parts for like in asks if re.fullmatch(like, part)]


def _is_codec(entry: Entry, value: str) -> bool:
    try:
        return "codec" not in entry or bool(codecs.lookup(value.partition(":")[0] or "utf-8"))
    except LookupError:
        return False


def _layout(path: Path | None) -> int:
    """Return the minor version of the layout of a database of PROJ; 0 if it is unknown."""
    import sqlite3

    try:
        database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
        try:
            ask = "SELECT value FROM metadata WHERE key = 'DATABASE.LAYOUT.VERSION.MINOR'"
            return int(database.execute(ask).fetchone()[0])
        finally:
            database.close()
    except (sqlite3.Error, TypeError, ValueError):
        return 0


def _are_near(names: Iterable[str]) -> bool:
    """Return whether one is in the current folder, in one in that, or in one in its ``src``."""
    like = re.compile("|".join(map(translate, names)))
    return any(map(like.match, islice(_near(), NEAR)))


def _near() -> Iterator[str]:
    todo = ["."]
    for folder in todo:
        with suppress(OSError), os.scandir(folder) as entries:
            for one in entries:
                yield one.name
                if folder in (".", "./src") and one.is_dir():
                    todo.append(one.path)
