"""Ready functions mean what NumPy's functions of the same name mean."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import gpuforge as gf
from gpuforge.errors import InvalidSettings, UnknownName, WorkloadError

BACKENDS = ["numpy", "torch", "jax"]
INTEGERS = npst.integer_dtypes() | npst.unsigned_integer_dtypes() | npst.boolean_dtypes()


def outcome(function: Any, *args: Any) -> tuple[type, Any]:
    """Return what a call gives: its type and value, or the type and text of its exception."""
    try:
        found = function(*args)
    except Exception as error:
        return type(error), str(error)
    return type(found), found


def assert_same(mine: Any, theirs: Any, *args: Any) -> None:
    (kind, value), (wanted_kind, wanted) = outcome(mine, *args), outcome(theirs, *args)
    assert kind is wanted_kind
    if issubclass(kind, Exception):
        assert value == wanted
    else:
        assert value.dtype == wanted.dtype
        np.testing.assert_array_equal(value, wanted)


@given(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4), st.data())
def test_xor_is_bitwise_xor(shapes: Any, data: st.DataObject) -> None:
    arrays = [data.draw(npst.arrays(data.draw(INTEGERS), s)) for s in shapes.input_shapes]
    assert_same(gf.xor, np.bitwise_xor, *arrays)


@given(npst.mutually_broadcastable_shapes(signature=np.matmul.signature, max_side=4), st.data())
def test_matmul_is_matmul(shapes: Any, data: st.DataObject) -> None:
    numbers = st.integers(-9, 9)
    dtypes = st.sampled_from(["int8", "uint32", "int64", "float32", "float64", "complex128"])
    arrays = []
    for shape in shapes.input_shapes:
        whole = data.draw(npst.arrays("int8", shape, elements=numbers))
        arrays.append(whole.astype(data.draw(dtypes)))
    assert_same(gf.matmul, np.matmul, *arrays)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ready_functions_run_on_every_backend(backend: str) -> None:
    if backend != "numpy":
        pytest.importorskip(backend)
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 5, 64, 64))
    whole = rng.integers(0, 99, (64, 64))
    with gf.session(backend=backend):
        np.testing.assert_allclose(gf.matmul(x, y), x @ y, rtol=1e-12)
        np.testing.assert_array_equal(gf.xor(whole, whole[0].copy()), whole ^ whole[0])
        expression = "where(a > b, sqrt(a) * 2, b - pi)"
        wanted = np.where(x > y, np.sqrt(x) * 2, y - np.pi)
        np.testing.assert_allclose(gf.elementwise(expression, x, y), wanted, rtol=1e-12)
        if backend != "numpy":
            for function in (gf.matmul, gf.xor):
                assert [name.split(":")[0] for name in function.stats().counts] == [backend]


@pytest.mark.parametrize(
    ("mine", "theirs", "args"),
    [
        (gf.matmul, np.matmul, (np.ones((2, 3)), np.ones((2, 3)))),
        (gf.matmul, np.matmul, (np.ones(3), 2.0)),
        (gf.matmul, np.matmul, ([[1, 2], [3, 4]], [[1], [1]])),
        (gf.xor, np.bitwise_xor, (np.ones(3), np.ones(3))),
        (gf.xor, np.bitwise_xor, (np.arange(3), np.arange(4))),
        (gf.xor, np.bitwise_xor, (5, 3)),
        (gf.xor, np.bitwise_xor, (np.arange(3, dtype=np.uint8), 300)),
        (gf.xor, np.bitwise_xor, (np.arange(3, dtype=np.uint64), np.arange(3))),
    ],
)
def test_errors_and_odd_arguments_are_numpys(mine: Any, theirs: Any, args: Any) -> None:
    assert_same(mine, theirs, *args)


def test_ready_functions_are_offloaded_documented_and_pickled() -> None:
    for function in (gf.matmul, gf.xor):
        assert "Parameters" in (function.__doc__ or "")
        assert pickle.loads(pickle.dumps(function)) is function
        assert function.explain(np.arange(4).reshape(2, 2), np.eye(2, dtype=int))


X, Y = np.linspace(-2, 2, 12).reshape(3, 4), np.array([1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("a + b", X + Y),
        ("a * 2 - b ** 2 / 3", X * 2 - Y**2 / 3),
        ("-a // b % 2", -X // Y % 2),
        ("hypot(a, b)", np.hypot(X, Y)),
        ("where((a > 0) & ~(b <= 2), maximum(a, b), inf)",
         np.where((X > 0) & ~(Y <= 2), np.maximum(X, Y), np.inf)),
        (" exp(a) + 1j * b", np.exp(X) + 1j * Y),
        ("a * 0 + b", X * 0 + Y),
    ],
)  # fmt: skip
def test_an_expression_is_numpys(expression: str, wanted: Any) -> None:
    found = gf.elementwise(expression, X, Y)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_dtypes_and_scalars_are_numpys() -> None:
    small = np.arange(4, dtype=np.int8)
    assert gf.elementwise("a * 2", small).dtype == np.int8
    assert gf.elementwise("a / b", small, np.float32(2)).dtype == np.float32
    assert gf.elementwise("a + b", 2, 3) == 5
    many = [np.full(2, k) for k in range(6)]
    assert gf.elementwise("a + b + c + d + e + f", *many).tolist() == [15, 15]
    with pytest.raises(OverflowError):
        gf.elementwise("a + 300", small)


def test_a_function_may_stand_for_an_expression() -> None:
    calls = []

    def soft(x: Any, y: Any) -> Any:
        calls.append(x.shape)
        return np.log1p(np.exp(x)) * y

    np.testing.assert_array_equal(gf.elementwise(soft, X, Y), np.log1p(np.exp(X)) * Y)
    assert calls == [(3, 4)]
    np.testing.assert_array_equal(gf.elementwise(np.square, X), X * X)
    np.testing.assert_array_equal(gf.elementwise(gf.xor, [1, 2], 3), [2, 1])


@pytest.mark.parametrize(
    ("operation", "arrays", "error", "said"),
    [
        ("a +", (X,), WorkloadError, "'a \\+' is not an expression"),
        ("a = b", (X, Y), WorkloadError, "is not an expression"),
        ("a + b", (X,), UnknownName, "unknown name 'b' in the expression 'a \\+ b'"),
        ("sqr(a)", (X,), UnknownName, "'sqr'"),
        ("open(a)", (X,), UnknownName, "'open'"),
        ("a", (X, Y), WorkloadError, "does not use b: it must use all 2 arrays"),
        ("a.T", (X,), WorkloadError, "a.T in the expression"),
        ("a[0]", (X,), WorkloadError, r"a\[0\] in the expression"),
        ("a and b", (X, Y), WorkloadError, "a and b in the expression"),
        ("0 < a < 1", (X,), WorkloadError, "0 < a < 1 in the expression"),
        ("a if b else 1", (X, Y), WorkloadError, "in the expression"),
        ("a @ b", (X, Y), WorkloadError, "MatMult in the expression"),
        ("not a", (X,), WorkloadError, "Not in the expression"),
        ("a + 'x'", (X,), WorkloadError, "'x' in the expression"),
        ("add(a, b, dtype=int)", (X, Y), WorkloadError, "in the expression"),
        ("(lambda: a)()", (X,), WorkloadError, "in the expression"),
        ("add(*a)", (X,), WorkloadError, "in the expression"),
        (np.sum, (X,), WorkloadError, r"shape \(\), the arrays broadcast to \(3, 4\)"),
        (lambda x: x[:1], (X,), WorkloadError, "not an operation on each element"),
        (7, (X,), InvalidSettings, "7 is neither an expression nor a function"),
        ("a + b", (X, np.ones(3)), ValueError, "could not be broadcast"),
    ],
)
def test_what_is_no_operation_on_each_element_is_refused(
    operation: Any, arrays: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        gf.elementwise(operation, *arrays)
