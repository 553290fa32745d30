"""The comparison sees what it is there to see: each wrong way of a call is found."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.meaning.arrays import mat, vec
from tests.meaning.compare import compare, values_differ
from tests.meaning.pattern import Outcome, Pattern, plain

Function = Callable[..., Any]


def on_copies(f: Function) -> Function:
    return lambda *args: f(*copy.deepcopy(args))


def copied_result(f: Function) -> Function:
    return lambda *args: copy.deepcopy(f(*args))


def read_only_result(f: Function) -> Function:
    def run(*args: Any) -> Any:
        result = f(*args)
        result.flags.writeable = False
        return result

    return run


def twice(f: Function) -> Function:
    def run(*args: Any) -> Any:
        f(*copy.deepcopy(args))
        return f(*args)

    return run


def first_result_kept(f: Function) -> Function:
    kept: dict[str, Any] = {}
    return lambda *args: kept.setdefault("result", f(*args))


def as_python(f: Function) -> Function:
    return lambda *args: np.asarray(f(*args)).item()


def in_single(f: Function) -> Function:
    return lambda *args: f(*args).astype(np.float32)


def a_little_off(f: Function) -> Function:
    return lambda *args: f(*args) * (1 + 1e-6)


def other_error(f: Function) -> Function:
    def run(*args: Any) -> Any:
        try:
            return f(*args)
        except IndexError as error:
            raise RuntimeError(str(error)) from error

    return run


def swallowed(f: Function) -> Function:
    def run(*args: Any) -> Any:
        try:
            return f(*args)
        except IndexError:
            return None

    return run


def append(x: np.ndarray, items: list[float]) -> np.ndarray:
    items.append(1.0)
    return x


def write(x: np.ndarray) -> None:
    x[0] = 9


def shout(x: np.ndarray) -> np.ndarray:
    print("here", x.shape)
    return x * 2


CASES: list[tuple[Function, Function, str, Callable[[], Any]]] = [
    (on_copies, append, "length", lambda: (vec(3), [])),
    (on_copies, write, "off by", lambda: vec(3)),
    (on_copies, lambda x: x, "no longer the same object", lambda: vec(3)),
    (copied_result, lambda x: x[1:], "shares memory no longer", lambda: vec(3)),
    (read_only_result, lambda x: x * 2, "writeable", lambda: vec(3)),
    (twice, shout, "prints", lambda: vec(3)),
    (first_result_kept, lambda x: x * 2, "the same object", lambda: vec(3)),
    (as_python, lambda x: x.sum(), "numpy.float64 -> builtins.float", lambda: vec(3)),
    (in_single, lambda x: x * 2, "float64(3,) -> float32(3,)", lambda: vec(3)),
    (a_little_off, lambda x: np.exp(x), "off by", lambda: mat()),
    (other_error, lambda x: x[9], "raises IndexError -> RuntimeError", lambda: vec(3)),
    (swallowed, lambda x: x[9], "raises IndexError -> None", lambda: vec(3)),
]


@pytest.mark.parametrize(("wrong", "function", "text", "maker"), CASES)
def test_a_wrong_way_is_found(
    wrong: Function, function: Function, text: str, maker: Callable[[], Any]
) -> None:
    pattern = Pattern("here", function, (maker,))
    found = compare(pattern.run(plain), pattern.run(wrong))
    assert any(text in line for line in found), found
    assert not compare(pattern.run(plain), pattern.run(plain))


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ([1.0, np.nan], [1.0, 2.0], "NaN"),
        ([1.0, np.inf], [1.0, -np.inf], "infinities"),
        ([1.0, np.inf], [1.0, 1e308], "infinities"),
        ([1e6, 1.0], [1e6, 1.01], "off by"),
        ([1e6, 1.0], [1e6, 1.0005], ""),
        ([0.0, 1.0], [-0.0, 1.0], ""),
        ([np.nan, 1.0], [np.nan, 1.0 + 1e-12], ""),
    ],
)
def test_values(a: list[float], b: list[float], text: str) -> None:
    assert text in values_differ(np.array(a), np.array(b))
    assert bool(text) == bool(values_differ(np.array(a), np.array(b)))


def test_outcomes_of_the_same_call_agree() -> None:
    given = Pattern("here", lambda x: {"a": [x, x[1:]], "b": None}, (lambda: vec(3),))
    outcome: list[Outcome] = given.run(plain)
    assert compare(outcome, outcome) == []
