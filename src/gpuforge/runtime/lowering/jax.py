"""JAX's linear algebra, scans and sorts, where they are not those of `numpy_named`.

Operations whose result shape depends on values cannot be compiled.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from gpuforge.runtime.lowering import numpy_named
from gpuforge.runtime.lowering.contract import Lowering
from gpuforge.runtime.lowering.numpy_named import ROUNDING, Function, is_uneven, pinv, unless


def extended(lowering: Lowering, jax: Any) -> Lowering:
    """Return a lowering to JAX with its linear algebra, transforms, scans and sorts."""
    return numpy_named.extended(lowering, jax.numpy, _linear(jax), _scans(jax) | _orders(jax.numpy))


def _linear(jax: Any) -> dict[str, Function]:
    xp, la = jax.numpy, jax.numpy.linalg
    return {
        "solve": lambda x, right: unless(xp, _is_nearly_singular(jax, x), la.solve(x, right)),
        "inv": lambda x: unless(xp, _is_nearly_singular(jax, x), la.inv(x)),
        "det": lambda x: xp.where(_is_nearly_singular(jax, x), xp.nan, la.det(x)),
        "slogdet": partial(_slogdet, jax),
        "cholesky": partial(_cholesky, xp),
        "svdvals": la.svdvals,
        "eigvalsh": lambda x, part: la.eigvalsh(x, part, symmetrize_input=False),
        "pinv": partial(pinv, xp, partial(xp.matmul, precision="highest")),
    }


def _is_nearly_singular(jax: Any, x: Any) -> Any:
    return is_uneven(jax.numpy, jax.lax.linalg.lu(x)[0])


def _slogdet(jax: Any, x: Any) -> tuple[Any, Any]:
    sign, size = jax.numpy.linalg.slogdet(x)
    return sign, jax.numpy.where(_is_nearly_singular(jax, x), jax.numpy.nan, size)


def _cholesky(xp: Any, x: Any, upper: bool) -> Any:
    made = xp.linalg.cholesky(x, upper=upper, symmetrize_input=False)
    return unless(xp, is_uneven(xp, made, ROUNDING**0.5), made)


def _scans(jax: Any) -> dict[str, Function]:
    return {
        "cumsum": lambda x, axis: jax.numpy.cumsum(x, axis=axis, dtype=x.dtype),
        "cumprod": lambda x, axis: jax.numpy.cumprod(x, axis=axis, dtype=x.dtype),
        "cummax": lambda x, axis: jax.lax.cummax(x, axis=axis),
        "cummin": lambda x, axis: jax.lax.cummin(x, axis=axis),
    }


def _orders(xp: Any) -> dict[str, Function]:
    def argsort(x: Any, axis: int) -> Any:
        if x.shape[axis] < 2:
            return xp.zeros(x.shape, "int64")
        return xp.argsort(x, axis=axis, stable=True).astype("int64")

    return {
        "sort": lambda x, axis: x if x.shape[axis] < 2 else xp.sort(x, axis=axis, stable=True),
        "argsort": argsort,
    }


def place_of_extreme(xp: Any, name: str, on_host: bool) -> Function:
    """Return ``argmax`` or ``argmin``, also along an axis of one element, and of several NaN.

    For such an axis, as for a sort along it, XLA ends the process on a GPU if its algebraic
    simplification is off; of several NaN, it returns any on a GPU (JAX 0.11.2 on an H200).
    """
    function = getattr(xp, name)

    def places(x: Any, axis: int) -> Any:
        if x.shape[axis] == 1:
            return xp.zeros((*x.shape[:axis], *x.shape[axis:][1:]), "int64")
        found = function(x, axis=axis)
        if on_host or x.dtype.kind != "f":
            return found
        nan = xp.isnan(x)
        return xp.where(nan.any(axis=axis), xp.argmax(nan, axis=axis), found)

    return places
