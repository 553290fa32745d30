"""The frames that are on the stack while the user's own modules are imported.

To find the importing line, Python's ``warnings`` skip frames of files with *importlib* and
*_bootstrap* in their names, hence the name of this module. Its frames remove themselves from
tracebacks; a bare ``raise`` does not add them again.
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
    """Loads one of the user's modules, and accelerates its functions."""

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
    """An ``__import__`` that switches tracing off during imports, which it would slow down.

    Parameters
    ----------
    namespace
        The namespace of the module whose imports are not traced.
    tracer
        The trace function to restore afterwards.
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
        """Restore Python's ``__import__``, unless the program has replaced ours."""
        if builtins.__import__ is self.importing:
            builtins.__import__ = self.plain
