"""Suppress JAX's fork warning in programs that did not import JAX themselves.

The warning does not apply to such a program: after a fork gpuforge computes on NumPy only. JAX
registers a handler that runs before each fork; the handler here runs before JAX's, because it was
registered later, and ignores exactly that warning until the fork is over.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType

LIBRARY = "jax"
NOT_THE_PROGRAM = ("gpuforge", "jax", "jaxlib")
MESSAGE = r"os\.fork\(\) was called\. .* JAX is multithreaded"


@contextmanager
def spared() -> Iterator[None]:
    """Suppress JAX's warning if JAX is loaded inside and was not loaded before."""
    before = set(sys.modules)
    try:
        yield
    finally:
        if LIBRARY in sys.modules and LIBRARY not in before and hasattr(os, "register_at_fork"):
            quiet = _Quiet(frozenset(sys.modules) - {"__main__"})
            os.register_at_fork(
                before=quiet.begin, after_in_parent=quiet.end, after_in_child=quiet.end
            )


class _Quiet:
    """Ignores JAX's warning from before a fork until after it, in parent and child.

    Python's warning filters belong to the whole process, so forks of several threads take turns.
    """

    def __init__(self, without: frozenset[str]) -> None:
        self._without = without
        self._one_fork = threading.Lock()
        self._filters: warnings.catch_warnings[None] | None = None

    def begin(self) -> None:
        self._one_fork.acquire()
        if not self._wanted():
            self._filters = warnings.catch_warnings()
            self._filters.__enter__()
            warnings.filterwarnings("ignore", MESSAGE, RuntimeWarning)

    def end(self) -> None:
        if self._filters is not None:
            self._filters.__exit__(None, None, None)
            self._filters = None
        self._one_fork.release()

    def _wanted(self) -> bool:
        """Return whether the program has imported JAX meanwhile, judging by its modules' globals.

        Modules loaded before JAX cannot have imported it, except the main one, which still runs.
        """
        return any(
            _is_of_jax(value)
            for name, module in list(sys.modules.items())
            if name not in self._without and name.split(".")[0] not in NOT_THE_PROGRAM
            for value in list(getattr(module, "__dict__", {}).values())
        )


def _is_of_jax(value: object) -> bool:
    kind = type(value)  # reading `__class__` would load a lazy proxy's target
    if issubclass(kind, ModuleType):
        home = getattr(value, "__name__", "")
    elif issubclass(kind, FunctionType | type):
        home = getattr(value, "__module__", "")
    else:
        return False
    return isinstance(home, str) and (home == LIBRARY or home.startswith("jax."))
