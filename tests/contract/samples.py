"""Sample calls for every row of the table of operations, over dtypes and layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuforge.runtime.array.table import UFUNCS

Host = np.ndarray[Any, Any]
CHARS = "?bBhHiIlLefdFD"
"""The dtypes of the table, each once."""


@dataclass(frozen=True)
class Call:
    """One function to be recorded, with the arrays it is given.

    Attributes
    ----------
    dtypes : by which a lowering allows or refuses the row
    ordinary : whether a backend that has the row must do it itself
    apart : whether it is a part of the call before it, to be tried where NumPy settled that
    """

    function: Callable[..., Any]
    arrays: tuple[Any, ...]
    dtypes: tuple[np.dtype[Any], ...]
    ordinary: bool
    apart: bool = False


def ordinary(char: str, count: int = 12, *, positive: bool = False) -> Host:
    """Return `count` values that no library has trouble with, none of them zero."""
    dtype = np.dtype(char)
    if dtype.kind == "b":
        return np.resize(np.array([True, False, True]), count)
    if dtype.kind in "iu":
        values = np.resize(np.array([3, 1, 5, 2, 7, 4, 6]), count)
        signs = np.resize([1, 1, -1, 1, -1], count)
        return (values if positive or dtype.kind == "u" else values * signs).astype(dtype)
    real = np.resize(
        np.array([0.25, 1.5, 0.5, 2.5, 3.0, 0.75, 7.0, 4.0, 1e-2, 2.0, 0.125, 1.25]), count
    )
    signed = real if positive else real * np.resize([1, 1, -1, 1, -1, 1, 1, -1], count)
    return (signed + 0.5j * real[::-1] if dtype.kind == "c" else signed).astype(dtype)


def special(char: str) -> Host:
    """Return the values of a dtype for which libraries differ."""
    dtype = np.dtype(char)
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = [0, 1, 2, 7, 8, 40, limits.max, limits.max - 1, limits.min, limits.min + 1]
        return np.array(values + ([-1, -2, -7] if dtype.kind == "i" else []), dtype)
    huge = float(np.finfo(dtype).max) * 0.75
    real = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 2.0, 3.0, huge, -huge, 300.0]
    if dtype.kind == "f":
        return np.array(real, dtype)
    parts = (np.nan, np.inf, -np.inf, 0.0, 1.5, -huge)
    return np.array([complex(a, b) for a in parts for b in parts], dtype)


def layouts(char: str, *, positive: bool = False) -> tuple[Host, ...]:
    """Return ordinary values in memory orders and shapes that libraries may stumble over."""
    whole = ordinary(char, 48, positive=positive).reshape(6, 8)
    return (
        whole, whole[::2, 1::3], whole[::-1, ::-1], whole.T, whole[:0], whole[0, 0, ...],
        np.broadcast_to(whole[0], (3, 8)), ordinary(char, 5000, positive=positive),
        whole.reshape(2, 3, 8).transpose(1, 2, 0), whole.astype(whole.dtype.newbyteorder(">")),
    )  # fmt: skip


def calls(name: str, chars: str = CHARS, *, most: int | None = None) -> Iterator[Call]:
    """Return the sample calls of one row for inputs of some dtypes.

    Universal functions are given `most` of the layouts, or all.

    Raises
    ------
    KeyError
        If the row has no sample.
    """
    found = {row.name: ufunc for ufunc, row in UFUNCS.items()}
    if name in found and name not in OTHERS:
        yield from _of_ufunc(found[name], chars, most)
        return
    sample = OTHERS[name]
    for char in CHARS:
        if char in chars:
            yield from sample(char)


def few_calls(name: str, chars: str) -> Iterator[Call]:
    """Return two of the sample calls for each combination of dtypes: ordinary values, and special.

    Raises
    ------
    KeyError
        If the row has no sample.
    """
    seen: set[Any] = set()
    for call in calls(name, chars, most=4):
        if (key := (call.dtypes, call.ordinary)) not in seen:
            seen.add(key)
            yield call


# -- universal functions --------------------------------------------------------------------------


def _of_ufunc(ufunc: Any, chars: str, most: int | None) -> Iterator[Call]:
    for loop in ufunc.types:
        takes = loop.partition("->")[0]
        if takes[0] not in chars:
            continue
        if all(char in CHARS or char in "qQ" for char in loop.replace("->", "")):
            if ("q" in takes and takes != "qQ") or ("Q" in takes and takes not in ("Qq", "qQ")):
                continue
            if ufunc is np.power and takes[0] not in "efdFD":
                continue  # integer_power
            yield from (_unary if len(takes) == 1 else _binary)(ufunc, takes, most)


def _unary(ufunc: Any, takes: str, most: int | None) -> Iterator[Call]:
    dtypes = (np.dtype(takes),)

    def every(*arrays: Any) -> Any:
        return [ufunc(array) for array in arrays]

    yield Call(every, layouts(takes)[:most], dtypes, True)
    yield Call(ufunc_of(ufunc), (special(takes),), dtypes, False)
    for value in special(takes):
        yield Call(ufunc_of(ufunc), (np.full(37, value),), dtypes, False, apart=True)


def ufunc_of(ufunc: Any) -> Any:
    return lambda *arrays: ufunc(*arrays)


def _binary(ufunc: Any, takes: str, most: int | None) -> Iterator[Call]:
    dtypes = tuple(map(np.dtype, takes))
    left, right = layouts(takes[0])[:most], layouts(takes[1], positive=True)[:most]
    number = right[0].flat[0].item()

    def every(*arrays: Any) -> Any:
        half = len(arrays) // 2
        pairs = list(zip(arrays[:half], arrays[half:], strict=True))
        matrix, small = pairs[0][0], pairs[0][1]
        made = [ufunc(a, b) for a, b in pairs]
        made += [
            ufunc(matrix, small[0]),
            ufunc(matrix[:, :1], small[:1]),
            ufunc(matrix, small[0, 0]),
        ]
        made += [ufunc(matrix, number), ufunc(number, small)] if takes[0] == takes[1] else []
        return made

    yield Call(every, (*left, *right), dtypes, True)
    first, second = special(takes[0]), special(takes[1])
    yield Call(ufunc_of(ufunc), (first[:, None], second), dtypes, False)
    for value in first if first.size < 20 else first[::5]:
        yield Call(
            ufunc_of(ufunc), (np.full(second.size, value), second), dtypes, False, apart=True
        )
    for value in second if second.size < 20 else second[::5]:
        yield Call(ufunc_of(ufunc), (first, np.full(first.size, value)), dtypes, False, apart=True)


# -- the rest -------------------------------------------------------------------------------------

Sampler = Callable[[str], Iterator[Call]]
OTHERS: dict[str, Sampler] = {}


def sample(
    *names: str, chars: str = CHARS, specials: bool = True, singly: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register what is done with one array of two axes (6, 8) as the sample of rows.

    With `singly`, special values come one at a time too: in sums the first NaN hides the rest.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def of(char: str) -> Iterator[Call]:
            if char not in chars:
                return
            dtype = np.dtype(char)
            whole = ordinary(char, 48).reshape(6, 8)
            if {"sum", "prod", "cumsum", "cumprod"} & set(names):
                dtype = np.sum(whole).dtype  # what they are summed in
            for array in (whole[::-1, ::-1], np.asfortranarray(whole)):
                yield Call(function, (array,), (dtype,), True)
            if specials:
                yield Call(function, (np.resize(special(char), (6, 8)),), (dtype,), False)
                many = special(char) if singly else special(char)[:0]
                # whether a product overflows on the way is a question of its order
                many = many[~(np.abs(many) > 1e3)] if "prod" in names else many
                for value in many:
                    one = whole.copy()
                    one[2, 3] = value
                    yield Call(function, (one,), (dtype,), False)

        for name in names:
            OTHERS[name] = of
        return function

    return register


@sample("getitem")
def _getitem(x: Any) -> Any:
    return [x[1], x[1:4], x[::-1], x[::2, ::-3], x[2, 3], x[:, None, 1:1], x[..., 0]]


@sample("setitem")
def _setitem(x: Any) -> Any:
    y, z = x.copy(), x.copy()
    y[1] = x[2]
    y[::-1, 2] = x[:, 0]
    y[3, 3] = 1
    z[4:1:-2, ::3] = x[:2, :3]
    z[:, 5:6] = x[0, 0]
    return y, z


@sample("transpose")
def _transpose(x: Any) -> Any:
    return [x.T, x.reshape(2, 3, 8).transpose(2, 0, 1), np.moveaxis(x, 0, 1)]


@sample("reshape")
def _reshape(x: Any) -> Any:
    return [x.reshape(-1), x.T.reshape(4, 12), x.reshape(2, 3, 8)[:, 0], x[:0].reshape(0, 4)]


@sample("broadcast_to")
def _broadcast(x: Any) -> Any:
    return [np.broadcast_to(x, (3, 6, 8)), np.broadcast_to(x[:, :1], (6, 5))]


@sample("real", "imag", chars="FD")
def _parts(x: Any) -> Any:
    return [x.real, x.imag, x[0].real]


@sample("join_complex", chars="fd")
def _join(x: Any) -> Any:
    made = (x * 1j).astype("F" if x.dtype == np.float32 else "D")
    made.real = x
    made.imag[1] = x[2]
    return made


@sample("where")
def _where(x: Any) -> Any:
    return [np.where(x == x[::-1], x, x.T.reshape(6, 8)), np.where(x[0] == x[1], x, x[2, 2])]


@sample("full", specials=False)
def _full(x: Any) -> Any:
    return [x, np.full((2, 3), 3, x.dtype), np.zeros(4, x.dtype), np.ones((), x.dtype)]


@sample("eye", specials=False)
def _eye(x: Any) -> Any:
    return [
        x,
        np.eye(3, dtype=x.dtype),
        np.eye(2, 4, 1, x.dtype),
        np.eye(4, 2, k=-1, dtype=x.dtype),
    ]


@sample("concatenate")
def _concatenate(x: Any) -> Any:
    return [np.concatenate([x, x[:2]]), np.hstack([x, x]), np.stack([x[0], x[1]], 1),
            np.concatenate([x[:0], x])]  # fmt: skip


@sample("fixed_power", chars="bBhHiIlLefdFD")  # NumPy's powers of truth values are other rows
def _fixed_power(x: Any) -> Any:
    powers = (1, 2, 3, 5) if x.dtype.kind in "iub" else (2, 3, 0.5, -1, -2, 1.5, -0.5, 0, 8)
    return [x**power for power in powers] + [np.power(x, power) for power in powers]


@sample("integer_power", chars="bBhHiIlL")
def _integer_power(x: Any) -> Any:
    return [x ** (x[:1] * 0 + 3), x ** (x * x)]


@sample("einsum", singly=True)
def _einsum(x: Any) -> Any:
    return [np.einsum("ij,kj->ik", x, x), np.einsum("ij->j", x), np.einsum("ij,ij->", x, x),
            np.einsum("ii->i", x[:, :6])]  # fmt: skip


@sample("matmul", singly=True)
def _matmul(x: Any) -> Any:
    return [x @ x.T, x[0] @ x.T, x @ x[0], x[0] @ x[0], x[:, :0] @ x.T[:0],
            np.matmul(x.reshape(2, 3, 8), x.reshape(2, 8, 3))]  # fmt: skip


@sample("gather")
def _gather(x: Any) -> Any:
    places = np.array([3, 0, 5, 5])
    return [
        x[places],
        x[:, [1, 2]],
        x[np.array([[0, 1]]), places[:2]],
        x[2, places],
        x[places, 1:3],
    ]


@sample("scatter")
def _scatter(x: Any) -> Any:
    y = x.copy()
    y[np.array([1, 1, 4])] = x[0, 0]
    y[:, np.array([2, 7])] = 1
    return y


def _reduction(name: str, chars: str = CHARS) -> None:
    function = getattr(np, name)

    @sample(name, chars=chars, singly=True)
    def reduce(x: Any) -> Any:
        x = x[:3] if name == "prod" else x  # or it would overflow
        made = [function(x), function(x, axis=0), function(x, axis=-1, keepdims=True)]
        made += [function(x, axis=(0, 1)), function(x.reshape(3, 2, -1), axis=(0, 2))]
        made += [] if name in ("max", "min") else [function(x[:0], axis=0), function(x[:0])]
        many = x[None] if name == "prod" else np.broadcast_to(x[None], (200, *x.shape))
        return [*made, function(many)]


for _name in ("max", "min", "any", "all"):
    _reduction(_name)
for _name in ("sum", "prod"):
    _reduction(_name)


def _extreme(name: str) -> None:
    function = getattr(np, name)

    @sample(name, singly=True)
    def place(x: Any) -> Any:
        return [function(x), function(x, axis=0), function(x, axis=1, keepdims=True)]


_extreme("argmax")
_extreme("argmin")


def _casts(char: str) -> Iterator[Call]:
    dtype = np.dtype(char)
    for other in CHARS:
        if other == char or (dtype.kind == "c" and other not in "FD"):
            continue
        dtypes = (dtype, np.dtype(other))
        converted = _to(other)
        yield Call(converted, (ordinary(char, 48, positive=other in "BHIL").reshape(6, 8),), dtypes,
                   True)  # fmt: skip
        yield Call(converted, (special(char),), dtypes, False)
        for value in special(char):
            yield Call(converted, (np.full(5, value),), dtypes, False, apart=True)


def _to(char: str) -> Callable[[Any], Any]:
    return lambda x: x.astype(char)


OTHERS["astype"] = _casts


def _checked(function: Callable[..., Any]) -> Sampler:
    def of(char: str) -> Iterator[Call]:
        whole = ordinary(char, 48).reshape(6, 8)
        for given, fine in (([0, 5, 2], True), ([-6, -1, 0], True), ([0, 6], False), ([-7], False),
                            ([[1, 2], [3, 3]], True), ([], True)):  # fmt: skip
            yield Call(function, (whole, np.array(given, np.int64)), (np.dtype(char),), fine)
        yield Call(function, (whole, np.array([1, -1], np.int32)), (np.dtype(char),), False)

    return of


def _take(x: Any, places: Any) -> Any:
    found = places + 0
    return [x[found], x[1, found], x[:, found]]


def _write(x: Any, places: Any) -> Any:
    y = x.copy()
    y[places + 0] = x[0, 0]
    return y


OTHERS["checked_gather"] = _checked(_take)
OTHERS["checked_scatter"] = _checked(_write)


@sample("select")
def _select(x: Any) -> Any:
    return [x[x == x[::-1]], x[(x == x[::-1])[:, 0]], x[x != x]]


@sample("diagonal")
def _diagonal(x: Any) -> Any:
    return [np.diagonal(x), np.diagonal(x, 1), x.reshape(2, 3, 8).diagonal(0, 1, 2)]


@sample("scatter_each")
def _scatter_each(x: Any) -> Any:
    y = x.copy()
    places = np.arange(3) + (x[:3, 0] == 100).astype(np.int64)  # none of them twice
    y[places] = x[:3]
    return y


@sample("scatter_add", "checked_scatter_add", chars="bBhHiIlLfdFD")
def _scatter_add(x: Any) -> Any:
    y, z = x.copy(), x.copy()
    np.add.at(y, np.array([1, 1, 4]), x[0])
    places = (x[0].real != x[1].real).astype(np.int64) * 2
    np.add.at(z, places, x[2])
    return y, z


@sample("place_where")
def _place_where(x: Any) -> Any:
    y = x.copy()
    y[np.array([True, False, True, False, False, True])] = x[:3]
    return y


@sample("sort", "argsort", "unstable_argsort", chars="bBhHiIlLefd", singly=True)
def _sort(x: Any) -> Any:
    order = np.argsort(x, axis=1, kind="stable")
    distinct = order.astype(x.dtype)  # which of equal values comes first is left to NumPy
    orders = [order, np.argsort(distinct, axis=1), np.argsort(distinct[0])]
    return [np.sort(x), np.sort(x, axis=0), np.sort(x, axis=None), *orders]


@sample("searchsorted", chars="bBhHiIlLfd", singly=True)
def _searchsorted(x: Any) -> Any:
    ordered = np.sort(x[0])
    return [np.searchsorted(ordered, x), np.searchsorted(ordered, x, side="right")]


@sample("bincount", chars="bBhHiIl")
def _bincount(x: Any) -> Any:
    places = abs(x[0].astype(np.int64)) % 16
    return [np.bincount(places), np.bincount(places, minlength=20)]


@sample("nonzero")
def _nonzero(x: Any) -> Any:
    return [np.nonzero(x), np.flatnonzero(x), np.argwhere(x)]


@sample("unique", chars="bBhHiIlLfd", singly=True)
def _unique(x: Any) -> Any:
    return np.unique(x)


@sample("take_along", chars="bBhHiIlLefd")
def _take_along(x: Any) -> Any:
    return np.take_along_axis(x, np.argsort(x, axis=1, kind="stable"), 1)


@sample("checked_take_along")
def _checked_take_along(x: Any) -> Any:
    return np.take_along_axis(x, (x[:, :2].real != 3).astype(np.int64) * 3, 1)


@sample("convolve", chars="fdFD")
def _convolve(x: Any) -> Any:
    return [np.convolve(x[0], x[1, :3], mode) for mode in ("full", "same", "valid")]


@sample("interpolate", chars="fd", singly=True)
def _interpolate(x: Any) -> Any:
    return np.interp(x, np.linspace(-3, 3, 8), np.arange(8.0) ** 2)


EDGES = np.linspace(-3, 3, 7)


@sample("histogram", chars="fd")
def _histogram(x: Any) -> Any:
    return np.histogram(x, bins=EDGES.astype(x.dtype))[0]


@sample("weighted_histogram", chars="fd")
def _weighted_histogram(x: Any) -> Any:
    return np.histogram(x, 6, (-3, 3), weights=x[::-1] - 2)[0]


@sample("cumsum", "cumprod", chars="bBhHiIlLfd", singly=True)
def _running(x: Any) -> Any:
    x = x[:3, :4]
    return [np.cumsum(x, axis=0), np.cumsum(x), np.cumprod(x, axis=1)]


@sample("cummax", "cummin", chars="bBhHiIlLfd", singly=True)
def _running_extremes(x: Any) -> Any:
    return [np.maximum.accumulate(x, axis=1), np.minimum.accumulate(x)]


@sample("fftn", "ifftn", "rfftn", "irfftn", chars="fd")
def _transforms(x: Any) -> Any:
    made = [np.fft.fft(x), np.fft.ifft2(x), np.fft.rfft(x, axis=0), np.fft.irfft(x)]
    return [*made, np.fft.fft(x, n=5)]


def _matrix(x: Any) -> Any:
    """Return a matrix that is far from singular where the values are ordinary."""
    return x[:, :6] + 30 * np.eye(6, dtype=x.dtype)


@sample("solve", "inv", "det", "slogdet", "pick", "cond", "pinv", chars="fdFD", singly=True)
def _square(x: Any) -> Any:
    a = _matrix(x)
    made = [np.linalg.solve(a, x[:, 6]), np.linalg.solve(a, x), np.linalg.inv(a)]
    return [*made, np.linalg.det(a), *np.linalg.slogdet(a), np.linalg.cond(a), np.linalg.pinv(a)]


@sample("cholesky", "eigh", "eigvalsh", chars="fdFD", singly=True)
def _hermitian(x: Any) -> Any:
    a = _matrix(x)
    a = (a @ np.conjugate(a.T)) + 30 * np.eye(6, dtype=x.dtype)
    values, vectors = np.linalg.eigh(a)
    return [np.linalg.cholesky(a), values, (vectors * values) @ np.conjugate(vectors.T),
            np.linalg.eigvalsh(a)]  # fmt: skip


@sample("qr", "qr_r", "svd", "svdvals", "lstsq", chars="fdFD", singly=True)
def _factors(x: Any) -> Any:
    a = _matrix(x)
    q, r = np.linalg.qr(a)
    u, s, v = np.linalg.svd(a)
    return [abs(q), abs(r), abs(np.linalg.qr(a, "r")), s, (u * s) @ v, np.linalg.svdvals(a),
            np.linalg.lstsq(a, x)[0]]  # fmt: skip
