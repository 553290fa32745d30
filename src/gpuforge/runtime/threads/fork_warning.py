"""JAX warns whenever a process that uses it forks; a program that never asked for JAX is spared.

What the warning is about does not concern such a program: after a fork gpuforge computes on NumPy
only. JAX registers a handler that runs before each fork; here another one, which Python runs before
JAX's because it was registered later, has exactly that warning ignored until the fork is over.
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
    """Spare the program JAX's warning if it is loaded inside and was not before."""
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

    Python's warning filters are the whole process's: forks of several threads take turns.
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
        """Return whether the program imported JAX in the meantime, by what its modules refer to.

        Those that were loaded when JAX was not have not imported it, but the main one goes on.
        """
        return any(
            _is_of_jax(value)
            for name, module in list(sys.modules.items())
            if name not in self._without and name.split(".")[0] not in NOT_THE_PROGRAM
            for value in list(getattr(module, "__dict__", {}).values())
        )


def _is_of_jax(value: object) -> bool:
    kind = type(value)  # asking a lazy proxy for its class would load what it stands for
    if issubclass(kind, ModuleType):
        home = getattr(value, "__name__", "")
    elif issubclass(kind, FunctionType | type):
        home = getattr(value, "__module__", "")
    else:
        return False
    return isinstance(home, str) and (home == LIBRARY or home.startswith("jax."))
