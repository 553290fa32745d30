"""Section 4 of the design: the meaning of the user's program, on real PyTorch and JAX."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.evaluation.results import Results

from .conftest import as_numpy, first_device, places, refusals, same
from .recording import Reference

RNG = np.random.default_rng(7)
F32 = RNG.random((64, 48), dtype=np.float32)
F64 = RNG.random((64, 48))
I32 = RNG.integers(-50, 50, (64, 48), dtype=np.int32)
ODD = np.abs(I32) + 1
U8 = RNG.integers(0, 255, 300, dtype=np.uint8)
BOOL = RNG.random(300) > 0.5
COMPLEX = F64 + 1j * F64[::-1]
NAN = np.array([1.0, np.nan, -np.inf, 3.0, -0.0, 0.0, np.inf])
SPD = F64.T @ F64 + np.eye(48)


def xp_of(x: Any) -> Any:
    return gf.namespace(x)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "affine f32": (lambda x: x * 2 + 1, (F32,)),
    "affine f64": (lambda x: x * 2.5 - 1, (F64,)),
    "python float times int32": (lambda x: x * 0.5, (I32,)),
    "int32 + float32": (lambda a, b: a + b, (I32, F32)),
    "sum of int32": (lambda x: xp_of(x).sum(x), (I32,)),
    "sum of uint8": (lambda x: xp_of(x).sum(x), (U8,)),
    "sum of bool": (lambda x: xp_of(x).sum(x), (BOOL,)),
    "mean of int32": (lambda x: xp_of(x).mean(xp_of(x).astype(x, xp_of(x).float64)), (I32,)),
    "int // 0": (lambda a, b: a // b, (I32, I32 * 0)),
    "int % 0": (lambda a, b: a % b, (I32, I32 * 0)),
    "int // int": (lambda a, b: a // b, (I32, I32 | 1)),
    "int ** int": (lambda a, b: a**b, (np.abs(I32), np.abs(I32) % 4)),
    "int ** negative": (lambda a, b: a**b, (I32, -np.abs(I32) - 1)),
    "shift by too much": (lambda a, b: a << b, (np.abs(I32), np.abs(I32) + 40)),
    "xor": (lambda a: a ^ (a >> 1), (np.abs(I32),)),
    "nan in max": (lambda x: xp_of(x).max(x), (NAN,)),
    "nan in sort": (lambda x: xp_of(x).sort(x), (NAN,)),
    "nan in argmax": (lambda x: xp_of(x).argmax(x), (NAN,)),
    "1e300 squared": (lambda x: x * x, (np.full(20, 1e300),)),
    "1e300 kept": (lambda x: x * 2, (np.full(20, 1e300),)),
    "negative zero": (lambda x: -x, (np.zeros(20),)),
    "sign of zeros": (lambda x: x * -1.0, (NAN,)),
    "0-d result": (lambda x: xp_of(x).sum(x), (F64,)),
    "0-d array": (lambda x: xp_of(x).asarray(xp_of(x).sum(x)), (F64,)),
    "python float result": (lambda x: float(xp_of(x).sum(x)), (F64,)),
    "two results": (lambda x: (xp_of(x).min(x), xp_of(x).exp(x)), (F64,)),
    "dict result": (lambda x: {"a": x + 1, "n": 3, "t": [x * 2, x]}, (F64,)),
    "returns its argument": (lambda x: x, (F64,)),
    "view of its argument": (lambda x: x.T, (F64,)),
    "big-endian": (lambda x: x * 2, (F64.astype(">f8"),)),
    "non-contiguous": (lambda x: x + 1, (F64[::2, 1::3],)),
    "reversed": (lambda x: x + 1, (F64[::-1],)),
    "transposed": (lambda x: xp_of(x).sum(x, axis=0), (F64.T,)),
    "reverses inside": (lambda x: x[::-1] + 1, (F64,)),
    "empty": (lambda x: x * 2, (np.empty((0, 3)),)),
    "sum of empty": (lambda x: xp_of(x).sum(x), (np.empty((0, 3)),)),
    "max of empty": (lambda x: xp_of(x).max(x), (np.empty(0),)),
    "0-d argument": (lambda x: x + 1, (np.array(2.0),)),
    "float argument": (lambda x, s: x * s, (F32, 0.1)),
    "numpy scalar argument": (lambda x, s: x * s, (F32, np.float64(0.1))),
    "float32 scalar argument": (lambda x, s: x * s, (F32, np.float32(0.1))),
    "static argument": (lambda x, axis: xp_of(x).sum(x, axis=axis), (F64, 1)),
    "matmul": (lambda a, b: a @ b, (F64, F64.T)),
    "matmul f32": (lambda a, b: a @ b, (F32, F32.T)),
    "matmul wrong shape": (lambda a, b: a @ b, (F64, F64)),
    "inverse": (lambda x: xp_of(x).linalg.inv(x), (SPD,)),
    "singular inverse": (lambda x: xp_of(x).linalg.inv(x), (np.ones((8, 8)),)),
    "cholesky not positive": (lambda x: xp_of(x).linalg.cholesky(x), (-np.eye(5),)),
    "solve": (lambda a, b: xp_of(a).linalg.solve(a, b), (SPD, F64.T)),
    "eigenvalues": (lambda x: xp_of(x).linalg.eigvalsh(x), (SPD,)),
    "fft": (lambda x: xp_of(x).fft.fft(x), (COMPLEX,)),
    "complex product": (lambda x: x * xp_of(x).conj(x), (COMPLEX,)),
    "take": (lambda x, i: xp_of(x).take(x, i, axis=0), (F64, np.array([3, 1, 63]))),
    "take out of range": (lambda x, i: xp_of(x).take(x, i, axis=0), (F64, np.array([3, 64]))),
    "take negative": (lambda x, i: xp_of(x).take(x, i, axis=0), (F64, np.array([-1, 0]))),
    "index out of range": (lambda x: x[64, 0], (F64,)),
    "index by array": (lambda x, i: x[i], (F64, np.array([0, 5, 5]))),
    "mask": (lambda x: x[x > 0.5], (F64,)),
    "where": (lambda x: xp_of(x).where(x > 0.5, x, -x), (F64,)),
    "sort": (lambda x: xp_of(x).sort(x, axis=0), (F64,)),
    "argsort": (lambda x: xp_of(x).argsort(x, axis=0), (F64,)),
    "cumulative sum": (lambda x: xp_of(x).cumulative_sum(x, axis=1), (F64,)),
    "std": (lambda x: xp_of(x).std(x, axis=0), (F64,)),
    "steps of Python": (lambda x: x * 2 if float(xp_of(x).max(x)) > 0.5 else x, (F64,)),
    "linspace inside": (lambda x: x + xp_of(x).linspace(0, 1, 48), (F64,)),
    "zeros inside": (lambda x: x + xp_of(x).zeros((48,)), (F64,)),
    "dtype by name": (lambda x: xp_of(x).astype(x, xp_of(x).int64), (F64 * 100,)),
    "unique": (lambda x: xp_of(x).unique_values(x), (I32,)),
    "user raises": (lambda x: _refuse(x), (F64,)),
    "ragged": (lambda x: x + xp_of(x).asarray([[1.0], [2.0, 3.0]]), (F64,)),
    "float16": (lambda x: x * 2, (F32.astype(np.float16),)),
    "unsigned": (lambda x: x + x, (RNG.integers(0, 9, 50).astype(np.uint32),)),
}


class UserError(Exception):
    """What a user's function raises by itself."""


def _refuse(x: Any) -> Any:
    if xp_of(x).max(x) > -1:
        raise UserError("the user's own")
    return x


@pytest.mark.parametrize("name", CASES)
def test_answer_is_numpys_on_every_backend(name: str, other: str, quiet_session: Any) -> None:
    function, arguments = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = as_numpy(function, *arguments)
        placed = gf.offload(backend=other)(function)
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        for _ in range(4):
            found = as_numpy(placed, *arguments)
            if isinstance(expected, Exception):
                assert type(found) is type(expected)
                assert str(found) == str(expected)
            else:
                same(expected, found)
    for before, after in zip(copies, arguments, strict=True):
        if isinstance(before, np.ndarray):
            assert np.array_equal(before, after, equal_nan=before.dtype.kind in "fc")


PLACED = [
    "affine f32", "affine f64", "python float times int32", "int32 + float32", "sum of int32",
    "xor", "two results", "dict result", "where", "index by array",
    "float argument", "static argument", "non-contiguous", "reversed", "transposed",
    "zeros inside", "steps of Python",
]  # fmt: skip
"""Functions all of whose operations, or the most telling ones, both libraries do as NumPy does."""


@pytest.mark.parametrize("name", PLACED)
def test_ordinary_functions_do_run_on_the_other_backend(
    name: str, other: str, quiet_session: Any
) -> None:
    function, arguments = CASES[name]
    placed = gf.offload(backend=other)(function)
    for _ in range(3):
        placed(*arguments)
    assert places(placed) == {first_device(other): 3}, (refusals(placed), settled(placed))


def settled(placed: Any) -> list[str]:
    """Return why NumPy settled calls of an offloaded function."""
    return [reason for record in placed.stats().kinds.values() for reason in record.settled]


GUARDED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "integer division": (lambda a, b: a // b, (I32, ODD), (I32, I32 * 0)),
    "remainder": (lambda a, b: a % b, (I32, ODD), (I32, I32 * 0)),
    "shift": (lambda a, b: a << b, (I32, abs(I32) % 5), (I32, abs(I32) + 40)),
    "index": (lambda x, i: x[i], (F64, np.array([1, -1])), (F64, np.array([1, 0, -60]))),
    "conversion": (lambda x: x.astype(np.int32), (F64,), (F64 * 1e30,)),
}
"""A function, arguments for which libraries do as NumPy does, and others for which they may not."""


@pytest.mark.parametrize("name", GUARDED)
def test_numpy_settles_values_that_a_library_treats_otherwise(
    name: str, other: str, quiet_session: Any
) -> None:
    function, plain, odd = GUARDED[name]
    placed = gf.offload(backend=other)(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for arguments in (plain, odd, plain):
            expected = as_numpy(function, *arguments)
            same(expected, as_numpy(placed, *arguments))
    assert places(placed).get(first_device(other), 0) >= 2
    assert not refusals(placed)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lambda x: np.pad(x, 1, constant_values=np.nan) * 2, np.inf),
        (lambda x: np.pad(x, 1, constant_values=np.inf) * 2, np.nan),
        (lambda x: np.fmax(x, np.inf), np.nan),
    ],
)
def test_constants_that_are_not_finite_are_no_reason_to_leave_a_library(
    function: Any, given: float, other: str, quiet_session: Any
) -> None:
    placed = gf.offload(backend=other)(function)
    x = np.array([1.0, given, 3.0])
    for _ in range(6):
        same(function(x), placed(x))
    assert places(placed) == {first_device(other): 6}, (refusals(placed), settled(placed))


def test_numpy_warns_where_a_constant_is_not_finite_either(other: str, quiet_session: Any) -> None:
    placed = gf.offload(backend=other)(lambda x: np.fmin(np.log(x), np.inf))
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            placed(np.array([0.0, 1.0, 2.0]))


def test_exact_keeps_what_needs_a_guard_on_numpy(other: str, quiet_session: Any) -> None:
    def divided(a: Any, b: Any) -> Any:
        return a // b

    strict = gf.offload(backend=other)(divided)
    exact = gf.offload(backend=other, numerics="exact")(divided)
    for placed in (strict, exact):
        for _ in range(3):
            same(divided(I32, ODD), placed(I32, ODD))
    assert places(strict) == {first_device(other): 3}
    assert places(exact) == {"numpy": 3}
    with gf.session(history=False, numerics="exact"):
        kept = gf.offload(backend=other)(divided)
        same(divided(I32, ODD), kept(I32, ODD))
        assert places(kept) == {"numpy": 1}
    assert places(gf.offload(backend=other, numerics="exact")(lambda x: x * 2)) == {}


def test_what_numpy_does_itself_is_named_by_its_line(other: str, quiet_session: Any) -> None:
    @gf.offload(backend=other)
    def counted(x: Any) -> Any:
        y = x * 2 + 1
        counts = np.histogram2d(y[0], y[1])[0]
        return counts * 2

    expected = counted.__wrapped__(F64)
    for _ in range(3):
        same(expected, counted(F64))
    text = str(counted.explain(F64))
    assert "test_meaning.py:" in text and "histogram2d" in text
    assert places(counted) == {first_device(other): 3}


def test_relaxed_numerics_are_told_in_every_explanation(torch: Any, quiet_session: Any) -> None:
    function, arguments = CASES["int32 + float32"]
    placed = gf.offload(backend="torch", numerics="relaxed")(function)
    np.testing.assert_allclose(placed(*arguments), function(*arguments), rtol=1e-6)
    assert "relaxed" in str(placed.explain(*arguments))


@pytest.mark.parametrize(
    "function",
    [
        lambda i, x: i * 0.1 + x,
        lambda i, x: np.ones(48, dtype=np.float32) * i + x,
        lambda i, x: (i.astype(np.uint8) + 7) * x,
        lambda i, x: np.sum(i.astype(np.uint8), axis=0) + x,
    ],
)
def test_dtypes_in_the_middle_are_numpys(function: Any, other: str, quiet_session: Any) -> None:
    """A step in another precision than NumPy's would show in the last digits of the result."""
    placed = gf.offload(backend=other)(function)
    for _ in range(3):
        np.testing.assert_allclose(placed(I32, F64), function(I32, F64), rtol=1e-14)
    assert places(placed) == {first_device(other): 3}


class Subclass(np.ndarray[Any, Any]):
    """A user's kind of array."""


def _read_only(kept: Any) -> Any:
    kept.flags.writeable = False
    return kept[:1]


@pytest.mark.parametrize("made", [_read_only, lambda kept: kept.view(Subclass)])
def test_arrays_of_objects_hold_numpys_arrays(made: Any, other: str, quiet_session: Any) -> None:
    def body(x: Any) -> Any:
        kept = np.empty(2, dtype=object)
        kept[0] = x * 2
        return made(kept)

    expected = body(F64)
    placed = gf.offload(backend=other)(body)
    for _ in range(3):
        found = placed(F64)
        assert type(found) is type(expected)
        assert type(found.flat[0]) is np.ndarray
        assert found.flags.writeable is expected.flags.writeable
        same(expected.flat[0], found.flat[0])


def test_only_objects_that_may_hold_an_array_are_looked_into() -> None:
    results = Results(Recorder(Reference()))
    given = np.array([Decimal(1), Decimal(2), None, 3, [4]], dtype=object)
    assert results.of(given) is given
    assert set(results.seen) == {id(given), id(given[4])}
