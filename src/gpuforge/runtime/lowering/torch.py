"""PyTorch's linear algebra, transforms, scans and sorts, where they agree with NumPy's.

NumPy computes linear algebra in float64 and rounds the result to float32; so does this module.
Eigenvectors and singular vectors stay on NumPy, since their signs depend on the library. So do
inputs that are not finite: some of PyTorch's factorisations end the process for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gpuforge.dataclass import replace
from gpuforge.runtime.array.graph import Dtype
from gpuforge.runtime.lowering.contract import Lowering, has_ties, only, unstable_argsort
from gpuforge.runtime.lowering.numpy_named import (
    LARGEST,
    ROUNDING,
    beyond_axis,
    cond,
    transforms,
    unless,
)

Function = Callable[..., Any]
_ORDER = only("biuf", "PyTorch does not order complex numbers as NumPy does")


def extended(lowering: Lowering, torch: Any) -> Lowering:
    """Return a lowering to PyTorch with its linear algebra, transforms, scans and sorts."""
    careful = {**_linear(torch), **transforms(torch)}
    rows: dict[str, Function] = {
        **careful,
        **_scans(torch),
        **_orders(torch),
        "pick": lambda values, place: values[place],
        "diagonal": torch.diagonal,
    }
    guards: dict[str, Function] = {
        **dict.fromkeys(careful, partial(_beyond_square, torch)),
        "searchsorted": _out_of_order,
        "unique": _any_nan,
        "checked_take_along": beyond_axis,
    }
    results: dict[str, Function] = dict.fromkeys(careful, partial(_result_not_finite, torch))
    results |= dict.fromkeys(("cumsum", "cumprod"), _scan_not_finite)
    results["unstable_argsort"] = has_ties
    refused = {
        **dict.fromkeys(("sort", "argsort", "unstable_argsort", "unique"), _ORDER),
        "searchsorted": only("iuf", "PyTorch has no searchsorted for this dtype"),
        **dict.fromkeys(("cummax", "cummin"), only("iuf", "PyTorch has no cumulative extremes")),
        **dict.fromkeys(("cumsum", "cumprod"), _running_sums),
    }
    return replace(
        lowering,
        functions={**lowering.functions, **rows},
        guards={**lowering.guards, **guards},
        result_guards={**lowering.result_guards, **results},
        refused={**lowering.refused, **refused},
        views=lowering.views | {"diagonal"},
    )


def _running_sums(dtype: Dtype) -> str:
    if dtype.char == "e":
        return "PyTorch adds float16 in float32, NumPy rounds each sum"
    return "" if dtype.kind in "iufc" else "PyTorch has no cumulative sums for this dtype"


# -- linear algebra -------------------------------------------------------------------------------


def _in_double(torch: Any, function: Function) -> Function:
    """Return a function that computes in float64 and rounds to the dtype of its first input."""
    wide = {torch.float32: torch.float64, torch.complex64: torch.complex128}

    def compute(*given: Any) -> Any:
        dtype = given[0].dtype
        if dtype not in wide:
            return function(*given)
        made = function(*[x.to(wide[dtype]) if isinstance(x, torch.Tensor) else x for x in given])
        if isinstance(made, tuple):
            return tuple(_narrowed(torch, one) for one in made)
        return _narrowed(torch, made)

    return compute


def _narrowed(torch: Any, made: Any) -> Any:
    narrow = {torch.float64: torch.float32, torch.complex128: torch.complex64}
    return made.to(narrow.get(made.dtype, made.dtype))


def _linear(torch: Any) -> dict[str, Function]:
    la = torch.linalg
    functions: dict[str, Function] = {
        "solve": lambda x, right: unless(torch, _is_nearly_singular(la, x), la.solve(x, right)),
        "inv": lambda x: unless(torch, _is_nearly_singular(la, x), la.inv(x)),
        "det": lambda x: torch.where(_is_nearly_singular(la, x), torch.nan, la.det(x)),
        "slogdet": partial(_slogdet, torch),
        "cholesky": partial(_cholesky, torch),
        "qr": partial(_qr, torch),
        "qr_r": lambda x: _qr(torch, x, "r")[1],
        "svdvals": la.svdvals,
        "eigvalsh": lambda x, part: la.eigvalsh(x, UPLO=part),
        "cond": partial(cond, torch),
        "pinv": partial(_pinv, torch),
        "lstsq": partial(_least_squares, torch),
    }
    return {name: _in_double(torch, function) for name, function in functions.items()}


def _is_uneven(diagonal: Any, share: float = ROUNDING) -> Any:
    sizes = diagonal.abs()
    return ~(sizes.amin(dim=-1) > share * sizes.amax(dim=-1))  # also for NaN


def _is_nearly_singular(la: Any, x: Any) -> Any:
    return _is_uneven(la.lu_factor_ex(x).LU.diagonal(dim1=-2, dim2=-1))


def _slogdet(torch: Any, x: Any) -> tuple[Any, Any]:
    sign, size = torch.linalg.slogdet(x)
    return sign, torch.where(_is_nearly_singular(torch.linalg, x), torch.nan, size)


def _cholesky(torch: Any, x: Any, upper: bool) -> Any:
    made = torch.linalg.cholesky(x, upper=upper)
    return unless(torch, _is_uneven(made.diagonal(dim1=-2, dim2=-1), ROUNDING**0.5), made)


def _qr(torch: Any, x: Any, mode: str) -> tuple[Any, Any]:
    q, r = torch.linalg.qr(x, mode)
    return q, unless(torch, _is_uneven(r.diagonal(dim1=-2, dim2=-1)), r)


def _inverted(torch: Any, s: Any, share: float) -> Any:
    """Return the inverses of singular values: zero for small ones, NaN for doubtful cases."""
    largest = s.amax(dim=-1, keepdim=True)
    large = s > share * largest
    doubtful = (s - share * largest).abs() <= ROUNDING * largest
    doubtful |= large & (s <= ROUNDING * largest)
    inverse = torch.where(large, 1 / torch.where(large, s, 1), 0)
    return torch.where(doubtful.any(dim=-1, keepdim=True), torch.nan, inverse)


def _pinv(torch: Any, x: Any, share: float) -> Any:
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    return vh.mH @ (_inverted(torch, s, share).to(x.dtype)[..., None] * u.mH)


def _least_squares(torch: Any, a: Any, b: Any, rcond: float | None) -> tuple[Any, ...]:
    """Return the results of NumPy's `lstsq`, computed from singular values."""
    rows, columns = a.shape
    column = b.ndim == 1
    right = b[:, None] if column else b
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    eps = torch.finfo(a.dtype).eps
    share = eps * max(rows, columns) if rcond is None else rcond if rcond >= 0 else eps
    inverse = _inverted(torch, s, share).to(a.dtype)
    found = vh.mH @ (inverse[:, None] * (u.mH @ right))
    rank = (s > share * s[0]).sum().to(torch.int32)
    left = s.new_empty(0)
    if rows > columns and int(rank) == columns:
        left = (right - a @ found).abs().square().sum(dim=0)
    return found[:, 0] if column else found, left, rank, s


def _beyond_square(torch: Any, *given: Any) -> bool:
    """Return whether an input is not finite, or too large to be squared and summed up.

    This is checked before the operation runs.
    """
    double = (torch.float64, torch.complex128)
    return not all(
        bool((x.abs() < LARGEST if x.dtype in double else x.isfinite()).all())
        for x in given
        if isinstance(x, torch.Tensor)
    )


def _result_not_finite(torch: Any, result: Any) -> bool:
    parts = result if isinstance(result, tuple) else (result,)
    return not all(bool(x.isfinite().all()) for x in parts if isinstance(x, torch.Tensor))


def _scan_not_finite(result: Any) -> bool:
    """Return whether a scan is not finite: PyTorch adds float32 in float64."""
    inexact = result.is_floating_point() or result.is_complex()
    return inexact and not bool(result.isfinite().all())


# -- transforms, scans and sorts ------------------------------------------------------------------


def _scans(torch: Any) -> dict[str, Function]:
    return {
        "cumsum": lambda x, axis: torch.cumsum(x, dim=axis, dtype=x.dtype),
        "cumprod": lambda x, axis: torch.cumprod(x, dim=axis, dtype=x.dtype),
        "cummax": lambda x, axis: torch.cummax(x, dim=axis).values,
        "cummin": lambda x, axis: torch.cummin(x, dim=axis).values,
    }


def _orders(torch: Any) -> dict[str, Function]:
    def along(x: Any, places: Any, axis: int) -> Any:
        length = x.shape[axis]
        return torch.take_along_dim(x, torch.where(places < 0, places + length, places), axis)

    return {
        "sort": lambda x, axis: torch.sort(x, dim=axis, stable=True).values,
        "argsort": lambda x, axis: torch.argsort(x, dim=axis, stable=True),
        "unstable_argsort": unstable_argsort(lambda x, axis: torch.sort(x, dim=axis, stable=True)),
        "searchsorted": lambda a, v, side: torch.searchsorted(
            a.contiguous(), v.contiguous(), side=side
        ),
        "bincount": lambda x, *rest: torch.bincount(
            x, rest[0] if len(rest) > 1 else None, rest[-1]
        ),
        "nonzero": lambda x: torch.nonzero(x).T.contiguous(),
        "unique": torch.unique,
        "take_along": torch.take_along_dim,
        "checked_take_along": along,
    }


def _any_nan(x: Any) -> Any:
    return x.is_floating_point() and bool(x.isnan().any())


def _out_of_order(a: Any, v: Any, side: str) -> Any:
    """Return whether values cannot be ordered (NaN), or a vector is not sorted."""
    return _any_nan(a) or _any_nan(v) or bool((a[1:] < a[:-1]).any())
