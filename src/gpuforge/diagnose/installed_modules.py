"""Which modules are installed and which names they define, read from their text.

Nothing is imported. A name counts as missing only if its module certainly does not define it:
compiled modules, and modules that compute their names, may define any.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gpuforge.compat.versions import at_least
from gpuforge.diagnose.lost_names import is_lost
from gpuforge.diagnose.module_attributes import defined_names, may_provide, parsed
from gpuforge.facts import known
from gpuforge.probe.files import read

# Modules that Python no longer has (PEP 594 and others), with the first version without them.
REMOVED = {
    **dict.fromkeys(("asynchat", "asyncore", "distutils", "imp", "smtpd"), "3.12"),
    **dict.fromkeys(
        "aifc audioop cgi cgitb chunk crypt imghdr lib2to3 mailcap nis nntplib ossaudiodev"
        " pipes sndhdr spwd sunau telnetlib uu xdrlib".split(),
        "3.13",
    ),
}
OF_PYTHON_2 = frozenset(
    "BaseHTTPServer CGIHTTPServer ConfigParser Cookie HTMLParser Queue SimpleHTTPServer"
    " SocketServer StringIO Tkinter UserDict UserList UserString __builtin__ anydbm binhex"
    " cPickle cStringIO commands cookielib copy_reg dbhash dummy_thread dummy_threading"
    " exceptions formatter gdbm htmlentitydefs httplib macpath md5 parser popen2 repr"
    " robotparser sets sha symbol thread tkFileDialog tkMessageBox ttk urllib2 urlparse"
    " xmlrpclib".split()
)
# Modules that are always there, or were Python's own. Where `pkg_resources` comes from is the
# finding of another check.
PYTHONS_OWN = (
    sys.stdlib_module_names
    | OF_PYTHON_2
    | {*REMOVED, "__main__", "msilib", "pkg_resources", "setuptools"}
)
# What built-in modules, whose text cannot be read, lost up to Python 3.9.
LOST_BUILT_IN = {
    "itertools": {"ifilter", "ifilterfalse", "imap", "izip", "izip_longest"},
    "sys": {"getcheckinterval", "maxint", "setcheckinterval", "setdefaultencoding"},
    "time": {"clock"},
}
OF_EVERY_MODULE = frozenset(
    "__annotations__ __builtins__ __cached__ __dict__ __doc__ __file__ __loader__ __name__"
    " __package__ __path__ __spec__ __warningregistry__".split()
)
LONG_LINE = 1000
_WORDS = frozenset(bytes([n]) for n in range(128) if bytes([n]).isalnum()) | {b"_"}
_LISTED = re.compile(rb"\(?[\w\s,]*")  # as on a line of names that are imported
_ASSIGNED = re.compile(rb"=(?!=)")
_DEFINES = (b"def", b"class", b"async def")
_STAR = re.compile(rb"\n[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]*\(?[ \t]*\*")
# Names may be added to a module by these, and modules or folders of modules to a package.
_COMPUTED = re.compile(
    rb"globals\(\)(?!\.keys|\.get|\[[^\]\n]*\](?!\s*=[^=]))|locals\(\)\.|vars\(\)|global_enum"
    rb"|\bexec\((?!\w+, ?\w+\)|\))|\b_convert_?\(|sys\.modules\[__name__|import_module\(__name__"
    rb"|setattr\(\s*(?:sys\.|_*(?:this_)?mod(?:ule)?\b)"
)
# Names that such modules defined, but never compute.
_WRITTEN_OUT = {
    "matplotlib.cm": {"get_cmap", "register_cmap", "unregister_cmap"},
    "pydantic": {"BaseSettings", "ConstrainedStr", "PyObject"},
    "pydantic.fields": {"ModelField"},
    "pydantic.main": {"ModelMetaclass"},
}
# A module that gets names from a list that is written in it, and one of `transformers`, which has
# the names that its file contains as text.
_FROM_LIST = re.compile(
    rb"for (\w+) in ([\[(][^\])]{0,4000}[\])]):(?:[^\n]*\n){1,4}?[ \t]+globals\(\)\[\1\] ="
)
_LAZY = re.compile(
    rb"sys\.modules\[__name__\]\s*=\s*_LazyModule\((?!(?s:.)*define_import_structure)"
)
# A function gets the module's name, and may replace the module by one with other names.
_REMADE = re.compile(rb"(?<!getLogger)(?<!_logger)(?<!_getattr)\((?:\s|#[^\n]*\n)*__name__\s*[,)]")
_BUILDS = re.compile(
    rb"sys\.(?:meta_path|modules\[['\"][^\]\n]*\]\s*=[^=]|modules\.(?:update|setdefault))"
)
_STUBBED = b"attach_stub("
_ELSEWHERE = (b"sys.modules", b"__path__", b"meta_path", b"declare_namespace")


@dataclass(frozen=True, eq=False)
class Module:
    """An installed module.

    Attributes
    ----------
    path : its file; empty if it is compiled, or a folder without ``__init__.py``
    folders : where its submodules are; empty if it is no package
    """

    path: str
    folders: tuple[str, ...] = ()

    @cached_property
    def text(self) -> bytes:
        """The content of its file, after an empty line; empty if there is none."""
        content = known(read(self.path, self.path)) if self.path else None
        text = b"" if content is None else b"\n" + content
        return text.replace(b"\r\n", b"\n") if b"\r" in text else text

    @cached_property
    def stub(self) -> bytes:
        """The text of the stub beside it, if it provides the names of that when asked for them."""
        content = known(read(f"{self.path}i", f"{self.path}i")) if _STUBBED in self.text else b""
        return b"" if not content else b"\n" + content

    @cached_property
    def tree(self) -> ast.Module | None:
        """Its syntax tree; None if this Python cannot parse it."""
        return parsed(self.text[1:])

    @cached_property
    def is_computed(self) -> bool:
        """Whether it may have names that its text does not define."""
        return not self.text or None is not _COMPUTED.search(
            _FROM_LIST.sub(b"", _LAZY.sub(b"", self.text))
        )

    @cached_property
    def is_elsewhere(self) -> bool:
        """Whether it may have submodules that are not in its folders, or other modules' names."""
        return any(word in self.text for word in _ELSEWHERE)

    @cached_property
    def stars(self) -> list[str]:
        """The modules of which it imports all names, as they are written."""
        return [one.decode() for one in _STAR.findall(self.text)]

    def seems_to_define(self, name: str) -> bool:
        """Return whether a line of it looks as if it defined a name."""
        return _seems_bound(self.text, name.encode()) or _seems_bound(self.stub, name.encode())

    def may_pass_on(self, name: str) -> bool:
        """Return whether ``import *`` may take a name of it that begins with an underscore."""
        listed = re.search(rb"['\"]%b['\"]|__all__(?!\s*=\s*[\[(])" % name.encode(), self.text)
        return not self.text or listed is not None

    def may_define(self, name: str) -> bool:
        """Return whether it defines a name or may provide it when asked for it."""
        if _STUBBED in self.text and (not self.stub or name.encode() in self.stub):
            return True
        written = re.search(rb"\b%b\b" % name.encode(), self.text) is not None
        if not written and b"__getattr__" not in self.text:
            return False
        if self.tree is None or (written and _LAZY.search(self.text)):
            return True
        if any(name.encode() in found[2] for found in _FROM_LIST.finditer(self.text)):
            return True
        quoted = rb"['\"]%b['\"]" % name.encode()
        if _REMADE.search(self.text) and re.search(quoted, self.text):
            return True
        by_function = re.search(rb"\bglobal\b[^\n]*\b%b\b" % name.encode(), self.text)
        return bool(name in self._names or by_function or may_provide(self.tree, name))

    @cached_property
    def _names(self) -> frozenset[str]:
        return defined_names(self.tree) if self.tree else frozenset()


UNKNOWN = Module("")


class Modules:
    """The modules of an environment.

    Parameters
    ----------
    folders
        Where packages are installed, in the order in which they are searched.
    standard
        The folder of Python's own modules; None if it is unknown.
    python
        The version of Python.
    versions
        The versions of packages of which one is installed.
    """

    def __init__(
        self,
        folders: Iterable[Path],
        standard: Path | None,
        python: str,
        versions: Mapping[str, str] | None = None,
    ) -> None:
        self._versions = versions or {}
        self._standard = (str(standard), f"{standard}/lib-dynload") if standard else ()
        self._python = python
        self._folders = (*self._standard, *map(str, folders))
        self._listed: dict[str, dict[str, str]] = {}
        self._found: dict[str, Module | None] = {}
        self._starred: dict[str, list[Module | None]] = {}
        self._seeming: dict[tuple[str, str], bool] = {}
        self._lacking: dict[tuple[str, str], bool] = {}
        self._in_folder: dict[str, list[Module]] = {}

    def find(self, name: str) -> Module | None:
        """Return the module of that dotted name; None if it certainly does not exist."""
        if name not in self._found:
            self._found[name] = self._search(name)
        return self._found[name]

    def has_submodule(self, module: Module, name: str) -> bool:
        """Return whether a package has a module or folder of that name."""
        return any(self._entry(folder, name) for folder in module.folders)

    @cached_property
    def path_files(self) -> list[str]:
        """The ``.pth`` files, which may add modules."""
        return [
            str(path) for folder in self._folders for path in sorted(Path(folder).glob("*.pth"))
        ]

    def is_standard(self, name: str) -> bool:
        """Return whether it is a module of Python itself."""
        found = self.find(name.partition(".")[0])
        known = name.partition(".")[0] in sys.stdlib_module_names
        return found.path.startswith(self._standard) if found and found.path else known

    def is_gone(self, name: str) -> bool:
        """Return whether a module that does not exist was removed, rather than never installed."""
        parent = name.rpartition(".")[0]
        found = self.find(parent) if parent else None
        if parent and found is None:
            return self.is_gone(parent)
        if found:
            return bool(found.path)
        if name == "pkg_resources":  # https://setuptools.pypa.io/en/stable/history.html#v82-0-0
            return at_least(self._versions.get("setuptools", "0"), "82")
        since = REMOVED.get(name, "")
        return bool(self._standard and since and at_least(self._python, since))

    def is_absent(self, name: str) -> bool:
        """Return whether nothing that is installed, or that Python is told of, has that module."""
        top = name.partition(".")[0]
        if self.find(top) or not self._standard or top in PYTHONS_OWN:
            return False
        folders, hooks = self._added
        return top.encode() not in hooks and not any(self._entry(one, top) for one in folders)

    @cached_property
    def _added(self) -> tuple[list[str], bytes]:
        """The folders of ``PYTHONPATH`` and ``.pth`` files, and the text of what the latter run."""
        folders, hooks = os.environ.get("PYTHONPATH", "").split(os.pathsep), b""
        for path in self.path_files:
            text = known(read(path, path)) or b""
            hooks += text
            lines = text.decode("utf-8", "replace").splitlines()
            folders += [os.path.join(os.path.dirname(path), line.strip()) for line in lines]
            for found in re.findall(rb"(?m)^import[ \t]+(\w+)", text):
                module = self.find(found.decode())
                hooks += module.text if module else b""
        return folders, hooks

    def seems_to_lack(self, module_name: str, name: str) -> bool:
        """Return whether no line of a module looks as if it defined a name: a fast first check."""
        if name in LOST_BUILT_IN.get(module_name, ()):
            return at_least(self._python, "3.9")
        if is_lost(module_name, name, self._versions):
            return True
        key = module_name, name
        if key not in self._seeming:
            self._seeming[key] = self._seems(module_name, name)
        return self._seeming[key]

    def has_lost(self, module_name: str, name: str) -> bool:
        """Return whether a module once had a name, by the tables of what was lost."""
        built_in = name in LOST_BUILT_IN.get(module_name, ())
        return built_in or is_lost(module_name, name, self._versions)

    def lacks(self, module_name: str, name: str) -> bool:
        """Return whether ``from module_name import name`` certainly fails."""
        if not self.seems_to_lack(module_name, name):
            return False
        if module_name in LOST_BUILT_IN or is_lost(module_name, name, self._versions):
            return True
        key = module_name, name
        if key not in self._lacking:  # which needs syntax trees, and they take long
            sources = [one for one in self._sources(module_name, name) if one]
            self._lacking[key] = name in _WRITTEN_OUT.get(module_name, ()) or not (
                any(one.may_define(name) for one in sources)
                or any(self._is_built_in(folder) for one in sources for folder in one.folders)
                or any(self._is_added(folder, name) for one in sources for folder in one.folders)
            )
        return self._lacking[key]

    def _search(self, name: str) -> Module | None:
        parent_name, _, last = name.rpartition(".")
        if name == "distutils" and self.find("setuptools"):
            return UNKNOWN  # which provides its own
        parent = self.find(parent_name) if parent_name else Module("", self._folders)
        if parent is None or not (parent.folders or parent.path):
            return parent
        spaces = []
        for folder in parent.folders:
            entry = self._entry(folder, last)
            path = f"{folder}/{last}"
            if entry == "folder" and self._names(path).get("__init__") == ".py":
                return Module(f"{path}/__init__.py", (path,))
            if entry in ("compiled", ".py"):
                return UNKNOWN if entry == "compiled" else Module(f"{path}.py")
            spaces += [path] if entry else []
        if spaces:
            return Module("", tuple(spaces))
        if not parent_name:
            return None
        if is_lost(parent_name, last, self._versions):
            return None
        is_made = parent.is_elsewhere or any(map(self._is_built_in, parent.folders))
        return UNKNOWN if is_made else None

    def _entry(self, folder: str, name: str) -> str:
        """Return what `folder` contains under a module's name; empty if nothing."""
        kind = self._names(folder).get(name, "")
        if kind == "both":  # a package comes before a file
            return "folder" if "__init__" in self._names(f"{folder}/{name}") else ".py"
        return "" if kind == "folder" and not os.path.isdir(f"{folder}/{name}") else kind

    def _names(self, folder: str) -> dict[str, str]:
        """Return what a folder contains by module name; of two, what Python prefers."""
        if folder not in self._listed:
            try:
                names = os.listdir(folder)
            except OSError:
                names = []
            found = {n.removesuffix(".py"): ".py" for n in names if n.endswith(".py")}
            compiled = (n for n in names if n.endswith((".so", ".pyd", ".pyc")))
            found |= {n.partition(".")[0]: "compiled" for n in compiled}
            found |= {n: "both" for n in names if found.get(n) == ".py"}
            found |= {n: "folder" for n in names if "." not in n and n not in found}
            self._listed[folder] = found
        return self._listed[folder]

    def _seems(self, module_name: str, name: str) -> bool:
        module = self.find(module_name)
        if module is None or not module.text or name in OF_EVERY_MODULE:
            return False
        if module.seems_to_define(name) or self.has_submodule(module, name):
            return False
        return name in _WRITTEN_OUT.get(module_name, ()) or not any(
            one is None
            or one.is_computed
            or one.seems_to_define(name)
            or self.has_submodule(one, name)
            for one in self._sources(module_name, name)
        )

    def _sources(self, module_name: str, name: str) -> list[Module | None]:
        """Return a module and those of which ``import *`` may bring a name; None for lost ones."""
        if module_name not in self._starred:
            self._starred[module_name] = self._with_stars(module_name)
        first, *others = self._starred[module_name]
        private = name.startswith("_")
        return [first, *(o for o in others if not private or o is None or o.may_pass_on(name))]

    def _with_stars(self, module_name: str) -> list[Module | None]:
        found: dict[str, Module | None] = {}
        todo = [module_name]
        for name in todo:
            module = self.find(name)
            # Under `if TYPE_CHECKING`, transformers names a module of its own that never was there.
            is_own = name.partition(".")[0] == module_name.partition(".")[0]
            if name not in found and (module or not is_own):
                found[name] = module
                stars = module.stars if module else []
                todo += [absolute(one, name, module) for one in stars if module]
        return list(found.values())

    def _is_built_in(self, folder: str) -> bool:
        """Return whether modules in a package's folder make other modules."""
        texts = (one.text for one in self._files(folder))
        return any(_BUILDS.search(text) for text in texts if b"sys.m" in text)

    def _is_added(self, folder: str, name: str) -> bool:
        """Return whether a module in a package's folder may give another one a name."""
        adds = re.compile(rb"\.%b[ \t]*=[^=]|['\"]%b['\"]\][ \t]*=[^=]" % (2 * (name.encode(),)))
        return any(adds.search(one.text) for one in self._files(folder))

    def _files(self, folder: str) -> list[Module]:
        if folder not in self._in_folder:
            names = self._names(folder).items()
            self._in_folder[folder] = [Module(f"{folder}/{n}.py") for n, k in names if k == ".py"]
        return self._in_folder[folder]

    @property
    def is_of_this_python(self) -> bool:
        """Whether this Python, which reads the modules, is of the same version."""
        return self._python.split(".")[:2] == [str(n) for n in sys.version_info[:2]]

    @property
    def has_lazy_annotations(self) -> bool:
        """Whether this Python evaluates annotations only when they are asked for (PEP 649)."""
        return at_least(self._python, "3.14")


def absolute(named: str, inside: str, module: Module) -> str:
    """Return the absolute name of what a module with the name `inside` imports as `named`.

    It is empty if that would be outside of every package.
    """
    dots = len(named) - len(named.lstrip("."))
    up = dots - 1 if module.folders else dots
    parts = inside.split(".")
    if dots and up >= len(parts):
        return ""
    start = parts[: len(parts) - up] if dots else []
    return ".".join([*start, named[dots:]] if named[dots:] else start)


def _seems_bound(text: bytes, word: bytes) -> bool:
    """Return whether a line of a module seems to define a name, perhaps only inside a function."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if text[at - 1 : at] not in _WORDS and text[end : end + 1] not in _WORDS:
            start, stop = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", end)
            if at - start > LONG_LINE:  # it holds data or generated code
                return True
            before, after = text[start:at].strip(), text[end : stop if stop >= 0 else None].strip()
            if before in _DEFINES or before.endswith(b" as"):
                return True
            imported = before.startswith((b"from ", b"import ")) or _LISTED.fullmatch(before)
            if imported and (not after or after[:1] in b",:)#;\\" or _ASSIGNED.match(after)):
                return True
        at = text.find(word, end)
    return False
