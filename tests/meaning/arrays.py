"""Small arrays to call patterns with: the same values each time, every time a new object."""

from __future__ import annotations

from typing import Any

import numpy as np


def vec(n: int = 6, dtype: Any = np.float64) -> np.ndarray:
    """Return `n` numbers of both signs, unordered, without ties."""
    return (((np.arange(n) * 7 + 3) % 11 - 4.25) * 0.75).astype(dtype)


def pos(n: int = 6, dtype: Any = np.float64) -> np.ndarray:
    """Return `n` positive numbers, unordered."""
    return (((np.arange(n) * 5 + 2) % 7) * 0.5 + 0.75).astype(dtype)


def mat(rows: int = 3, columns: int = 4, dtype: Any = np.float64) -> np.ndarray:
    return vec(rows * columns, np.float64).reshape(rows, columns).astype(dtype)


def cube(a: int = 2, b: int = 3, c: int = 4) -> np.ndarray:
    return vec(a * b * c).reshape(a, b, c)


def ints(n: int = 6, dtype: Any = np.int64) -> np.ndarray:
    """Return `n` small integers, ties among them."""
    return ((np.arange(n) * 7 + 3) % 5).astype(dtype)


def bits(n: int = 6) -> np.ndarray:
    """Return `n` booleans."""
    return (np.arange(n) * 7 + 3) % 3 == 1


def cplx(n: int = 4, dtype: Any = np.complex128) -> np.ndarray:
    return (vec(n) + 1j * pos(n)).astype(dtype)


def spd(n: int = 3) -> np.ndarray:
    """Return a symmetric positive definite matrix."""
    a = vec(n * n).reshape(n, n)
    return a @ a.T + n * np.eye(n)


def odd(n: int = 6) -> np.ndarray:
    """Return numbers with a NaN and both infinities among them."""
    x = vec(n)
    x[1], x[2], x[-1] = np.nan, np.inf, -np.inf
    return x


def holes(n: int = 6) -> np.ndarray:
    """Return numbers with NaN among them."""
    x = vec(n)
    x[1::3] = np.nan
    return x
