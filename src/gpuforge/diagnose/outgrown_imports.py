"""Imports of installed packages that fail because another package no longer has what they name."""

from __future__ import annotations

import collections.abc
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from gpuforge.diagnose.distribution import normalised
from gpuforge.diagnose.installed_modules import LOST_BUILT_IN, Module, Modules, absolute
from gpuforge.diagnose.lost_names import LOST
from gpuforge.diagnose.module_demands import (
    attributes,
    demands,
    inner_demands,
    line_of_call,
    line_of_import,
    line_of_inner_import,
    line_of_use,
    uses,
)

# What a package does not import, although it is installed beside it.
_ASIDE = frozenset(
    "benchmarks conftest doc docs examples sandbox setup test testing tests tools scripts".split()
)
# Modules whose functions may be for other versions only, or for nobody.
_OF_OTHERS = (
    r"(?:^|[._])(?:compat\w*|legacy|deprecated|externals?|extern|_?vendor\w*|third_party|six|py2"
    r"|conftest|tests?|testing|test_\w+|benchmarks?|examples?|docs?|tools|scripts)(?:[._]|$)"
)
_GUARDED = re.compile(
    rb"(?m)^[ \t]*(?:try|if\b[^\n]*):[^\n]*\n(?=((?:[ \t]+[^\n]*(?:\n|\Z)){1,5}))"
)
_IMPORT, _WORD = re.compile(rb"(?m)^[ \t]+(?:from|import)\b([^\n]*)"), re.compile(rb"\w+")
FINDS = re.compile(rb"\bsys\.(?:path|meta_path)\b|\baddsitedir\b|\bpath_hooks\b")
_ENTRY = re.compile(r"(?m)^[^#\[\n=]+=\s*([\w.]+)")
# What Python's own modules lost and programs use while they are imported. Other names of these
# modules are not looked up, since nearly every program uses some.
_LOST = {
    "ast": {"Bytes", "Ellipsis", "NameConstant", "Num", "Str"},
    "asyncio": {"AbstractChildWatcher", "FastChildWatcher", "SafeChildWatcher", "async",
                "coroutine", "get_child_watcher"},
    "base64": {"decodestring", "encodestring"},
    "collections": set(collections.abc.__all__),
    "collections.abc": {"ByteString"},
    "configparser": {"SafeConfigParser"},
    "fractions": {"gcd"},
    "gettext": {"bind_textdomain_codeset", "ldgettext", "lgettext", "lngettext"},
    "html.parser": {"HTMLParseError"},
    "importlib": {"find_loader"},
    "importlib.abc": {"Finder", "ResourceReader", "Traversable", "TraversableResources"},
    "importlib.util": {"module_for_loader", "set_loader", "set_package"},
    "inspect": {"ArgSpec", "formatargspec", "getargspec", "getmoduleinfo"},
    "locale": {"format", "resetlocale"},
    "logging": {"_levelNames"},
    "os": {"errno", "getcwdu", "popen2", "popen3"},
    "pkgutil": {"ImpImporter", "ImpLoader", "find_loader", "get_loader"},
    "platform": {"dist", "linux_distribution", "popen"},
    "plistlib": {"Data", "Dict", "Plist", "readPlist", "readPlistFromBytes", "writePlist"},
    "re": {"TEMPLATE", "template"},
    "sqlite3": {"OptimizedUnicode", "enable_shared_cache"},
    "ssl": {"RAND_pseudo_bytes", "match_hostname", "wrap_socket"},
    "string": {"join", "letters", "lowercase", "maketrans", "uppercase"},
    "tarfile": {"filemode"},
    "types": {"ClassType", "DictType", "IntType", "ListType", "StringType", "StringTypes",
              "UnicodeType"},
    "typing": {"ByteString", "io", "re"},
    "unittest": {"_TextTestResult", "findTestCases", "getTestCaseNames", "makeSuite"},
    "urllib": {"quote", "unquote", "urlencode", "urlopen", "urlretrieve"},
    "urllib.request": {"FancyURLopener", "URLopener"},
    "xml.etree": {"cElementTree"},
}  # fmt: skip
_OF_LOST = {name.partition(".")[0] for name in LOST}

# What only an older Python reads, at the start of a line: a fast first check, since these begin
# with literal text; the syntax tree decides.
_OLD = [re.compile(like) for like in (
    rb"print [\"'%\w]", rb"except [\w.]+, ?\w+ ?:", rb"raise \w+, ", rb"async ?(?:=[^=]|[,)])",
)]  # fmt: skip
ZEROS = "text instead of zero bytes"
OLD_SYNTAX = "syntax of an older Python"
THIN = 2  # how many modules a package reads, and none of others, of which users import the modules


@dataclass(frozen=True)
class Fault:
    """An import that fails.

    Attributes
    ----------
    root : the module whose import leads to it
    path : the file that it is in
    line : its line there
    module : the module from which something is taken
    name : what that module does not have; empty if the module does not exist
    called : whether it fails only once a function is called
    """

    root: str
    path: str
    line: int
    module: str
    name: str
    called: bool = False


class Importing(Protocol):
    """What imports others: an installed package, or the programs in a folder."""

    @property
    def name(self) -> str: ...
    @property
    def packages(self) -> tuple[str, ...]: ...
    @property
    def modules(self) -> tuple[str, ...]: ...
    @property
    def entry_points(self) -> str: ...


class Walk:
    """Follows the imports of one package from its top-level modules and entry points.

    Attributes
    ----------
    limit : how many of its modules are read at most; 0 for all of them, also those that it does
        not import itself
    outside : the top-level modules of other packages that it imports
    """

    def __init__(self, one: Importing, modules: Modules, limit: int) -> None:
        self.modules, self.limit = modules, limit
        self.outside: set[str] = set()
        self._own = tuple(_own_modules(one))
        self._inner = tuple(f"{own}." for own in self._own)
        self._main = _main_module(one, self._own)
        self._public = tuple(filter(self._is_own, _public_modules(one)))
        self._entries = tuple(filter(self._is_own, _ENTRY.findall(one.entry_points)))
        self._read: dict[str, Module] = {}
        self._via: dict[str, tuple[str, str]] = {}  # by whom a module is imported, and as what
        self._guarded: set[bytes] = set()  # the words of guarded imports in what was searched
        self._searched = 0
        self._perhaps: list[str] = []  # what its packages import under conditions

    def faults(self) -> Iterator[Fault]:
        """Yield the imports that certainly fail."""
        found, thin = list[Fault](), set[str]()
        for root in self._own:
            read, outside = len(self._read), set(self.outside)
            found += self._from(root)
            others = (n for n in self.outside - outside if not self.modules.is_standard(n))
            if len(self._read) <= read + THIN and not any(others):
                thin.add(root)
        found += (fault for root in self._entries for fault in self._from(root))
        for root in self._public:
            if not self.limit or root.rpartition(".")[0] in thin:
                faults = list(self._from(root))
                found += faults if faults and not self._is_guarded(root) else []
        reads_more = len(self._read) > len(self._own) + len(self._entries)
        for root in () if reads_more else self._perhaps:
            found += (fault for fault in self._from(root) if fault.called)
        yield from (fault for fault in found if not self._is_mended(fault))

    def _from(self, root: str) -> Iterator[Fault]:
        todo = [root]
        for name in todo:
            module = None if name in self._read else self.modules.find(name)
            if module is None or 0 < self.limit <= len(self._read):
                continue
            self._read[name] = module
            if module.text[1:2] == b"\0" and self._is_executed(name):
                yield Fault(root, module.path, 1, "", ZEROS)
            if root == self._main and self._is_old(name, module):
                yield Fault(root, module.path, 1, "", OLD_SYNTAX)
            for written, names in demands(module.text):
                if not (target := absolute(written, name, module)):
                    continue
                if self._is_own(target):
                    inside = self._inside(module, target, names)
                    self._via = dict.fromkeys(inside, (name, written)) | self._via
                    todo += inside
                else:
                    self.outside.add(target.partition(".")[0])
                    unmet = list(self._absent(root, module, written, target))
                    for taken, bound in names or [("", "")]:  # all names at once
                        unmet += self._unmet(module, written, target, taken, bound)
                    unmet = [one for one in unmet if not (one[-1] and re.search(_OF_OTHERS, name))]
                    if unmet and self._is_executed(name):
                        yield from (Fault(root, module.path, *one) for one in unmet)
            yield from self._inner_faults(root, name, module)

    def _inner_faults(self, root: str, name: str, module: Module) -> Iterator[Fault]:
        """Yield the imports of functions that fail, and note what is imported under conditions."""
        modules = self.modules
        for written, taken in inner_demands(module.text):
            if not (target := absolute(written, name, module)):
                continue
            if self._is_own(target):
                names = [(one, one) for one in taken]
                self._perhaps += self._inside(module, target, names) if module.folders else []
                continue
            self.outside.add(target.partition(".")[0])
            there, (parent, _, last) = modules.find(target), target.rpartition(".")
            known = [one for one in taken if self._has_lost(target, one)]
            lost = [one for one in known if there and modules.lacks(target, one)]
            lost += [""] if there is None and self._has_lost(parent, last) else []
            if lost and not re.search(_OF_OTHERS, name) and module.tree and self._is_executed(name):
                line = line_of_inner_import(module.tree, written, lost[0])
                yield from [Fault(root, module.path, line, target, lost[0], True)] if line else []

    def _has_lost(self, module_name: str, name: str) -> bool:
        """Return whether a module had a name in an older version.

        Functions that nobody calls often ask for what never was or for what other versions have.
        """
        return name in _LOST.get(module_name, ()) or self.modules.has_lost(module_name, name)

    def _is_old(self, name: str, module: Module) -> bool:
        """Return whether Python certainly cannot read a module, written for an older one."""
        is_own = self.modules.is_of_this_python and _looks_old(module.text)
        return is_own and module.tree is None and self._is_executed(name)

    def _is_executed(self, name: str) -> bool:
        """Return whether a module is imported by statements, not in a docstring."""
        while name in self._via:
            name, written = self._via[name]
            tree = self._read[name].tree
            if tree is None or not line_of_import(tree, written, ""):
                return False
        return True

    def _is_guarded(self, root: str) -> bool:
        """Return whether the package imports a module in a `try` or an `if`, as far as is read."""
        for module in islice(self._read.values(), self._searched, None):
            for lines in _GUARDED.findall(module.text):
                for names in _IMPORT.findall(lines):
                    self._guarded.update(_WORD.findall(names))
        self._searched = len(self._read)
        return root.rpartition(".")[2].encode() in self._guarded

    def _inside(self, module: Module, target: str, names: list[tuple[str, str]]) -> list[str]:
        """Return the modules of this package that an import statement imports, not read yet."""
        there = self.modules.find(target)
        found = _ancestors(target)
        if there is not None and there.folders:
            # What a package defines comes before its submodules; its own import is what defines it.
            taken = (n for n, _ in names if n and (there is module or not there.seems_to_define(n)))
            found += [f"{target}.{n}" for n in taken if self.modules.has_submodule(there, n)]
        return [name for name in found if name not in self._read]

    def _unmet(
        self, module: Module, written: str, target: str, taken: str, bound: str
    ) -> Iterator[tuple[int, str, str, bool]]:
        """Yield what a module does not get of another package: the line, from where, and what.

        The last value is whether it is asked for only by a function.
        """
        modules = self.modules
        there = modules.find(target)
        if taken and modules.lacks(target, taken):
            missing = [(target, taken)]
        elif there is None and target not in LOST_BUILT_IN:
            missing = [(target, "")] if modules.is_gone(target) else []
        else:
            missing, used = [], self._as_module(target, taken, bound) if bound else ""
            yield from self._unmet_uses(module, bound, used) if used else ()
        for of, name in missing:
            at = line_of_import(module.tree, written, taken) if module.tree else 0
            yield from [(at, of, name, False)] if at else []

    def _unmet_uses(
        self, module: Module, bound: str, used: str
    ) -> Iterator[tuple[int, str, str, bool]]:
        """Yield what a module asks of another one, and of the modules in that, without success."""
        modules, text = self.modules, module.text
        names = attributes(text, bound)
        for name in names if used.partition(".")[0] in _OF_LOST else ():
            if f"{used}.{name}" in LOST:
                yield from self._unmet_uses(module, f"{bound}.{name}", f"{used}.{name}")
        for name in names & _LOST.get(used, LOST_BUILT_IN.get(used, names)):
            if not modules.seems_to_lack(used, name):
                continue
            at_once, in_function = uses(text, bound, name)
            if (at_once or in_function) and modules.lacks(used, name) and (tree := module.tree):
                lazy = modules.has_lazy_annotations
                line = at_once and line_of_use(tree, bound, name, lazy_annotations=lazy)
                called = in_function and not line and self._has_lost(used, name)
                later = called and line_of_call(tree, bound, name)
                yield from [(line or later, used, name, not line)] if line or later else []

    def _absent(
        self, root: str, module: Module, written: str, target: str
    ) -> Iterator[tuple[int, str, str, bool]]:
        """Yield the line of an import, and of what, if nothing that is installed has the module.

        Of other modules than the one named like the package, this is no fault: a plugin imports the
        program that loads it.
        """
        if root == self._main and self.modules.is_absent(target):
            line = line_of_import(module.tree, written, "") if module.tree else 0
            yield from [(line, target.partition(".")[0], "", False)] if line else []

    def _as_module(self, target: str, taken: str, bound: str) -> str:
        """Return the module whose names are used through what is imported; empty if none."""
        if target not in (*_LOST, *LOST_BUILT_IN) and self.modules.is_standard(target):
            return ""
        if not taken:
            return target if bound != target.partition(".")[0] or "." not in target else bound
        there = self.modules.find(target)
        held = there is not None and self.modules.has_submodule(there, taken)
        return f"{target}.{taken}" if held else ""

    def _is_own(self, target: str) -> bool:
        return target.startswith(self._inner) or target in self._own

    def _is_mended(self, fault: Fault) -> bool:
        """Return whether the package itself adds what is missing."""
        if not fault.module:
            return False
        module, name = re.escape(fault.module.encode()), fault.name.encode()
        adds = rb"sys\.modules\[['\"]%b['\"]\]" % module
        adds += rb"|\.%b\s*=[^=]|setattr\([^\n]*\b%b\b" % (name, name) if name else b""
        texts = [read.text for read in self._read.values()]
        if self.modules.is_absent(fault.module) and any(FINDS.search(text) for text in texts):
            return True
        return any(re.search(adds, text) for text in texts)


def _looks_old(text: bytes) -> bool:
    """Return whether a line of a module starts as only older Pythons read it."""
    for like in _OLD:
        for found in like.finditer(text):
            before = text[text.rfind(b"\n", 0, found.start()) + 1 : found.start()].strip()
            if not before or found[0].startswith(b"async"):
                return True
    return False


def _main_module(one: Importing, own: tuple[str, ...]) -> str:
    """Return the module that users of a package import; empty if that is not clear."""
    named = [name for name in own if normalised(name) == one.name]
    public = [name for name in own if not name.startswith("_")]
    return next(iter(named or (public if len(public) == 1 else [])), "")


def _own_modules(one: Importing) -> Iterator[str]:
    """Yield the packages and modules that are not inside others of the same distribution."""
    packages = set(one.packages)
    for path in (*one.packages, *(m[:-3] for m in one.modules if "/" not in m)):
        parts = path.split("/")
        inside = any("/".join(parts[:end]) in packages for end in range(1, len(parts)))
        if not inside and not _ASIDE & set(parts) and all(part.isidentifier() for part in parts):
            yield ".".join(parts)


def _public_modules(one: Importing) -> Iterator[str]:
    """Yield the modules that users may import."""
    for path in one.modules:
        parts = path[:-3].removesuffix("/__init__").split("/")
        if not any(part.startswith("_") or part in _ASIDE for part in parts):
            yield ".".join(parts)


def _ancestors(name: str) -> list[str]:
    """Return a module and the packages that it is in, which are imported first."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
