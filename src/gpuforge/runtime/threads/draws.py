"""Keep the program's random numbers when a library that gpuforge imports draws some.

JAX draws when it is imported: ``np.random.rand(5)`` is in the default value of an argument
(``jax/_src/clusters/k8s_cluster.py``). Without this, a program that sets NumPy's seed would draw
other numbers from the call on in which gpuforge loads JAX. The import may run in the background
while the program draws, so putting back the generator's state would be wrong.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

DRAWING = "jax."
"""Start of the names of the modules that draw."""
SILENT = frozenset("numpy blocks torch mlx dpnp opencl".split())
"""Backends whose libraries do not load NumPy's random numbers, which takes 12 ms."""

_lock = threading.Lock()
_inside: list[Any] = []
"""What `np.random.rand` was for each library that is being opened, the program's own first."""


@contextmanager
def apart(backend: str) -> Iterator[None]:
    """Let a backend's library draw from a generator of its own inside.

    Several threads may be inside at the same time.
    """
    if backend in SILENT:
        yield
        return
    own = np.random.RandomState().rand
    with _lock:
        usual = _inside[0] if _inside else np.random.rand
        _inside.append(usual)

        def rand(*shape: int) -> Any:
            asking = str(sys._getframe(1).f_globals.get("__name__"))
            return own(*shape) if asking.startswith(DRAWING) else usual(*shape)

        np.random.rand = rand
    try:
        yield
    finally:
        with _lock:
            _inside.pop()
            if not _inside and getattr(np.random.rand, "__module__", "") == __name__:
                np.random.rand = usual
