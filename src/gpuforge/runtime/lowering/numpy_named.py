"""Linear algebra, transforms, scans and sorts of libraries with NumPy's names, where they agree.

NumPy computes linear algebra in float64 and rounds the result to float32; so does this module. A
library gives NaN, or something arbitrary, where NumPy raises LinAlgError and where an input is not
finite: NumPy settles both. Eigenvectors and singular vectors stay on NumPy, since their signs
depend on the library.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gpuforge.dataclass import replace
from gpuforge.runtime.array.graph import Dtype
from gpuforge.runtime.lowering.contract import Lowering, Refusal, has_ties, only, unstable_argsort

Function = Callable[..., Any]
ROUNDING = 1e-9
"""If the ratio of singular values is below this, results are mostly rounding error: NumPy settles
those, and decides whether such a matrix is singular."""
LARGEST = 1e140
"""Doubles beyond this are left to NumPy, with a margin for sums of their squares: of complex
matrices with a number of 1e308, cuSOLVER gives finite wrong singular values (CUDA 13.0, H200)."""


def extended(
    lowering: Lowering, xp: Any, linear: dict[str, Function], rows: dict[str, Function]
) -> Lowering:
    """Return a lowering extended by a library's linear algebra, transforms, scans and sorts.

    `linear` holds the linear algebra in which the library differs from `_linear`, and `rows` its
    scans and sorts, and the transforms in which it differs.
    """
    careful = {name: _in_double(xp, one) for name, one in {**_linear(xp), **linear}.items()}
    careful |= transforms(xp)
    shared: dict[str, Function] = {
        "searchsorted": lambda a, v, side: xp.searchsorted(a, v, side=side).astype("int64"),
        "take_along": xp.take_along_axis,
        "checked_take_along": xp.take_along_axis,
        "pick": lambda values, place: values[place],
        "diagonal": xp.diagonal,
    }
    if "argsort" in rows:
        shared["unstable_argsort"] = unstable_argsort(partial(_sorted, xp, rows["argsort"]))
    rows = {**careful, **shared, **rows}
    guards: dict[str, Function] = {
        **dict.fromkeys(careful, partial(_beyond_square, xp)),
        **dict.fromkeys(("cummax", "cummin", "unique"), partial(_any_nan, xp)),
        "searchsorted": partial(_out_of_order, xp),
        "checked_take_along": beyond_axis,
    }
    results: dict[str, Function] = dict.fromkeys(careful, partial(_result_not_finite, xp))
    results |= dict.fromkeys(("cumsum", "cumprod"), partial(_scan_not_finite, xp))
    results["unstable_argsort"] = has_ties
    order = only("biuf", f"{lowering.library} does not order complex numbers as NumPy does")
    extremes = only("iuf", f"{lowering.library} has no cumulative extremes")
    refused: dict[str, Refusal] = {
        **dict.fromkeys(("sort", "argsort", "unstable_argsort", "searchsorted", "unique"), order),
        **dict.fromkeys(("cummax", "cummin"), extremes),
        **dict.fromkeys(("cumsum", "cumprod"), partial(_running_sums, lowering.library)),
    }
    return replace(
        lowering,
        functions={**lowering.functions, **rows},
        guards={**lowering.guards, **{name: one for name, one in guards.items() if name in rows}},
        result_guards={**lowering.result_guards, **results},
        refused={**lowering.refused, **refused},
    )


def _sorted(xp: Any, argsort: Function, x: Any, axis: int) -> tuple[Any, Any]:
    places = argsort(x, axis)
    return xp.take_along_axis(x, places, axis), places


def _running_sums(library: str, dtype: Dtype) -> str:
    if dtype.char == "e":
        return f"{library} adds float16 in a different order from NumPy"
    return "" if dtype.kind in "iufc" else f"{library} has no cumulative sums for this dtype"


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


def _linear(xp: Any) -> dict[str, Function]:
    """Return the linear algebra that needs nothing but NumPy's names."""
    return {
        "eigvalsh": lambda x, part: xp.linalg.eigvalsh(x, part),
        "cond": partial(cond, xp),
        "pinv": partial(pinv, xp, xp.matmul),
        "qr": partial(_qr, xp),
        "qr_r": lambda x: _qr(xp, x, "reduced")[1],
    }


def unless(xp: Any, ill: Any, made: Any) -> Any:
    """Return `made` with NaN for the matrices whose result is mostly rounding error."""
    return xp.where(ill[..., None, None], xp.nan, made)


def is_uneven(xp: Any, matrices: Any, share: float = ROUNDING) -> Any:
    """Return whether the diagonals of factors hold NaN, or a number far below their largest."""
    sizes = abs(xp.diagonal(matrices, axis1=-2, axis2=-1))
    return ~(sizes.min(axis=-1) > share * sizes.max(axis=-1))


def _qr(xp: Any, x: Any, mode: str) -> tuple[Any, Any]:
    q, r = xp.linalg.qr(x, mode)
    return q, unless(xp, is_uneven(xp, r), r)


def cond(xp: Any, x: Any, order: Any) -> Any:
    """Return condition numbers, NaN where they are mostly rounding error."""
    found = xp.linalg.cond(x, order)
    return xp.where((found > 1 / ROUNDING) | (found < ROUNDING), xp.nan, found)


def pinv(xp: Any, matmul: Function, x: Any, share: float) -> Any:
    """Return pseudo-inverses without singular values up to `share` of the largest one."""
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    largest = s.max(axis=-1, keepdims=True)
    large = s > share * largest
    doubtful = (abs(s - share * largest) <= ROUNDING * largest) | (
        large & (s <= ROUNDING * largest)
    )
    inverse = xp.where(large, 1 / xp.where(large, s, 1), 0)
    inverse = xp.where(doubtful.any(axis=-1, keepdims=True), xp.nan, inverse)
    right = inverse[..., None] * xp.swapaxes(u, -1, -2).conj()
    return matmul(xp.swapaxes(vh, -1, -2).conj(), right)


def _beyond_square(xp: Any, *given: Any) -> Any:
    """Return whether an input is not finite, or too large to be squared and summed up."""
    fired: Any = False
    for x in given:
        if hasattr(x, "dtype"):
            double = str(x.dtype) in ("float64", "complex128")
            fired = fired | ~(abs(x) < LARGEST if double else xp.isfinite(x)).all()
    return fired


def _result_not_finite(xp: Any, result: Any) -> Any:
    fired: Any = False
    for x in result if isinstance(result, tuple) else (result,):
        if hasattr(x, "dtype"):
            fired = fired | ~xp.isfinite(x).all()
    return fired


# -- transforms, scans and sorts ------------------------------------------------------------------


def transforms(xp: Any) -> dict[str, Function]:
    """Return a library's transforms of several axes: of an array, its lengths, axes and norm."""
    return {name: getattr(xp.fft, name) for name in ("fftn", "ifftn", "rfftn", "irfftn")}


def _scan_not_finite(xp: Any, result: Any) -> Any:
    """Return whether a scan is not finite: a library combines values in another order."""
    return False if result.dtype.kind in "biu" else ~xp.isfinite(result).all()


def _any_nan(xp: Any, x: Any, *_: Any) -> Any:
    return xp.isnan(x).any() if x.dtype.kind == "f" else False


def _out_of_order(xp: Any, a: Any, v: Any, side: str) -> Any:
    """Return whether values cannot be ordered (NaN), or a vector is not sorted."""
    return _any_nan(xp, a) | _any_nan(xp, v) | (a[1:] < a[:-1]).any()


def beyond_axis(x: Any, places: Any, axis: int) -> Any:
    """Return whether an index is out of range on an axis."""
    length = x.shape[axis]
    return ((places < -length) | (places >= length)).any()
