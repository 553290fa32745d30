"""What is read from arguments, results and code, without running anything."""

from __future__ import annotations

import dis
import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gpuforge.runtime.evaluation.reference import ADDING, CANCELLING, compare
from gpuforge.runtime.function.reading import CHAIN, LOOP, read_operations
from gpuforge.runtime.function.signature import AsWritten, sign


def signature(*args: Any, **kwargs: Any) -> Any:
    found = sign(args, kwargs)
    assert not isinstance(found, AsWritten), found.reason
    return found


def test_kinds_differ_by_what_changes_results_and_not_by_length() -> None:
    x = np.ones((5, 4))
    assert signature(x).kind == signature(np.ones((50, 40))).kind
    different = [
        x.astype(np.float32), x.T, np.ones((5, 1)), np.ones((0, 4)), np.ones(20), x.astype(">f8"),
        x[:, ::2],
    ]  # fmt: skip
    kinds = [signature(value).kind for value in (x, *different)]
    kinds += [signature(x, 2).kind, signature(x, 2.0).kind, signature(x, axis=2).kind]
    kinds += [signature(x, x.copy()).kind, signature(x, None).kind]
    assert len(set(kinds)) == len(kinds)


def test_numbers_are_parameters_and_whole_ones_are_told_apart() -> None:
    x = np.ones(5)
    assert signature(x, 2).kind == signature(x, 3).kind
    assert signature(x, 2).exact != signature(x, 3).exact
    assert signature(x, 0.5).exact == signature(x, 0.7).exact


def test_containers_and_objects_count_by_type_and_length() -> None:
    x = np.ones(5)
    assert signature(x, [x]).exact == signature(x, [x * 2]).exact
    assert signature(x, [x]).exact != signature(x, [x, x]).exact
    assert signature(x, {"a": x}).kind != signature(x, [x]).kind
    assert signature(object(), x).exact == signature(object(), x).exact
    assert signature(x, [np.ones(1000)]).size == 5


def test_a_signature_names_its_arrays_and_counts_them() -> None:
    found = signature(np.ones((5, 4), dtype=np.float32), y=np.ones(3))
    assert found.text == "float32[5,4], float64[3]"
    assert (found.size, found.nbytes) == (23, 5 * 4 * 4 + 3 * 8)
    hash(found.kind), hash(found.exact)


def test_arguments_that_overlap_are_called_as_written() -> None:
    x = np.ones(10)
    for arguments in ((x, x[:]), (x, x[2:]), (x[:6], x[4:])):
        found = sign(arguments, {})
        assert isinstance(found, AsWritten)
        assert "overlap" in found.reason
    assert not isinstance(sign((x[:5], x[5:]), {}), AsWritten)
    assert not isinstance(sign((x, x), {}), AsWritten)  # one array, recorded once


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
            (np.array([1]), np.array([2]), "1 of 1 values"),
            (np.array([1.0]), np.array([1.0], dtype="f4"), "dtype float32"),
            (np.ones(2), np.ones(3), "shape"),
            (np.array([1 + 1j]), np.array([1 - 1j]), "values differ"),
        ],
    )
    def test_differences_are_named(self, expected: Any, found: Any, text: str) -> None:
        assert text in compare(expected, found)

    def test_the_sign_of_a_zero_is_not_promised(self) -> None:
        assert compare(np.array([0.0]), np.array([-0.0])) == ""

    def test_cancelling_sums_are_measured_against_the_largest_value(self) -> None:
        expected = np.array([1e6, 1e-9])
        assert compare(expected, expected + 1e-7, CANCELLING) == ""
        assert compare(expected, expected + 1e-7) != ""

    @given(arrays.arrays(np.float64, 4, elements=st.floats()))
    def test_every_array_agrees_with_itself(self, x: Any) -> None:
        assert compare(x, x.copy()) == ""


class TestCode:
    def test_operations_and_chains(self) -> None:
        def short(x: Any) -> Any:
            return np.exp(x) + 1

        def looping(x: Any) -> Any:
            for _ in range(3):
                x = x * 2
            return x

        assert "exp" in read_operations(short)
        assert CHAIN not in read_operations(short)
        assert {CHAIN, LOOP} <= read_operations(looping)
        assert LOOP not in read_operations(short)
        assert "matmul" in read_operations(lambda x: x @ x)

    def test_functions_of_the_same_module_are_read_too(self) -> None:
        assert "exp" in read_operations(calls_another)
        assert "exp" in read_operations(functools.partial(calls_another))
        assert "exp" in read_operations(Bound().method)

    @pytest.mark.parametrize("other", [np.sort, 3, functools.partial(np.sort), len])
    def test_what_has_no_code_has_no_operations(self, other: Any) -> None:
        assert read_operations(other) == frozenset()


def another(x: Any) -> Any:
    return np.exp(x)


def calls_another(x: Any) -> Any:
    return another(x)


class Bound:
    def method(self, x: Any) -> Any:
        return another(x)


def test_two_terms_that_cancel_may_differ_by_roundings_of_the_terms() -> None:
    """A sum that crosses zero has a large relative error at some element of a long array."""
    made = np.array([1.5, 2e-4], np.float32)
    other = made + np.array([0, 2.4e-7], np.float32)
    assert compare(made, other)
    assert not compare(made, other, ADDING)
    assert compare(made, made + np.float32(1e-5), ADDING)


def test_codes_are_read_as_dis_reads_them() -> None:
    for function in (dis.dis, functools.singledispatch, dis.findlinestarts, np.info):
        codes = [step.opname for step in dis.get_instructions(function)]
        loops = any(name.startswith(("FOR_ITER", "JUMP_BACKWARD")) for name in codes)
        assert loops <= (LOOP in read_operations(function))
    products = (lambda a, b: a @ b, lambda a, b: a.__imatmul__(b) or (a := a @ b))
    assert all("matmul" in read_operations(one) for one in products)
    assert "matmul" not in read_operations(lambda a, b: a * b + a[b])
