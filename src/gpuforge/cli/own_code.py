"""Finding the user's own modules in a program, and accelerating their functions once defined.

Loaded at the start of a program by ``gpuforge run --accelerate``. The functions of an imported
module are accelerated after it was executed. The main module calls its functions while it is
executed, so it is traced line by line until its last function is defined, except during imports
and other long statements.
"""

from __future__ import annotations

import dis
import gc
import os
import sys
from _thread import get_ident
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FrameType, ModuleType
from typing import Any

from gpuforge import log
from gpuforge.cli.importlib_bootstrap import OwnLoader, Untraced
from gpuforge.runtime.accelerated import COMPILERS, accelerate

_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
_INSTALLED = ("site-packages", "dist-packages")
_NOT_OWN = (
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
    os.path.dirname(os.__file__) + os.sep,
)

TRACED_EVENTS = 10_000
"""Tracing pauses after this many calls and lines, which take about 5 ms."""


def project_folder(start: str) -> str:
    """Return the root folder of the project that contains `start`; `start` if there is none."""
    home = os.path.expanduser("~")
    folder = start = os.path.realpath(start)
    while folder not in (home, os.path.dirname(folder)):
        if any(os.path.exists(os.path.join(folder, mark)) for mark in _PROJECT_FILES):
            return folder
        folder = os.path.dirname(folder)
    return start


def is_own(path: str, folder: str) -> bool:
    """Return whether a file is in `folder` and neither installed nor part of Python or gpuforge."""
    real = os.path.realpath(path)
    if not real.startswith(os.path.join(folder, "")) or real.startswith(_NOT_OWN):
        return False
    return not any(part in _INSTALLED for part in real.split(os.sep))


class OwnFinder:
    """A meta path finder, placed before Python's path finder, for the user's own modules."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of one of the user's own modules; None for all others."""
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
    """The trace function that follows the main module until its last function is defined.

    Python runs several times slower while it is traced. So tracing pauses where the main module
    stays long, and resumes at a collection of garbage after the module has got further.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.namespace = sys.modules["__main__"].__dict__
        self.left: list[int] = []
        self.untraced: Untraced | None = None
        self.frame: FrameType | None = None
        self.events = 0
        self.farthest = 0
        self.thread = get_ident()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        """Look for the frame of the main module among new frames; count those that follow it."""
        if self.frame is not None:
            self._count(self.frame)
            return None
        if frame.f_globals is not self.namespace or frame.f_code.co_name != "<module>":
            return None
        code = frame.f_code
        if is_own(code.co_filename, self.folder) and COMPILERS.isdisjoint(code.co_names):
            self.left = _definitions(code)
        if not self.left:
            sys.settrace(None)
            return None
        self.frame = frame
        self.untraced = Untraced(self.namespace, self)
        return self.line

    def line(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        """Accelerate the functions defined before the current line."""
        if self._catch_up(frame):
            self._count(frame)
            return self.line
        sys.settrace(None)
        return None

    def _catch_up(self, frame: FrameType) -> bool:
        """Accelerate the functions defined so far; return whether others are still to come."""
        before = len(self.left)
        while self.left and frame.f_lasti > self.left[0]:
            self.left.pop(0)
        if len(self.left) < before:
            accelerate(self.namespace, frame.f_code.co_filename)
        if not self.left and self.untraced is not None:
            self.untraced.end()
            frame.f_trace = None  # or it would be called under a debugger that starts later
        return bool(self.left)

    def _count(self, frame: FrameType) -> None:
        self.events += 1
        if self.events > TRACED_EVENTS:
            self.farthest = max(self.farthest, frame.f_lasti)
            sys.settrace(None)
            gc.callbacks.append(self._resume)

    def _resume(self, phase: str, collected: dict[str, int]) -> None:
        frame = self.frame
        if frame is None or frame.f_lasti <= self.farthest or get_ident() != self.thread:
            return
        gc.callbacks.remove(self._resume)
        self.events = 0
        if self._catch_up(frame) and sys.gettrace() is None:
            sys.settrace(self)


def _definitions(code: CodeType) -> list[int]:
    """Return the bytecode offsets at which a module stores its functions and classes."""
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
    """Accelerate the functions of modules in `folder` that are loaded from now on."""
    log.keep_apart()
    place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0
    sys.meta_path.insert(place, OwnFinder(folder))
    if sys.gettrace() is None:
        sys.settrace(MainModule(folder))
