"""Powers mean what they mean in NumPy, which calls other functions for some exponents."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.runtime.array.dispatch import _function_of_power

INF, NAN = float("inf"), float("nan")
REAL = [0.0, -0.0, 1.0, -1.5, INF, -INF, NAN, 1e30, 1e-30, 2.5]
COMPLEX = np.array([complex(a, b) for a in REAL for b in REAL])


def in_place(x: Any, n: Any) -> Any:
    y = x.copy()
    y **= n
    return y


@pytest.mark.parametrize("form", [operator.pow, in_place])
@pytest.mark.parametrize("exponent", [-1, 0, 0.5, 1, 2, 2.0, -1.0, np.float64(2.0), np.int64(2)])
def test_a_power_is_of_the_function_that_numpy_calls(
    form: Callable[..., Any], exponent: Any, quiet_session: Any
) -> None:
    """The squares of complex numbers that overflow, and 1 / inf, tell which one it is."""
    placed = gf.offload(form, backend="blocks")
    for x in (COMPLEX, COMPLEX.astype("complex64"), np.array(REAL), np.arange(9), np.eye(3) > 0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = form(x, exponent)
            except (TypeError, ValueError) as error:
                with pytest.raises(type(error)):
                    placed(x, exponent)
                continue
            found = placed(x, exponent)
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected, equal_nan=x.dtype.kind in "fc")


def test_exponents_of_other_types_are_asked_for_again() -> None:
    dtype = np.dtype("float64")
    assert _function_of_power(dtype, 2) is np.square
    assert _function_of_power(dtype, 0.5) is np.sqrt
    assert _function_of_power(dtype, 3) is np.power
    x = np.full(3, 1.1).view(type("Asked", (np.ndarray,), {"__array_ufunc__": lambda *a: a[1]}))
    assert _function_of_power(dtype, 2.0) is x**2.0  # which depends on the release


@pytest.mark.parametrize(
    "function",
    [np.power, np.true_divide, lambda a, b: np.reciprocal(b), lambda a, b: a**-3,
     lambda a, b: a / complex(INF, INF), lambda a, b: in_place(a, np.array(-4))],
)  # fmt: skip
def test_complex_numbers_with_infinities_are_numpys(
    function: Callable[..., Any], other: str, quiet_session: Any
) -> None:
    placed = gf.offload(function, backend=other)
    pairs = [(COMPLEX, np.roll(COMPLEX, shift)) for shift in (1, 12, 37)]
    pairs += [(COMPLEX[at : at + 1], COMPLEX[7 * at % 100 :][:1]) for at in range(0, 100, 9)]
    for a, b in ((a.astype("complex64"), b.astype("complex64")) for a, b in pairs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, found = function(a, b), placed(a, b)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
