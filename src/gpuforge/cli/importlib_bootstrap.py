"""What stands on the stack while the user's own modules are imported.

Python's ``warnings`` look past the frames of files that have *importlib* and *_bootstrap* in their
names, to find the line that imports: hence the name of this one. Its frames take themselves out of
tracebacks: a bare ``raise`` adds none to one that was cut.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

from gpuforge.runtime.accelerated import COMPILERS, accelerate


class OwnLoader(SourceFileLoader):
    """Loads a module of the user's, and accelerates its functions."""

    def exec_module(self, module: ModuleType) -> None:
        try:
            super().exec_module(module)
        except BaseException as error:
            if error.__traceback__ is not None:
                error.__traceback__ = error.__traceback__.tb_next
            raise
        code = self.get_code(module.__name__)
        if code is not None and COMPILERS.isdisjoint(code.co_names):
            accelerate(module.__dict__, code.co_filename)


class Untraced:
    """``__import__`` that switches tracing off while a module imports, which would be slow.

    Parameters
    ----------
    namespace
        That of the module whose imports are meant.
    tracer
        What traces again afterwards.
    """

    def __init__(self, namespace: dict[str, Any], tracer: Callable[..., Any]) -> None:
        plain = self.plain = builtins.__import__

        def importing(name: str, *args: Any, **kwargs: Any) -> ModuleType:
            try:
                if not args or args[0] is not namespace or sys.gettrace() is not tracer:
                    return plain(name, *args, **kwargs)
                sys.settrace(None)
                try:
                    return plain(name, *args, **kwargs)
                finally:
                    if builtins.__import__ is importing:
                        sys.settrace(tracer)
            except BaseException as error:
                if error.__traceback__ is not None:
                    error.__traceback__ = error.__traceback__.tb_next
                raise

        self.importing = builtins.__import__ = importing

    def end(self) -> None:
        """Put Python's own back, unless the program has put another there."""
        if builtins.__import__ is self.importing:
            builtins.__import__ = self.plain
