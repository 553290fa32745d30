"""The user's own modules in a program: where they are, and the moment their functions are there.

Loaded at the start of a program by ``gpuforge run --accelerate``. An imported module is complete
when it was executed. The main module runs its functions while it is executed: there, tracing stops
at each line until the last function is defined, and is then off; while it imports, it is off too.
"""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FrameType, ModuleType
from typing import Any

from gpuforge.cli.importlib_bootstrap import OwnLoader, Untraced
from gpuforge.runtime.accelerated import COMPILERS, accelerate

_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
_INSTALLED = ("site-packages", "dist-packages")
_NOT_THE_USERS = (
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
    os.path.dirname(os.__file__) + os.sep,
)


def project_folder(start: str) -> str:
    """Return the folder of the project that `start` lies in; `start` where there is none."""
    home = os.path.expanduser("~")
    folder = start = os.path.realpath(start)
    while folder not in (home, os.path.dirname(folder)):
        if any(os.path.exists(os.path.join(folder, mark)) for mark in _MARKS):
            return folder
        folder = os.path.dirname(folder)
    return start


def is_own(path: str, folder: str) -> bool:
    """Return whether a file is the user's: in `folder`, and neither installed nor Python's own."""
    real = os.path.realpath(path)
    if not real.startswith(os.path.join(folder, "")) or real.startswith(_NOT_THE_USERS):
        return False
    return not any(part in _INSTALLED for part in real.split(os.sep))


class OwnFinder:
    """Finds the user's own modules as Python's path finder does, in front of it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a module of the user's; None for all others."""
        if name.partition(".")[0] in sys.stdlib_module_names:
            return None
        found = PathFinder.find_spec(name, path, target)
        if found is None or type(found.loader) is not SourceFileLoader or not found.origin:
            return None
        if not is_own(found.origin, self.folder):
            return None
        found.loader = OwnLoader(found.loader.name, str(found.loader.path))
        return found


class MainModule:
    """Traces the main module until its last function is defined."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.namespace = sys.modules["__main__"].__dict__
        self.left: list[int] = []
        self.untraced: Untraced | None = None

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        """Look for the frame of the main module among those that begin."""
        if frame.f_globals is not self.namespace or frame.f_code.co_name != "<module>":
            return None
        code = frame.f_code
        if is_own(code.co_filename, self.folder) and COMPILERS.isdisjoint(code.co_names):
            self.left = _definitions(code)
        if not self.left:
            sys.settrace(None)
            return None
        self.untraced = Untraced(self.namespace, self)
        return self.line

    def line(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        """Accelerate what was defined before a line."""
        before = len(self.left)
        while self.left and frame.f_lasti > self.left[0]:
            self.left.pop(0)
        if len(self.left) < before:
            accelerate(self.namespace, frame.f_code.co_filename)
        if self.left:
            return self.line
        if self.untraced is not None:
            self.untraced.end()
        sys.settrace(None)
        return None


def _definitions(code: CodeType) -> list[int]:
    """Return where the functions and classes of a module are given their names."""
    found: list[int] = []
    made = False
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_CONST" and isinstance(step.argval, CodeType):
            made = not step.argval.co_name.startswith("<")
        elif made and step.opname.startswith("STORE_"):
            found.append(step.offset)
            made = False
    return found


def watch(folder: str) -> None:
    """Accelerate the functions of the modules in `folder` from now on."""
    place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0
    sys.meta_path.insert(place, OwnFinder(folder))
    if sys.gettrace() is None:
        sys.settrace(MainModule(folder))
