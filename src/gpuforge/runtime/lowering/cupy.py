"""CuPy's linear algebra, transforms, scans and sorts, where they agree with NumPy's.

Its factorisations give arbitrary results for singular matrices: R of a QR decomposition shows
whether a matrix is nearly singular, also in stacks of matrices, for which CuPy has no public LU. A
failed Cholesky decomposition may leave a negative number on the diagonal.

Sources: CuPy reference, ``cupy.linalg`` (results for invalid input), ``cupyx.scatter_add`` (dtypes
of CUDA's atomicAdd), ``cupy.sort`` (always stable).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from gpuforge.runtime.lowering import numpy_named
from gpuforge.runtime.lowering.contract import Lowering
from gpuforge.runtime.lowering.numpy_named import ROUNDING, Function, is_uneven, unless


def extended(lowering: Lowering, cupy: Any) -> Lowering:
    """Return a lowering to CuPy with its linear algebra, transforms, scans and sorts."""
    return numpy_named.extended(lowering, cupy, _linear(cupy), _rows(cupy))


def _linear(cupy: Any) -> dict[str, Function]:
    la = cupy.linalg
    ill = partial(_is_nearly_singular, cupy)
    return {
        "solve": lambda x, right: unless(cupy, ill(x), la.solve(x, right)),
        "inv": lambda x: unless(cupy, ill(x), la.inv(x)),
        "det": lambda x: cupy.where(ill(x), cupy.nan, la.det(x)),
        "slogdet": partial(_slogdet, cupy),
        "cholesky": partial(_cholesky, cupy),
        "svdvals": lambda x: la.svd(x, compute_uv=False),
        "cond": lambda x, order: cupy.where(ill(x), cupy.nan, la.cond(x, order)),
    }


def _is_nearly_singular(cupy: Any, x: Any) -> Any:
    return is_uneven(cupy, cupy.linalg.qr(x, "r"))


def _slogdet(cupy: Any, x: Any) -> tuple[Any, Any]:
    sign, size = cupy.linalg.slogdet(x)
    return sign, cupy.where(_is_nearly_singular(cupy, x), cupy.nan, size)


def _cholesky(cupy: Any, x: Any, upper: bool) -> Any:
    if upper:  # CuPy reads the lower half
        x = cupy.swapaxes(x, -1, -2).conj()
    made = cupy.linalg.cholesky(x)
    sizes = cupy.diagonal(made, axis1=-2, axis2=-1).real
    failed = ~(sizes.min(axis=-1) > ROUNDING**0.5 * sizes.max(axis=-1))
    made = unless(cupy, failed, made)
    return cupy.swapaxes(made, -1, -2).conj() if upper else made


def _rows(cupy: Any) -> dict[str, Function]:
    return {
        "irfftn": partial(_irfftn, cupy),
        "cumsum": lambda x, axis: cupy.cumsum(x, axis=axis, dtype=x.dtype),
        "cumprod": lambda x, axis: cupy.cumprod(x, axis=axis, dtype=x.dtype),
        "sort": lambda x, axis: cupy.sort(x, axis=axis),
        "argsort": lambda x, axis: cupy.argsort(x, axis=axis),
        "bincount": lambda x, *rest: cupy.bincount(x, rest[0] if rest[1:] else None, rest[-1]),
        "nonzero": lambda x: cupy.stack(cupy.nonzero(x)),
        "unique": cupy.unique,
    }


def _irfftn(cupy: Any, x: Any, lengths: Any, axes: Any, norm: Any) -> Any:
    """Transform axis by axis, as NumPy does: cuFFT assumes the symmetry of a real array's parts."""
    x = cupy.ascontiguousarray(x)
    if len(axes) > 1:
        x = cupy.fft.ifftn(x, lengths[:-1], axes[:-1], norm)
    return cupy.fft.irfft(x, lengths[-1], axes[-1], norm)


def divided(cupy: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Return floor quotient and remainder of floats as NumPy computes them, from `fmod`.

    CuPy's are rounded quotients: its ``0.5 // 0.1`` is 5, NumPy's is 4.

    Source: NumPy, ``npy_divmod`` in ``npy_math_internal.h.src``.
    """
    dtype = cupy.result_type(a, b)
    if dtype.kind != "f":
        return cupy.floor_divide(a, b), cupy.remainder(a, b)
    if dtype.char == "e":  # NumPy computes in float32 and rounds once
        whole, left = divided(cupy, *(cupy.asarray(x, dtype="float32") for x in (a, b)))
        return whole.astype(dtype), left.astype(dtype)
    left = cupy.fmod(a, b)
    whole = (a - left) / b
    other_side = (left != 0) & ((b < 0) != (left < 0))
    left = cupy.where(other_side, left + b, left)
    left = cupy.where(left == 0, cupy.copysign(left, b), left)
    whole = cupy.where(other_side, whole - 1, whole)
    below = cupy.floor(whole)
    below = cupy.where(whole - below > 0.5, below + 1, below)
    zero = cupy.copysign(cupy.zeros_like(below), a / b)
    return cupy.where(whole == 0, zero, below), left


def fmod(cupy: Any, a: Any, b: Any) -> Any:
    """Return the remainder with the sign of `a`; CuPy's, of integers, is rounded to float64."""
    dtype = cupy.result_type(a, b)
    if dtype.kind == "f":
        return cupy.fmod(a, b)
    left = cupy.remainder(a, b)
    if dtype.kind == "u":
        return left
    return cupy.where((left != 0) & ((left < 0) != (a < 0)), left - b, left)
