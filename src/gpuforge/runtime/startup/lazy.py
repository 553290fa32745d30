"""Defer imports of heavy libraries until first use.

Only a statement ``import torch`` or ``import scipy.linalg as la`` at the top level of one of the
user's own files is deferred. Imports by libraries, inside functions, by ``from``, or under an
exception handler are not: there, a difference could be observed.

This module is loaded before a program begins, so it imports only small standard modules.
"""

from __future__ import annotations

import atexit
import opcode
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FrameType, ModuleType
from typing import Any

from gpuforge.errors import InvalidSettings
from gpuforge.runtime.startup.deferrable import HEAVY, why_not
from gpuforge.runtime.startup.importlib_bootstrap import (
    AlreadyThere,
    Deferring,
    complete,
    outer,
    resumed,
    state_of,
    user_of,
)

_NOT_THE_USERS = tuple(
    os.path.join(os.path.realpath(folder), "")
    for folder in (os.path.dirname(os.__file__), os.path.join(os.path.dirname(__file__), "../.."))
)
_INSTALLED = ("site-packages", "dist-packages")
_IMPORT_NAME, _LOAD_CONST, _EXTENDED_ARG = (
    opcode.opmap[name] for name in ("IMPORT_NAME", "LOAD_CONST", "EXTENDED_ARG")
)
_AFTER_THE_MAIN_THREAD = frozenset({"atexit", "Thread", "Timer"})
_WHEN_IMPORTS_FAIL = frozenset({"__del__"})
HAS_ITS_OWN = sys.version_info >= (3, 15)
"""Whether Python itself can defer imports (PEP 810), so that nothing is done here."""


class Deferral:
    """One deferred import.

    Attributes
    ----------
    module : its name
    imported_at : file and line of the import
    used_at : file and line of the first use; empty if there was none
    seconds : time to execute it then; None if it was never executed
    failure : what went wrong; empty if nothing did
    """

    def __init__(self, module: str, imported_at: str) -> None:
        self.module, self.imported_at = module, imported_at
        self.used_at = self.failure = ""
        self.seconds: float | None = None

    def tell(self, seconds: float, used_at: str, failure: str) -> None:
        """Record the outcome."""
        self.seconds, self.used_at, self.failure = seconds, used_at, failure


class LazyImports:
    """The finder in ``sys.meta_path`` that defers imports.

    Attributes
    ----------
    names : libraries whose imports are deferred
    off : modules that are imported at once, with reasons
    deferred : the deferred imports so far, by module
    problem : why the outcome was not stored at the end; empty if it was
    """

    def __init__(self, names: frozenset[str], off: dict[str, str]) -> None:
        self.names, self.off = names, off
        self.deferred: dict[str, Deferral] = {}
        self.problem = ""
        self._process = os.getpid()

    def stop(self) -> None:
        """Stop deferring; modules that are deferred already stay so until first use."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def keep(self) -> None:
        """Store the outcome of the imports, for ``gpuforge startup`` and the next run."""
        if self.deferred and os.getpid() == self._process:
            try:
                from gpuforge.runtime.startup import record

                record.keep_imports(list(self.deferred.values()))
            except Exception as error:  # noqa: BLE001 - the program may have broken the search path
                self.problem = f"the imports of this run are not saved: {error!r}"

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec that defers the import of a module; None to import it at once."""
        if name.partition(".")[0] not in self.names:
            return None
        if target is not None:  # a reload
            complete(target.__name__)
            return None
        found = PathFinder.find_spec(name, path, target)
        of_library = found is not None and _is_of_library(found)
        again = resumed(name, found.loader) if found is not None else None
        if found is not None and again is not None:
            found.loader = again  # type: ignore[assignment]
            return found
        importing = _importing(name) if of_library and not self._reason(name) else None
        if found is None or importing is None:
            return _after_its_package(name)
        if _names(importing.f_code, _AFTER_THE_MAIN_THREAD):
            # Many libraries import it, which Python refuses once the main thread has ended.
            import_module("concurrent.futures.thread")
        told = Deferral(name, user_of(importing))
        self.deferred[name] = told
        found.loader = Deferring(found.loader, told.tell)  # type: ignore[assignment]
        return found

    def _reason(self, name: str) -> str:
        return self.off.get(name) or self.off.get(name.partition(".")[0]) or why_not(name)


def lazy_imports(names: Iterable[str] = ()) -> LazyImports:
    """Defer the imports of heavy libraries until first use.

    Call it in the first lines of a program, before other imports. A statement ``import torch`` or
    ``import matplotlib.pyplot as plt`` at the top level of one of your own files then takes almost
    no time; the library is loaded at its first use, if any. All other imports work as usual: those
    by libraries, ``from ... import``, in functions, in ``try`` and ``with``. A library whose
    deferred import failed is imported at once from the next run on.

    Parameters
    ----------
    names
        Additional libraries whose imports to defer.

    Returns
    -------
    LazyImports
        ``deferred`` lists the deferred imports and their outcome; ``stop()`` ends deferring.

    Raises
    ------
    InvalidSettings
        If the import of a named module must not be deferred; the message says why.
    """
    wanted = (names,) if isinstance(names, str) else tuple(names)
    for name in wanted:
        reason = why_not(name)
        if reason:
            raise InvalidSettings(f"the import of {name} cannot be deferred: {reason}")
    from gpuforge.runtime.startup import record

    made = active() or defer(record.switched_off())
    made.names |= {name.partition(".")[0] for name in wanted}
    return made


def defer(off: dict[str, str]) -> LazyImports:
    """Defer imports from now on, except of modules in `off`."""
    made = LazyImports(HEAVY, off)
    if not HAS_ITS_OWN:
        place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0
        sys.meta_path.insert(place, made)
        atexit.register(made.keep)
    return made


def active() -> LazyImports | None:
    """Return the finder that defers imports in this process; None if there is none."""
    return next((one for one in sys.meta_path if isinstance(one, LazyImports)), None)


def _after_its_package(name: str) -> ModuleSpec | None:
    """Execute the package of a module that is imported at once; return the module's spec."""
    package = sys.modules.get(outer(name))
    if state_of(package) is None:
        return None
    complete(outer(name))
    there = sys.modules.get(name)
    if there is None:
        return PathFinder.find_spec(name, getattr(package, "__path__", None))
    finder = sys._getframe(3).f_code.co_name  # `importlib.util.find_spec` changes no module
    return AlreadyThere(there).spec if finder == "_find_and_load_unlocked" else there.__spec__


def _importing(name: str) -> FrameType | None:
    """Return the frame at the statement that imports a module; None if it must not be deferred."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    if frame is None or frame.f_locals is not frame.f_globals:
        return None
    if not _is_own(frame.f_code.co_filename):
        return None
    if not _imports_plainly(frame, name) or _names(frame.f_code, _WHEN_IMPORTS_FAIL):
        return None
    outer_frame: FrameType | None = frame
    while outer_frame is not None:
        if not outer_frame.f_code.co_filename.startswith("<frozen ") and _is_guarded(outer_frame):
            return None
        outer_frame = outer_frame.f_back
    return frame


def _is_of_library(spec: ModuleSpec) -> bool:
    """Return whether it is Python code, and not a file of the user's with a library's name."""
    return type(spec.loader) is SourceFileLoader and not _is_own(spec.loader.path)


def _is_own(file: str) -> bool:
    """Return whether a file is one of the user's own."""
    path = os.path.realpath(file)
    if path.startswith(_NOT_THE_USERS) or not os.path.isfile(path):
        return False
    return not any(part in _INSTALLED for part in path.split(os.sep))


def _imports_plainly(frame: FrameType, name: str) -> bool:
    """Return whether a frame is at ``import NAME`` or ``import NAME.more``, not ``from``."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if code[at] != _IMPORT_NAME:
        return False
    wanted = frame.f_code.co_names[_argument(code, at)]
    if not (wanted == name or wanted.startswith(name + ".")):
        return False
    at = _before(code, at)
    return code[at] == _LOAD_CONST and frame.f_code.co_consts[_argument(code, at)] is None


def _argument(code: bytes, at: int) -> int:
    extended = at >= 2 and code[at - 2] == _EXTENDED_ARG
    return code[at + 1] | (_argument(code, at - 2) << 8 if extended else 0)


def _before(code: bytes, at: int) -> int:
    """Return the offset of the previous instruction."""
    at -= 2
    while code[at] == _EXTENDED_ARG:
        at -= 2
    return at


def _is_guarded(frame: FrameType) -> bool:
    """Return whether an exception handler of a frame would catch an exception raised now."""
    found = iter(frame.f_code.co_exceptiontable)
    for byte in found:
        start, length = 2 * _number(byte, found), 2 * _number(next(found), found)
        _number(next(found), found), _number(next(found), found)
        if start <= frame.f_lasti < start + length:
            return True
    return False


def _number(byte: int, rest: Any) -> int:
    """Decode a number in an exception table (CPython, Objects/exception_handling_notes.txt)."""
    value = byte & 63
    while byte & 64:
        byte = next(rest)
        value = value << 6 | byte & 63
    return value


def _names(code: CodeType, names: frozenset[str]) -> bool:
    """Return whether code uses one of `names`, or a function in it has or uses one."""
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    used = code.co_name in names or not names.isdisjoint(code.co_names)
    return used or any(_names(one, names) for one in inner)
