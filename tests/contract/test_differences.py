"""Differences that harmless values do not show: the first call agrees, a later one must too.

A backend passes by leaving the function out at its first call, by raising at the later one (NumPy
settles that), or by NumPy's answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.runtime.execution import Program, try_backend
from gpuforge.runtime.reference import CANCELLING, ELEMENTWISE, Template, compare, describe
from gpuforge.runtime.structure import flatten

from ..runtime.conftest import as_numpy

Case = tuple[Callable[..., Any], Any, Any]


def xp_of(x: Any) -> Any:
    return gf.namespace(x)


def of(dtype: str, *values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, dtype)


def _wide_in_the_middle(x: Any) -> Any:
    xp = xp_of(x)
    return xp.astype(x * xp.max(xp.astype(x, xp.int64)), xp.float64)


def _mixed_in_the_middle(i: Any, x: Any) -> Any:
    return xp_of(x).astype(i + x, xp_of(x).float64)


CASES: dict[str, Case] = {
    "less than a number beyond uint8": (lambda x: x < 300, of("u1", 1, 2), of("u1", 5, 255)),
    "equal to -1 in uint8": (lambda x: x == -1, of("u1", 1, 2), of("u1", 5, 255)),
    "beyond int32": (lambda x: x < 2**40, of("i4", 1, 2), of("i4", 5, -255)),
    "a mask of an image": (lambda x: x > 128, of("u1", 1, 200), of("u1", 129, 128, 255)),
    "2 ** x": (lambda x: 2**x, of("i4", 1, 2), of("i4", 3, -1)),
    "2 << x": (lambda x: 2 << x, of("i4", 1, 2), of("i4", 40, 64)),
    "100 >> x": (lambda x: 100 >> x, of("i4", 1, 2), of("i4", 40, 64)),
    "int64 of no dimensions": (_wide_in_the_middle, of("i4", 1, 2), of("i4", 2**30, 5)),
    "order of ties": (lambda x: xp_of(x).argsort(x), np.arange(64.0), np.arange(64.0) % 2),
    "order of small ties": (
        lambda x: xp_of(x).argsort(x), np.arange(64).astype("i2"), (np.arange(64) % 3).astype("i2"),
    ),
    "running sum from -0": (
        lambda x: xp_of(x).cumulative_sum(x), of("f8", 1, 2), of("f8", -0.0, -0.0, 1)
    ),
    "0 over a subnormal number": (lambda x: 0 / x, of("f4", 1, 2), of("f4", 1e-40, 1)),
    "a small number over another": (lambda x: 1e-5 / x, of("f4", 1, 2), of("f4", 1e-39, 1)),
    "subnormal numbers": (lambda x: x * 2.0, of("f4", 1, 2), of("f4", 1e-40, 1e-45)),
    "subnormal double numbers": (lambda x: x * 2.0, of("f8", 1, 2), of("f8", 1e-310, 5e-324)),
    "places for NaN": (
        lambda x, y: xp_of(x).searchsorted(x, y),
        (of("f8", 1, 2), of("f8", 1, 2)), (of("f8", 1, np.nan), of("f8", np.nan, np.inf)),
    ),
    "float16 squares": (lambda x: xp_of(x).std(x), of("f2", 1, 2), of("f2", 300, -300, 900)),
    "float16 in between": (lambda x: (x * x) / x, of("f2", 1, 2), of("f2", 300, 1000)),
    "complex infinities": (lambda x, y: x + y, (of("c8", 1), of("c8", 2)),
                           (of("c8", complex(np.inf, 1)), of("c8", 1))),
    "complex infinities times": (lambda x, y: x * y, (of("c8", 1), of("c8", 2)),
                                 (of("c8", complex(np.inf, 1)), of("c8", complex(0, 1)))),
    "whole numbers to a decimal": (
        lambda x: xp_of(x).round(x, 1), of("i4", 1, 2), of("i4", 2**30 + 1, -(2**31))
    ),
    "root of -inf by a power": (lambda x: x**0.5, of("f4", 1, 4), of("f4", -np.inf, -0.0, np.inf)),
    "steps of float64": (
        lambda x: x + xp_of(x).linspace(0, 1, x.shape[0]), np.ones(5), np.ones(48)
    ),
    "int32 and float32 in the middle": (
        _mixed_in_the_middle, (of("i4", 1, 2), of("f4", 1, 2)), (of("i4", 2**24 + 1), of("f4", 0)),
    ),
    "int32 over int32": (
        lambda x: xp_of(x).astype(x / 3, xp_of(x).float64) * 3, of("i4", 3, 6), of("i4", 2**24 + 1),
    ),
    "float to int beyond": (
        lambda x: xp_of(x).astype(x, xp_of(x).int32), of("f4", 1, 2), of("f4", 1e10, -1e10, np.nan)
    ),
    "float to uint8 beyond": (
        lambda x: xp_of(x).astype(x, xp_of(x).uint8), of("f4", 1, 2), of("f4", 300, -1, 256)
    ),
    "int to int8 beyond": (
        lambda x: xp_of(x).astype(x, xp_of(x).int8), of("i4", 1, 2), of("i4", 300, -129)
    ),
    "halves to even": (
        lambda x: xp_of(x).round(x), of("f8", 1, 2), of("f8", 0.5, 1.5, 2.5, -0.5, -2.5)
    ),
    "sum that wraps": (lambda x: xp_of(x).sum(x), of("i8", 1, 2), of("i8", 2**62, 2**62)),
    "product that wraps": (lambda x: x * x, of("i4", 1, 2), of("i4", 2**20, -(2**31))),
    "least of int32": (lambda x: xp_of(x).abs(-x), of("i4", 1, 2), of("i4", -(2**31), 5)),
    "NaN in argmax": (lambda x: xp_of(x).argmax(x), of("f8", 1, 2), of("f8", 1, np.nan, 3)),
    "several NaN in argmax": (
        lambda x: xp_of(x).argmax(x), np.arange(51.0), np.repeat([1.0, np.nan, -np.inf, 3], 13)
    ),
    "norm of whole numbers": (
        lambda x: xp_of(x).linalg.vector_norm(x), of("i4", 1, 2), of("i4", 2**30, 2**20)
    ),
    "equal greatest of many": (
        lambda x: xp_of(x).argmax(x), np.arange(5000), np.arange(5000) % 7
    ),
    "equal greatest": (lambda x: xp_of(x).argmax(x), of("f8", 1, 2), of("f8", 1, 3, 3)),
    "bounds that are NaN": (
        lambda x: xp_of(x).clip(x, 0.0, float("nan")), of("f8", 1, 2), of("f8", 1, -3)
    ),
    "a place that a shorter one has not": (lambda x: x[5] * 2, np.arange(12.0), np.arange(4.0)),
    "a last place but four": (lambda x: x[-5] * 2, np.arange(12.0), np.arange(4.0)),
    "equal to 256 in uint8": (lambda x: x == 256, of("u1", 1, 2), of("u1", 0, 5)),
    "equal to 2**40 in int32": (lambda x: x == 2**40, of("i4", 1, 2), of("i4", 0, 5)),
    "bounds beyond int8": (
        lambda x: xp_of(x).clip(x, -1000, 1000), of("i1", 1, 2), of("i1", 100, -100)
    ),
    "plus nothing": (lambda x: x + 0.0, of("f4", 1, 2), of("f4", -0.0, 1)),
    "minus nothing": (lambda x: x - (-0.0), of("f4", 1, 2), of("f4", -0.0, 1)),
    "plus zeros": (lambda x: xp_of(x).zeros_like(x) + x, of("f4", 1, 2), of("f4", -0.0, 1)),
    "an exponent that becomes a root": (
        lambda x, p: x**p, (of("f4", 1, 4), 2.0), (of("f4", -np.inf, -0.0), 0.5)
    ),
    "rounded by a large number": (
        lambda x: (x + 2.0**52) - 2.0**52, of("f8", 1, 2), of("f8", 0.3, 1.7)
    ),
    "logarithm of a power": (
        lambda x: xp_of(x).log(xp_of(x).exp(x)), of("f8", 1, 2), of("f8", 1000, -1000)
    ),
    "root of a square": (
        lambda x: xp_of(x).sqrt(x * x), of("f8", 1, 2), of("f8", 1e200, 1e-200)
    ),
    "large and small again": (lambda x: (x * 1e200) * 1e-200, of("f8", 1, 2), of("f8", 1e200, 1)),
    "product of powers": (
        lambda x: xp_of(x).exp(x) * xp_of(x).exp(-x), of("f8", 1, 2), of("f8", 1000, -1000)
    ),
    "a mask times NaN": (
        lambda x: xp_of(x).astype(x > 0, xp_of(x).float64) * x,
        of("f8", 1, 2), of("f8", np.nan, -np.inf, -1),
    ),
    "some of a matrix": (
        lambda x: xp_of(x).eye(2) * x, np.ones((2, 2)), np.full((2, 2), np.nan)
    ),
    "truth times an argument": (
        lambda x, y: x * y, (np.array([True, False]), 2.0), (np.array([True, False]), np.inf)
    ),
    "places along an axis": (
        lambda x, i: xp_of(x).take_along_axis(x, i, axis=-1),
        (np.arange(12.0), of("i8", 0, 2)), (np.arange(12.0), of("i8", 0, 90)),
    ),
    "infinity to unsigned": (
        lambda x: xp_of(x).astype(x, xp_of(x).uint32), of("f4", 1, 2), of("f4", np.inf, 3e38, 1)
    ),
    "rank of a matrix with infinity": (
        lambda x: xp_of(x).linalg.matrix_rank(x), np.eye(3), np.diag([np.inf, 1, 1])
    ),
    "greatest stretch of a matrix with NaN": (
        lambda x: xp_of(x).linalg.matrix_norm(x, ord=2), np.eye(3), np.diag([np.nan, 1, 1])
    ),
    "inverse of a matrix with infinity": (
        lambda x: xp_of(x).linalg.inv(x), np.eye(3) + 1, np.eye(3) + np.diag([1, np.inf], 1)
    ),
    "an imaginary number over x": (
        lambda x: 1j / x, of("f4", 1, 2), of("f4", 0, np.inf, -np.inf, np.nan)
    ),
    "any of imaginary numbers": (
        lambda x: xp_of(x).any(x, axis=0), of("c8", 1, 2), of("c8", 1j, 0)
    ),
    "an order of numbers and complex ones": (
        lambda x, y: xp_of(x).less(x, y),
        (of("f4", 1, 2), of("c8", 1, 2)), (of("f4", 0, 1), of("c8", complex(0.5, np.nan), 2)),
    ),
    "mean of float16": (
        lambda x: xp_of(x).mean(x, axis=0), of("f2", 1, 2), of("f2", 65504, 65504, 65504)
    ),
    "after zero in float16": (
        lambda x, y: xp_of(x).nextafter(x, y),
        (of("f2", 1, 2), of("f2", 2, 3)), (of("f2", 0.0), of("f2", -0.0)),
    ),
    "sign of NaN": (lambda x: xp_of(x).sign(x), of("f8", 1, 2), of("f8", np.nan, -0.0)),
}  # fmt: skip


SUBNORMAL = {name for name in CASES if "subnormal" in name} | {"a small number over another"}
"""What JAX on the CPU does otherwise (docs/limits.md): XLA takes these numbers as zero there."""


def as_tuple(given: Any) -> tuple[Any, ...]:
    return given if isinstance(given, tuple) else (given,)


def run_later(
    backend: Any, function: Any, first: Any, later: Any, cancelling: bool
) -> tuple[str, Any]:
    """Return why a backend leaves the function out at `first`, and what it makes of `later`."""
    leaves: list[Any] = []
    spec = flatten((first, {}), leaves)
    expected = as_numpy(function, *first)
    if isinstance(expected, Exception):
        return f"NumPy raises {expected}", None
    template = describe(expected, tuple(leaves))
    assert isinstance(template, Template)
    program = Program(backend, function, spec, copies=False)
    floor = CANCELLING if cancelling else ELEMENTWISE
    trial = try_backend(program, tuple(leaves), template, expected, floor=floor, exact=True)
    if trial.refused:
        return trial.refused, None
    return "", as_numpy(Program(backend, function, spec, copies=False).run, later, template)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_a_later_call_is_numpys_too(name: str, backend: Any) -> None:
    function, first, later = CASES[name]
    refused, found = run_later(backend, function, as_tuple(first), as_tuple(later), False)
    if refused or isinstance(found, Exception):
        return
    expected = as_numpy(function, *as_tuple(later))
    if backend.name == "jax:cpu" and name in SUBNORMAL:
        assert compare(expected, found, ELEMENTWISE), "docs/limits.md can do without this one"
        return
    assert not isinstance(expected, Exception), f"NumPy raises {expected!r}, nothing is declared"
    assert compare(expected, found, ELEMENTWISE) == ""


KEPT: dict[str, Case] = {
    "an image as numbers": (
        lambda x: xp_of(x).astype(x, xp_of(x).float32) * 0.5,
        of("u1", 1, 2),
        of("u1", 255, 0),
    ),
    "a mask": (lambda x: x > 0.5, of("f4", 1, 0), of("f4", 0.5, 2)),
    "a square": (lambda x: x**2, of("f4", 1, 0), of("f4", 0.5, 2)),
    "one over": (lambda x: 1 / x, of("f4", 1, 3), of("f4", 0.5, 2)),
}


@pytest.mark.parametrize("name", KEPT)
def test_ordinary_steps_are_not_left_out(name: str, backend: Any, library_of: str) -> None:
    if library_of == "opencl":
        pytest.skip("the narrow backend has neither masks nor whole numbers")
    function, first, later = KEPT[name]
    refused, found = run_later(backend, function, as_tuple(first), as_tuple(later), False)
    assert refused == ""
    assert compare(function(*as_tuple(later)), found, ELEMENTWISE) == ""


@pytest.mark.parametrize("dtype", ["i8", "u8", "i4", "f4", "?"])
def test_results_have_numpys_own_types(dtype: str, backend: Any, library_of: str) -> None:
    if library_of in ("numpy", "null"):
        pytest.skip("nothing is placed elsewhere")
    values = np.array([[1, 0], [1, 1]], dtype)
    for function in (lambda x: xp_of(x).max(x), lambda x: xp_of(x).max(x, axis=0)):
        with gf.session(history=False):
            placed = gf.offload(backend=library_of, fallback=True)(function)
            for _ in range(3):
                found, expected = placed(values), function(values)
                assert type(found) is type(expected)
                assert found.dtype.char == expected.dtype.char


def test_empty_arrays_of_several_shapes_are_placed(backend: Any, library_of: str) -> None:
    if library_of in ("numpy", "null"):
        pytest.skip("nothing is placed elsewhere")
    with gf.session(history=False):
        placed = gf.offload(backend=library_of, fallback=True)(lambda x, y: x @ y)
        for rows, columns in ((3, 4), (3, 4), (5, 2), (0, 2), (5, 2)):
            found = placed(np.empty((rows, 0), "f4"), np.empty((0, columns), "f4"))
            assert np.array_equal(found, np.zeros((rows, columns), "f4"))
