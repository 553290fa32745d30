"""Offloaded functions that need not be written: ``gf.matmul``, ``gf.xor``."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.offload import offload


@offload
def matmul(a: Any, b: Any) -> Any:
    """Return the matrix product of `a` and `b`, as `numpy.matmul` does.

    Parameters
    ----------
    a, b
        Arrays of any dtype that NumPy multiplies. ``(n,)`` or ``(..., m, n)``, and ``(n,)`` or
        ``(..., n, p)``: leading axes are stacks of matrices and broadcast, so that ten products of
        256 × 256 are one call on arrays of shape ``(10, 256, 256)``.

    Raises
    ------
    ValueError
        If the shapes do not fit; and whatever else `numpy.matmul` raises.
    """
    return np.matmul(a, b)


@offload
def xor(a: Any, b: Any) -> Any:
    """Return the exclusive or of `a` and `b`, bit by bit, as `numpy.bitwise_xor` does.

    Parameters
    ----------
    a, b
        Arrays of integers or of bool, or numbers, that broadcast.

    Raises
    ------
    TypeError
        If a dtype is neither integer nor bool; and whatever else `numpy.bitwise_xor` raises.
    """
    return np.bitwise_xor(a, b)
