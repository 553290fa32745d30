"""Arrays in containers: split, joined and compared."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.inference import tree

Pair = namedtuple("Pair", "left right")
NAN, INF = float("nan"), float("inf")


def nested(count: int) -> Any:
    rows = np.arange(count * 2.0).reshape(count, 2)
    return {"a": rows, "b": (rows + 1, [rows[:, 0], 3, None]), "c": Pair(rows, "text")}


@given(count=st.integers(1, 20), size=st.integers(1, 7))
def test_parts_joined_are_the_whole(count: int, size: int) -> None:
    whole = nested(count)
    parts = [tree.part(whole, slice(at, at + size)) for at in range(0, count, size)]
    made = tree.joined(parts)
    assert tree.difference(whole, made) == 0.0
    assert type(made["c"]) is Pair
    assert made["b"][1][1:] == [3, None]


@given(count=st.integers(1, 9), more=st.integers(0, 9))
def test_padding_adds_copies_of_the_last(count: int, more: int) -> None:
    made = tree.padded(nested(count), count + more)
    assert tree.length(made) == count + more
    assert tree.difference(nested(count), tree.part(made, slice(0, count))) == 0.0
    assert (made["a"][count:] == made["a"][count - 1]).all()


def test_lengths_that_do_not_agree_are_none() -> None:
    assert tree.length((np.ones(3), np.ones((3, 2)), 5)) == 3
    assert tree.length((np.ones(3), np.ones(2))) is None
    assert tree.length((1, np.float64(2.0), np.array(3.0))) is None


@pytest.mark.parametrize(
    ("expected", "found", "apart"),
    [
        (np.array([1.0, 4.0]), np.array([1.0, 4.4]), 0.1),
        (np.array([0.0]), np.array([0.25]), 0.25),
        (np.array([NAN, INF, 1.0]), np.array([NAN, INF, 1.0]), 0.0),
        (np.array([INF, 1.0]), np.array([-INF, 1.0]), INF),
        (np.array([1.0]), np.array([NAN]), INF),
        (np.array([NAN]), np.array([1.0]), INF),
        (np.array([1]), np.array([2]), INF),
        (np.array([1]), np.array([1.0]), INF),
        (np.ones(2), np.ones((2, 1)), INF),
        (np.ones((0, 3)), np.ones((0, 3)), 0.0),
        ((np.ones(2), np.ones(2)), (np.ones(2),), INF),
        ({"a": 1}, {"a": 2}, INF),
        (np.array([3 + 4j]), np.array([3 + 3j]), 0.2),
    ],
)
def test_differences(expected: Any, found: Any, apart: float) -> None:
    assert tree.difference(expected, found) == pytest.approx(apart)
