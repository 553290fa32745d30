"""Scatters, counts and curves on PyTorch, JAX and CuPy, where they agree with NumPy's.

None of them raises for an index out of range: JAX ignores it, CuPy wraps it, PyTorch may end the
process on a GPU. Hence a guard detects such indices, and for PyTorch they are clamped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gpuforge.dataclass import replace
from gpuforge.runtime.array.indexing import ARRAY, index_of
from gpuforge.runtime.lowering.contract import (
    Lowering,
    any_of,
    never,
    only,
    only_chars,
    out_of_range,
    written,
)

Function = Callable[..., Any]
LARGEST_CONVOLUTION = 2**26
"""Limit for the products of a convolution that a library holds at once; else NumPy computes it."""


def in_torch(lowering: Lowering, torch: Any, index: Function) -> Lowering:
    """Return a lowering to PyTorch extended by the operations of this module.

    `index` returns the array to index and PyTorch's index, from the arguments of a gather.
    """
    add = partial(_torch_add, torch, index)
    checked_add = partial(_within, torch.clamp, add)
    each = partial(_within, torch.clamp, partial(_torch_each, index))
    rows: dict[str, Function] = {
        "scatter_add": lambda x, *rest: add(x.clone(), *rest),
        "checked_scatter_add": lambda x, *rest: checked_add(x.clone(), *rest),
        "scatter_each": lambda x, *rest: each(x.clone(), *rest),
        "place_where": partial(_place_where, torch, lambda mask: mask.flatten().cumsum(0)),
        "histogram": partial(_torch_histogram, torch),
        "weighted_histogram": partial(_torch_weighted, torch),
        "interpolate": partial(
            _interpolate, torch, lambda xp, x: torch.searchsorted(xp, x.contiguous(), right=True)
        ),
        "convolve": partial(_torch_convolve, torch),
    }
    reusing = {"scatter_add": add, "checked_scatter_add": checked_add, "scatter_each": each}
    made = _extended(lowering, rows, _each_differs(rows["scatter_each"], index, torch.clamp))
    results = dict.fromkeys(("scatter_add", "checked_scatter_add"), complex_not_finite)
    guards = {**made.guards, "convolve": _convolution_differs}
    return replace(
        made,
        reusing={**made.reusing, **reusing},
        guards=guards,
        result_guards={**made.result_guards, **results},
    )


def in_jax(lowering: Lowering, jax: Any) -> Lowering:
    """Return a lowering to JAX extended likewise."""
    xp = jax.numpy

    def each(x: Any, value: Any, *rest: Any) -> Any:
        return x.at[index_of(rest)].set(value)

    rows: dict[str, Function] = {
        "scatter_add": lambda x, value, *rest: x.at[index_of(rest)].add(value),
        "checked_scatter_add": lambda x, value, *rest: x.at[index_of(rest)].add(value),
        "scatter_each": each,
        "place_where": partial(_place_where, xp, lambda mask: xp.cumsum(mask.ravel())),
        "histogram": partial(_jax_histogram, xp),
        "weighted_histogram": partial(_jax_weighted, xp),
        "interpolate": partial(_interpolate, xp, _search(xp)),
        "convolve": lambda a, v, mode: xp.convolve(a, v, mode=mode, precision="highest"),
    }
    return _extended(lowering, rows, _each_differs(each, _indexed, xp.clip))


def in_cupy(lowering: Lowering, cupy: Any) -> Lowering:
    """Return a lowering to CuPy extended likewise."""

    def each(x: Any, value: Any, *rest: Any) -> Any:
        return written(x.copy(), value, *rest)

    add = partial(_cupy_add, cupy)
    rows: dict[str, Function] = {
        "scatter_add": lambda x, *rest: add(x.copy(), *rest),
        "checked_scatter_add": lambda x, *rest: add(x.copy(), *rest),
        "scatter_each": each,
        "place_where": partial(_place_where, cupy, lambda mask: cupy.cumsum(mask.ravel())),
        "histogram": partial(_cupy_histogram, cupy),
        "weighted_histogram": partial(_cupy_weighted, cupy),
        "interpolate": partial(_interpolate, cupy, _search(cupy)),
        "convolve": partial(_cupy_convolve, cupy),
    }
    made = _extended(lowering, rows, _each_differs(each, _indexed, cupy.clip))
    adds = only_chars("iIlLqQfd", "CuPy adds at an index only to dtypes with an atomic sum")
    refused = dict.fromkeys(("scatter_add", "checked_scatter_add"), adds)
    reusing: dict[str, Function] = {
        "scatter_add": add, "checked_scatter_add": add, "scatter_each": written,
    }  # fmt: skip
    return replace(
        made,
        reusing={**made.reusing, **reusing},
        refused={**made.refused, **refused},
        guards={**made.guards, "convolve": _convolution_differs},
    )


def _search(xp: Any) -> Function:
    return lambda curve, x: xp.searchsorted(curve, x, side="right")


def _indexed(x: Any, rest: Any) -> Any:
    return x, index_of(rest)


def _extended(lowering: Lowering, rows: dict[str, Function], differs: Function) -> Lowering:
    guards: dict[str, Function] = {
        "checked_scatter_add": lambda x, value, *rest: out_of_range(x, *rest),
        "scatter_each": differs,
        "place_where": _other_number,
        "interpolate": _not_rising,
        "convolve": lambda a, v, mode: _not_finite(a, v),
    }
    refused = {
        "histogram": only("f", f"{lowering.library} compares bin edges differently"),
        "weighted_histogram": only("f", f"{lowering.library} compares bin edges differently"),
        "convolve": only("fc", f"{lowering.library} has no convolution for this dtype"),
        "scatter_add": never("e?", f"{lowering.library} adds this dtype differently"),
        "checked_scatter_add": never("e?", f"{lowering.library} adds this dtype differently"),
    }
    return replace(
        lowering,
        functions={**lowering.functions, **rows},
        guards={**lowering.guards, **guards},
        refused={**lowering.refused, **refused},
    )


# -- scatters ------------------------------------------------------------------------------------


def _kept_within(clamp: Function, x: Any, rest: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the index arguments of a scatter, clamped to the range."""
    given, pattern = list(rest[:-1]), rest[-1]
    axis = used = 0
    for part in pattern:
        if part == ARRAY:
            length = int(x.shape[axis])
            given[used] = clamp(given[used], -length, length - 1)
            used += 1
        axis += part != "new"
    return (*given, pattern)


def _within(clamp: Function, function: Function, x: Any, value: Any, *rest: Any) -> Any:
    return function(x, value, *_kept_within(clamp, x, rest))


def _torch_add(torch: Any, index: Function, x: Any, value: Any, *rest: Any) -> Any:
    places, pattern = rest[0], rest[-1]
    whole = all(part == (0, n, 1) for part, n in zip(pattern[1:], x.shape[1:], strict=False))
    if pattern[0] == ARRAY and places.ndim == 1 and whole and len(pattern) == x.ndim:
        return x.index_add_(0, places.remainder(x.shape[0]), value)
    numbers = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    line, at = index(numbers, rest)
    spots = line[at]
    x.view(-1).index_add_(0, spots.reshape(-1), value.expand(spots.shape).reshape(-1))
    return x


def complex_not_finite(result: Any) -> Any:
    """Return whether a complex result of PyTorch is not finite: libraries differ there.

    For sums at an index, its CUDA kernel multiplies each term by one, which makes NaN of
    infinities.
    """
    return result.is_complex() and not result.isfinite().all()


def _cupy_add(cupy: Any, x: Any, value: Any, *rest: Any) -> Any:
    target = x.view("uint64") if x.dtype.kind == "i" and x.dtype.itemsize == 8 else x
    if target is not x:  # sums of both are the same bits, and CUDA adds only the unsigned ones
        value = cupy.asarray(value, dtype=x.dtype).view("uint64")
    cupy.add.at(target, index_of(rest), value)
    return x


def _torch_each(index: Function, x: Any, value: Any, *rest: Any) -> Any:
    whole, at = index(x, rest)
    whole[at] = value
    return x


def _each_differs(each: Function, index: Function, clamp: Function) -> Function:
    """Return a guard that detects an index that occurs twice with different values.

    NumPy keeps the last value, a library any of them.
    """

    def differs(x: Any, value: Any, *rest: Any) -> Any:
        kept = _kept_within(clamp, x, rest)
        line, at = index(each(x, value, *kept), kept)
        found = line[at]
        numbers = (found == found) | (value == value)
        return out_of_range(x, *rest) | any_of((found != value) & numbers)

    return differs


# -- values where a mask is true ------------------------------------------------------------------


def _place_where(lib: Any, running: Function, x: Any, mask: Any, values: Any) -> Any:
    if not values.shape[0]:
        return lib.where(x == x, x, x)
    order = running(mask) - 1
    taken = values[lib.clip(order, 0, values.shape[0] - 1)].reshape(x.shape)
    wide = mask.reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim))
    return lib.where(wide, taken, x)


def _other_number(x: Any, mask: Any, values: Any) -> Any:
    """Return whether the number of values differs from that of places; NumPy raises."""
    return mask.sum() != values.shape[0]


# -- counts and curves ----------------------------------------------------------------------------


def _torch_histogram(torch: Any, values: Any, edges: Any) -> Any:
    counts = torch.zeros(edges.shape[0], dtype=torch.int64, device=values.device)
    places = _torch_bins(torch, values, edges)
    return counts.index_add_(0, places, torch.ones_like(places))[:-1]


def _torch_weighted(torch: Any, values: Any, weights: Any, edges: Any) -> Any:
    sums = torch.zeros(edges.shape[0], dtype=torch.float64, device=values.device)
    sums.index_add_(0, _torch_bins(torch, values, edges), weights.to(torch.float64))
    return sums[:-1].to(weights.dtype)


def _torch_bins(torch: Any, values: Any, edges: Any) -> Any:
    places = torch.searchsorted(edges, values.contiguous(), right=True) - 1
    return _bins(torch, values, edges, places)


def _jax_histogram(xp: Any, values: Any, edges: Any) -> Any:
    places = _bins(xp, values, edges, xp.searchsorted(edges, values, side="right") - 1)
    return xp.zeros(edges.shape[0], dtype="int64").at[places].add(1)[:-1]


def _jax_weighted(xp: Any, values: Any, weights: Any, edges: Any) -> Any:
    places = _bins(xp, values, edges, xp.searchsorted(edges, values, side="right") - 1)
    sums = xp.zeros(edges.shape[0], dtype="float64").at[places].add(weights.astype("float64"))
    return sums[:-1].astype(weights.dtype)


def _cupy_histogram(cupy: Any, values: Any, edges: Any) -> Any:
    places = _bins(cupy, values, edges, cupy.searchsorted(edges, values, side="right") - 1)
    return cupy.bincount(places.ravel(), minlength=edges.shape[0])[:-1]


def _cupy_weighted(cupy: Any, values: Any, weights: Any, edges: Any) -> Any:
    places = _bins(cupy, values, edges, cupy.searchsorted(edges, values, side="right") - 1)
    sums = cupy.bincount(places, weights.astype("float64"), minlength=edges.shape[0])
    return sums[:-1].astype(weights.dtype)


def _bins(lib: Any, values: Any, edges: Any, places: Any) -> Any:
    """Return the bin of each value; values outside get the number of bins."""
    bins = edges.shape[0] - 1
    places = lib.where(values == edges[-1], bins - 1, places)
    return lib.where((values >= edges[0]) & (values <= edges[-1]), places, bins)


def _interpolate(
    lib: Any, search: Function, x: Any, xp: Any, fp: Any, left: float | None, right: float | None
) -> Any:
    low, high = (fp[0] if left is None else left), (fp[-1] if right is None else right)
    last = xp.shape[0] - 1
    if not last:
        return lib.where(x < xp[0], low, lib.where(x > xp[0], high, fp[0]))
    start = lib.clip(search(xp, x) - 1, 0, last - 1)
    x0, x1, f0, f1 = xp[start], xp[start + 1], fp[start], fp[start + 1]
    slope = (f1 - f0) / (x1 - x0)
    made = slope * (x - x0) + f0
    again = slope * (x - x1) + f1
    again = lib.where(lib.isnan(again) & (f0 == f1), f0, again)
    made = lib.where(lib.isnan(made), again, made)
    made = lib.where(x == x0, f0, lib.where(x == xp[-1], fp[-1], made))
    made = lib.where(x > xp[-1], high, lib.where(x < xp[0], low, made))
    return lib.where(lib.isnan(x), x, made)


def _not_rising(x: Any, xp: Any, *_: Any) -> Any:
    """Return whether the points of a curve are not sorted; NumPy's result is then arbitrary."""
    return any_of(~(xp[1:] >= xp[:-1]))


def _torch_convolve(torch: Any, a: Any, v: Any, mode: str) -> Any:
    length = v.shape[0]
    padding = 0 if mode == "valid" else length - 1
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        made = torch.nn.functional.conv1d(a[None, None], v.flip(0)[None, None], padding=padding)
    line = made[0, 0]
    return line if mode != "same" else line[(length - 1) // 2 :][: a.shape[0]]


def _cupy_convolve(cupy: Any, a: Any, v: Any, mode: str) -> Any:
    """Return sums of products; CuPy's own function transforms long arrays, which adds errors."""
    length = v.shape[0]
    padded = a if mode == "valid" else cupy.pad(a, length - 1)
    shape, step = (padded.shape[0] - length + 1, length), padded.strides[0]
    line = cupy.lib.stride_tricks.as_strided(padded, shape, (step, step)) @ v[::-1]
    return line if mode != "same" else line[(length - 1) // 2 :][: a.shape[0]]


def _convolution_differs(a: Any, v: Any, mode: str) -> Any:
    too_large = int(a.shape[0]) * int(v.shape[0]) > LARGEST_CONVOLUTION
    return too_large or _not_finite(a, v)


def _not_finite(a: Any, v: Any) -> Any:
    """Return whether an input is not finite: libraries multiply it by zeros of padding."""
    return any_of(a - a != 0) | any_of(v - v != 0)
