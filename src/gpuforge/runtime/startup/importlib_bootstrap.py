"""A module that is executed when it is first used.

To find the line that imports, Python's ``warnings`` skip frames of files with *importlib* and
*_bootstrap* in their names: hence the name of this file.
"""

from __future__ import annotations

import copyreg
import importlib
import operator
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from time import perf_counter
from types import FrameType, ModuleType
from typing import Any, cast

machinery: Any = importlib._bootstrap

_ABOUT = frozenset(
    "__class__ __name__ __spec__ __path__ __loader__ __package__ __file__ __cached__".split()
)
"""Attributes that a module has before it is executed."""


class LazyModule(ModuleType):
    """A module that is executed at the first attribute access, and then becomes a plain one."""

    def __getattribute__(self, name: str) -> Any:
        state = state_of(self)
        if state is None or state.passes(self, name):
            found = super().__getattribute__(name)
            return ModuleType if found is LazyModule else found
        state.execute(self)
        if type(self) is LazyModule:  # another thread executes it, and waits for this one
            return super().__getattribute__(name)
        try:
            return getattr(self, name)
        except AttributeError as error:  # keep frames of this file out of the traceback
            if error.__traceback__ is not None:
                error.__traceback__ = error.__traceback__.tb_next
            raise

    def __setattr__(self, name: str, value: Any) -> None:
        state = state_of(self)
        bound = isinstance(value, LazyModule) and state is not None and not state.begun
        stays = bound or (name in _ABOUT and name != "__class__")
        if state is not None and not state.is_mine and not stays:
            state.execute(self)
        ModuleType.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        state = state_of(self)
        if state is not None and not state.is_mine:
            state.execute(self)
        ModuleType.__delattr__(self, name)

    def __copy__(self) -> Any:
        vars(self)  # executes it
        return self.__reduce_ex__(4)  # raises, as for any module


class Lazy:
    """The state of a lazy module.

    Parameters
    ----------
    told
        Called after its execution, with the seconds, the place of first use and any failure.

    Attributes
    ----------
    begun : whether its execution has started
    """

    def __init__(self, told: Callable[[float, str, str], None]) -> None:
        self.begun = False
        self._done = False
        self._thread = 0
        self.told = told

    @property
    def is_mine(self) -> bool:
        """Whether this thread is executing it."""
        return self._thread == threading.get_ident()

    def passes(self, module: ModuleType, name: str) -> bool:
        """Return whether an attribute is available without executing the module."""
        if self.is_mine:
            return True
        own = object.__getattribute__(module, "__dict__")
        root = state_of(sys.modules.get(own["__name__"].partition(".")[0]))
        # A library that imports a submodule of its own needs it executed.
        return (name in _ABOUT or isinstance(own.get(name), LazyModule)) and (
            root is not None and not root.begun
        )

    def execute(self, module: ModuleType) -> None:
        """Execute the module, after its parent packages."""
        spec: ModuleSpec = object.__getattribute__(module, "__dict__")["__spec__"]
        complete(outer(spec.name))
        with _lock(spec.name.partition(".")[0]), _lock(spec.name):
            if self._done or self.begun:
                return
            where, start = user_of(sys._getframe()), perf_counter()
            with held_back(spec.name, module):
                self._run(module, spec, lambda failure: self.told(
                    perf_counter() - start, where, failure))  # fmt: skip

    def _run(self, module: ModuleType, spec: ModuleSpec, told: Callable[[str], None]) -> None:
        before = dict(object.__getattribute__(module, "__dict__"))
        self.begun, self._thread = True, threading.get_ident()
        spec._initializing = True  # type: ignore[attr-defined]
        try:
            spec.loader.exec_module(module)  # type: ignore[union-attr]
        except BaseException as error:
            sys.modules.pop(spec.name, None)
            vars(module).clear()
            vars(module).update(before)
            self.begun = False
            if isinstance(error, Exception):
                told(f"{type(error).__name__}: {error}")
            raise
        finally:
            self._thread = 0
            spec._initializing = False  # type: ignore[attr-defined]
        self.end(module, spec)
        told(_replaced(module, spec.name))

    def end(self, module: ModuleType, spec: ModuleSpec) -> None:
        """Turn it into a plain module."""
        self._done = True
        if type(module) is LazyModule:
            cast(Any, module).__class__ = ModuleType
        spec.loader_state = None


def _pickled(module: LazyModule) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Have a pickler treat it as the plain module that it becomes."""
    vars(module)  # executes it
    return operator.getitem, ((module,), 0)


copyreg.pickle(LazyModule, _pickled)


_held: dict[str, ModuleType] = {}


@contextmanager
def held_back(package: str, module: ModuleType) -> Iterator[None]:
    """Hide a package's lazy submodules while it is executed, as if they were not imported yet.

    A submodule that the package imports is executed at once; the others reappear afterwards, and so
    does what the program has put into `sys.modules` in the place of the package.
    """
    other = sys.modules.get(package, module)
    sys.modules[package] = module
    inside = [name for name in sys.modules if name.startswith(f"{package}.")]
    hidden = [name for name in inside if state_of(sys.modules[name]) is not None]
    for name in hidden:
        _held[name] = sys.modules.pop(name)
        parent = _own(sys.modules.get(outer(name)) or _held.get(outer(name)))
        parent.pop(name.rpartition(".")[2], None)
    try:
        yield
    finally:
        for name in hidden:
            lazy = _held.pop(name, None)
            if lazy is not None and sys.modules.setdefault(name, lazy) is lazy:
                _own(sys.modules.get(outer(name))).setdefault(name.rpartition(".")[2], lazy)
        if other is not module:
            sys.modules[package] = other


def resumed(name: str, loader: Any) -> Resuming | None:
    """Return the loader that executes a held-back module in the module object the program has."""
    module = _held.pop(name, None)
    state = state_of(module)
    return Resuming(state, loader, module) if state is not None and module is not None else None


def _own(module: ModuleType | None) -> dict[str, Any]:
    return {} if module is None else object.__getattribute__(module, "__dict__")


def _replaced(module: ModuleType, name: str) -> str:
    """Take over the content of the object with which a module replaced itself in `sys.modules`."""
    found = sys.modules.get(name)
    if found is None or found is module:
        return ""
    vars(module).update({n: getattr(found, n) for n in dir(found) if n not in _ABOUT})
    return "it replaces itself with another object when it is imported"


def state_of(module: Any) -> Lazy | None:
    """Return the state of a lazy module; None for a complete or any other module."""
    if type(module) is not LazyModule:
        return None
    spec = object.__getattribute__(module, "__dict__").get("__spec__")
    state = getattr(spec, "loader_state", None)
    return state if isinstance(state, Lazy) else None


def outer(name: str) -> str:
    """Return the parent package of a module; empty for a top-level one."""
    return name.rpartition(".")[0]


def complete(name: str | None) -> None:
    """Execute the lazy module with this name, if there is one and it is not being executed."""
    module = sys.modules.get(name or "")
    state = state_of(module)
    if module is not None and state is not None and not state.is_mine:
        state.execute(module)


def user_of(frame: FrameType | None) -> str:
    """Return the file and line of the first frame outside importlib and this package."""
    while frame is not None and frame.f_code.co_filename.startswith(_MACHINERY):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


_MACHINERY = (
    "<frozen importlib",
    importlib.__file__,
    __file__.removesuffix("importlib_bootstrap.py"),
)


@contextmanager
def _lock(name: str) -> Iterator[None]:
    """Hold Python's own lock of a module, which detects deadlocks between several modules."""
    lock = machinery._get_module_lock(name)
    try:
        lock.acquire()
    except machinery._DeadlockError:  # continue with the partial module, as Python does
        yield
        return
    try:
        yield
    finally:
        lock.release()


class Deferring:
    """Loader that defers the execution of a module."""

    def __init__(self, loader: Any, told: Callable[[float, str, str], None]) -> None:
        self._loader, self._told = loader, told

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return a lazy module."""
        return LazyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Set the loader that will execute the module."""
        own = object.__getattribute__(module, "__dict__")
        spec = own["__spec__"]
        own["__loader__"] = spec.loader = self._loader
        spec.loader_state = Lazy(self._told)


class Resuming:
    """Loader of a deferred module that its own package imports."""

    def __init__(self, state: Lazy, loader: Any, module: ModuleType) -> None:
        self._state, self._loader, self._module = state, loader, module

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the existing module, no longer lazy."""
        self._state.end(self._module, object.__getattribute__(self._module, "__dict__")["__spec__"])
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Execute it."""
        assert module.__spec__ is not None
        module.__spec__.loader = self._loader
        where, start = user_of(sys._getframe()), perf_counter()
        self._loader.exec_module(module)
        self._state.told(perf_counter() - start, where, "")


class AlreadyThere:
    """Loader of a module that its package imported while Python was importing it.

    Python takes the module's own spec rather than the one that a finder returns; hence `spec`.
    """

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__
        module.__spec__ = self.spec = ModuleSpec(module.__name__, cast(Any, self))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the origin that Python has overwritten."""
        module.__spec__ = self._spec
