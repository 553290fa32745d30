"""JAX's linear algebra, transforms, scans and sorts, where they agree with NumPy's.

NumPy computes linear algebra in float64 and rounds the result to float32; so does this module. JAX
gives NaN where NumPy raises LinAlgError and where an input is not finite: NumPy settles both.
Eigenvectors and singular vectors stay on NumPy, since their signs depend on the library. Operations
whose result shape depends on values cannot be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gpuforge.dataclass import replace
from gpuforge.runtime.array.graph import Dtype
from gpuforge.runtime.lowering.contract import Lowering, only

Function = Callable[..., Any]
ROUNDING = 1e-9
"""If the ratio of singular values is below this, results are mostly rounding error: NumPy settles
those, and decides whether such a matrix is singular."""
_ORDER = only("biuf", "JAX does not order complex numbers as NumPy does")


def extended(lowering: Lowering, jax: Any) -> Lowering:
    """Return a lowering to JAX with its linear algebra, transforms, scans and sorts."""
    xp = jax.numpy
    careful = {**_linear(jax), **_transforms(xp)}
    rows: dict[str, Function] = {
        **careful,
        **_scans(jax),
        **_orders(xp),
        "pick": lambda values, place: values[place],
        "diagonal": xp.diagonal,
    }
    guards: dict[str, Function] = {
        **dict.fromkeys(careful, partial(_not_finite, xp)),
        **dict.fromkeys(("cummax", "cummin"), partial(_any_nan, xp)),
        "searchsorted": partial(_out_of_order, xp),
        "checked_take_along": _beyond_axis,
    }
    results: dict[str, Function] = dict.fromkeys(careful, partial(_result_not_finite, xp))
    results |= dict.fromkeys(("cumsum", "cumprod"), partial(_scan_not_finite, xp))
    refused = {
        **dict.fromkeys(("sort", "argsort", "searchsorted"), _ORDER),
        **dict.fromkeys(("cummax", "cummin"), only("iuf", "JAX has no cumulative extremes")),
        **dict.fromkeys(("cumsum", "cumprod"), _running_sums),
    }
    return replace(
        lowering,
        functions={**lowering.functions, **rows},
        guards={**lowering.guards, **guards},
        result_guards={**lowering.result_guards, **results},
        refused={**lowering.refused, **refused},
    )


def _running_sums(dtype: Dtype) -> str:
    if dtype.char == "e":
        return "JAX adds float16 in a different order from NumPy"
    return "" if dtype.kind in "iufc" else "JAX has no cumulative sums for this dtype"


# -- linear algebra -------------------------------------------------------------------------------


def _in_double(xp: Any, function: Function) -> Function:
    """Return a function that computes in float64 and rounds to the dtype of its first input."""
    wide = {"float32": "float64", "complex64": "complex128"}
    narrow = {other: one for one, other in wide.items()}

    def compute(*given: Any) -> Any:
        name = str(given[0].dtype)
        if name not in wide:
            return function(*given)
        made = function(*[x.astype(wide[name]) if hasattr(x, "dtype") else x for x in given])
        if isinstance(made, tuple):
            return tuple(one.astype(narrow.get(str(one.dtype), one.dtype)) for one in made)
        return made.astype(narrow.get(str(made.dtype), made.dtype))

    return compute


def _linear(jax: Any) -> dict[str, Function]:
    xp, la = jax.numpy, jax.numpy.linalg
    functions: dict[str, Function] = {
        "solve": lambda x, right: _unless(xp, _is_nearly_singular(jax, x), la.solve(x, right)),
        "inv": lambda x: _unless(xp, _is_nearly_singular(jax, x), la.inv(x)),
        "det": lambda x: xp.where(_is_nearly_singular(jax, x), xp.nan, la.det(x)),
        "slogdet": partial(_slogdet, jax),
        "cholesky": partial(_cholesky, xp),
        "qr": partial(_qr, xp),
        "qr_r": lambda x: _qr(xp, x, "reduced")[1],
        "svdvals": la.svdvals,
        "eigvalsh": lambda x, part: la.eigvalsh(x, part, symmetrize_input=False),
        "cond": partial(_cond, xp),
        "pinv": partial(_pinv, xp),
    }
    return {name: _in_double(xp, function) for name, function in functions.items()}


def _unless(xp: Any, ill: Any, made: Any) -> Any:
    """Return `made` with NaN for the matrices whose result is mostly rounding error."""
    return xp.where(ill[..., None, None], xp.nan, made)


def _is_uneven(xp: Any, matrices: Any, share: float = ROUNDING) -> Any:
    sizes = abs(xp.diagonal(matrices, axis1=-2, axis2=-1))
    return sizes.min(axis=-1) <= share * sizes.max(axis=-1)


def _is_nearly_singular(jax: Any, x: Any) -> Any:
    return _is_uneven(jax.numpy, jax.lax.linalg.lu(x)[0])


def _slogdet(jax: Any, x: Any) -> tuple[Any, Any]:
    sign, size = jax.numpy.linalg.slogdet(x)
    return sign, jax.numpy.where(_is_nearly_singular(jax, x), jax.numpy.nan, size)


def _cholesky(xp: Any, x: Any, upper: bool) -> Any:
    made = xp.linalg.cholesky(x, upper=upper, symmetrize_input=False)
    return _unless(xp, _is_uneven(xp, made, ROUNDING**0.5), made)


def _qr(xp: Any, x: Any, mode: str) -> tuple[Any, Any]:
    q, r = xp.linalg.qr(x, mode)
    return q, _unless(xp, _is_uneven(xp, r), r)


def _cond(xp: Any, x: Any, order: Any) -> Any:
    found = xp.linalg.cond(x, order)
    return xp.where((found > 1 / ROUNDING) | (found < ROUNDING), xp.nan, found)


def _pinv(xp: Any, x: Any, share: float) -> Any:
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    largest = s.max(axis=-1, keepdims=True)
    large = s > share * largest
    doubtful = (abs(s - share * largest) <= ROUNDING * largest) | (
        large & (s <= ROUNDING * largest)
    )
    inverse = xp.where(large, 1 / xp.where(large, s, 1), 0)
    inverse = xp.where(doubtful.any(axis=-1, keepdims=True), xp.nan, inverse)
    right = inverse[..., None] * u.mT.conj()
    return xp.matmul(vh.mT.conj(), right, precision="highest")


def _not_finite(xp: Any, *given: Any) -> Any:
    """Return whether an input is not finite."""
    fired: Any = False
    for x in given:
        if hasattr(x, "dtype"):
            fired = fired | ~xp.isfinite(x).all()
    return fired


def _result_not_finite(xp: Any, result: Any) -> Any:
    return _not_finite(xp, *(result if isinstance(result, tuple) else (result,)))


# -- transforms, scans and sorts ------------------------------------------------------------------


def _transforms(xp: Any) -> dict[str, Function]:
    def transform(name: str) -> Function:
        function = getattr(xp.fft, name)
        return lambda x, lengths, axes, norm: function(x, lengths, axes, norm)

    return {name: transform(name) for name in ("fftn", "ifftn", "rfftn", "irfftn")}


def _scans(jax: Any) -> dict[str, Function]:
    return {
        "cumsum": lambda x, axis: jax.numpy.cumsum(x, axis=axis, dtype=x.dtype),
        "cumprod": lambda x, axis: jax.numpy.cumprod(x, axis=axis, dtype=x.dtype),
        "cummax": lambda x, axis: jax.lax.cummax(x, axis=axis),
        "cummin": lambda x, axis: jax.lax.cummin(x, axis=axis),
    }


def _orders(xp: Any) -> dict[str, Function]:
    return {
        "sort": lambda x, axis: xp.sort(x, axis=axis, stable=True),
        "argsort": lambda x, axis: xp.argsort(x, axis=axis, stable=True).astype("int64"),
        "searchsorted": lambda a, v, side: xp.searchsorted(a, v, side=side).astype("int64"),
        "take_along": xp.take_along_axis,
        "checked_take_along": xp.take_along_axis,
    }


def _scan_not_finite(xp: Any, result: Any) -> Any:
    """Return whether a scan is not finite: XLA combines values in another order."""
    return False if result.dtype.kind in "biu" else ~xp.isfinite(result).all()


def _any_nan(xp: Any, x: Any, *_: Any) -> Any:
    return xp.isnan(x).any() if x.dtype.kind == "f" else False


def _out_of_order(xp: Any, a: Any, v: Any, side: str) -> Any:
    """Return whether values cannot be ordered (NaN), or a vector is not sorted."""
    return _any_nan(xp, a) | _any_nan(xp, v) | (a[1:] < a[:-1]).any()


def _beyond_axis(x: Any, places: Any, axis: int) -> Any:
    length = x.shape[axis]
    return ((places < -length) | (places >= length)).any()
