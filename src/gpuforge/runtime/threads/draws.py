"""Keep the program's random numbers when a library that gpuforge imports draws some.

JAX draws when it is imported: ``np.random.rand(5)`` is in the default value of an argument
(``jax/_src/clusters/k8s_cluster.py``). Without this, a program that sets NumPy's seed would draw
other numbers from the call on in which gpuforge loads JAX. The import may run in the background
while the program draws, so putting back the generator's state would be wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

DRAWING = "jax."
"""Start of the names of the modules that draw."""


@contextmanager
def apart() -> Iterator[None]:
    """Let libraries draw from a generator of their own inside."""
    usual, own = np.random.rand, np.random.RandomState().rand

    def rand(*shape: int) -> Any:
        asking = str(sys._getframe(1).f_globals.get("__name__"))
        return own(*shape) if asking.startswith(DRAWING) else usual(*shape)

    np.random.rand = rand
    try:
        yield
    finally:
        if np.random.rand is rand:
            np.random.rand = usual
