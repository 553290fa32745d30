"""What is read from arguments, results and code, without running anything."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import gpuforge as gf
from gpuforge.errors import WorkloadError
from gpuforge.runtime.captures import CHAIN, read_captures
from gpuforge.runtime.reference import CANCELLING, compare, describe, restore
from gpuforge.runtime.signature import AsWritten, sign
from gpuforge.runtime.structure import MAX_DEPTH, flatten, rebuild


@dataclasses.dataclass(frozen=True)
class Box:
    inside: Any
    name: str = "box"


LEAVES = st.one_of(
    st.integers(), st.floats(allow_nan=False), st.text(max_size=3), st.none(), st.booleans(),
    arrays.arrays(np.float64, arrays.array_shapes(max_dims=2, max_side=3),
                  elements=st.floats(-9, 9)),
)  # fmt: skip
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner, inner), inner.map(Box),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
    ),
    max_leaves=8,
)  # fmt: skip


def equal(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return bool(np.array_equal(left, right))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(equal(left[k], right[k]) for k in left)
    if isinstance(left, Box):
        return equal(left.inside, right.inside) and left.name == right.name
    return bool(left == right)


@given(TREES)
def test_any_nesting_is_put_together_as_it_was(tree: Any) -> None:
    leaves: list[Any] = []
    spec = flatten(tree, leaves)
    hash(spec)
    assert equal(tree, rebuild(spec, iter(leaves)))


def test_a_container_that_holds_itself_is_an_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(WorkloadError, match=str(MAX_DEPTH)):
        flatten(endless, [])
    assert isinstance(sign((endless,), {}), AsWritten)


def test_kinds_differ_by_what_changes_results_and_not_by_length() -> None:
    def kind(*args: Any, **kwargs: Any) -> Any:
        signature = sign(args, kwargs)
        assert not isinstance(signature, AsWritten)
        return signature.kind

    x = np.ones((5, 4))
    assert kind(x) == kind(np.ones((50, 40)))
    different = [
        x.astype(np.float32), x.T, np.ones((5, 1)), np.ones((0, 4)), np.ones(20), x.astype(">f8"),
    ]  # fmt: skip
    kinds = [kind(x), *map(kind, different), kind(x, 2), kind(x, 3), kind(x, axis=2), kind([x])]
    assert len(set(kinds)) == len(kinds)
    assert kind(x, 0.5) == kind(x, 0.7)


class TestAgreement:
    def test_rounding_agrees_and_errors_do_not(self) -> None:
        x = np.linspace(1, 2, 50)
        assert compare(x, x * (1 + 1e-14)) == ""
        assert "values differ" in compare(x, x * (1 + 1e-9))
        assert compare(x.astype("f4"), (x * (1 + 1e-6)).astype("f4")) == ""

    @pytest.mark.parametrize(
        ("expected", "found", "text"),
        [
            (np.array([1.0, np.nan]), np.array([1.0, 2.0]), "NaN"),
            (np.array([np.inf]), np.array([-np.inf]), "infinities"),
            (np.array([0.0]), np.array([-0.0]), "sign"),
            (np.array([1]), np.array([2]), "1 of 1 values"),
            (np.array([1.0]), np.array([1.0], dtype="f4"), "dtype float32"),
            (np.ones(2), np.ones(3), "shape"),
            ((np.ones(2),), [np.ones(2)], "structure"),
        ],
    )
    def test_differences_are_named(self, expected: Any, found: Any, text: str) -> None:
        assert text in compare(expected, found)

    def test_cancelling_sums_are_measured_against_the_largest_value(self) -> None:
        expected = np.array([1e6, 1e-9])
        assert compare(expected, expected + 1e-7, CANCELLING) == ""
        assert compare(expected, expected + 1e-7) != ""

    @given(arrays.arrays(np.float64, 4, elements=st.floats()))
    def test_every_array_agrees_with_itself(self, x: Any) -> None:
        assert compare(x, x.copy()) == ""

    def test_scalars_stay_scalars(self) -> None:
        template: Any = describe((np.float64(1), np.ones(2), 3, 2.5), ())
        made = (np.asarray(7.0), np.zeros(2), 3, 4.5)
        found = restore(template, made, (), lambda v: isinstance(v, np.ndarray), lambda v: v)
        assert type(found[0]) is np.float64 and type(found[1]) is np.ndarray
        assert found[2:] == (3, 4.5)


class TestCode:
    def test_operations_and_chains(self) -> None:
        def short(x: Any) -> Any:
            return gf.namespace(x).exp(x) + 1

        def looping(x: Any) -> Any:
            for _ in range(3):
                x = x * 2
            return x

        assert "exp" in read_captures(short).operations
        assert CHAIN not in read_captures(short).operations
        assert CHAIN in read_captures(looping).operations
        assert "matmul" in read_captures(lambda x: x @ x).operations

    @pytest.mark.parametrize(
        "body",
        ["x += 1", "x[0] = 1", "x.sort()", "x.add_(1)", "gf.namespace(x).exp(x, out=x)",
         "del x[0]", "x[1:2] *= 3"],
    )  # fmt: skip
    def test_statements_that_may_write_are_seen(self, body: str) -> None:
        scope: dict[str, Any] = {"gf": gf}
        exec(f"def f(x):\n {body}\n return x", scope)
        assert read_captures(scope["f"]).may_write

    @pytest.mark.parametrize(
        "body", ["xp = gf.namespace(x)\n y = xp.sort(x)", "y = x + 1", "y = x.T @ x", "y = -x"]
    )
    def test_statements_that_cannot_write_are_not(self, body: str) -> None:
        scope: dict[str, Any] = {"gf": gf}
        exec(f"def f(x):\n {body}\n return y", scope)
        assert not read_captures(scope["f"]).may_write
