"""Everyday functions keep NumPy's meaning when pinned, and enough of them run on the library.

The functions are those of ``benchmarks/everyday``: each as plain NumPy code and in Array API form,
with ordinary arguments and with special ones (NaN, infinities, singular matrices, indices out of
range, zeros to divide by, overflow, no rows).
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from everyday import BODIES
from everyday.checking import FORMS, check, session
from everyday.judging import difference, outcome

SIZE = 400
FORMS_ON = [("plain", "torch"), ("plain", "jax"), ("xp", "torch"), ("xp", "jax")]
ON_NUMPY = {"plain": {"confusion_matrix", "interleave", "scatter_max"}, "xp": set[str]()}
"""The bodies of which, in a form, no operation runs on a library."""
CELLS = [(name, form, library) for name in BODIES for form, library in FORMS_ON]


@pytest.mark.parametrize(("name", "form", "library"), CELLS)
def test_everyday_body_means_what_it_means_in_numpy(name: str, form: str, library: str) -> None:
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    with np.errstate(all="ignore"), session([library]):
        found = check(BODIES[name], form, library, SIZE)
    assert found["differs"] == {}
    assert found["ran"] == (name not in ON_NUMPY[form]), found["why"]


def test_bodies_are_many_and_of_every_field() -> None:
    from everyday import FIELDS

    assert len(BODIES) >= 80
    assert len(FIELDS) == 12
    assert all(set(FORMS) == {"plain", "xp"} and b.specials for b in BODIES.values())
    assert all(len(names) <= 0.05 * len(BODIES) for names in ON_NUMPY.values())


LINE = np.linspace(0.0, 1.0, 50)


def with_one(value: float) -> np.ndarray:
    changed = LINE.copy()
    changed[7] = value
    return changed


def write(x: np.ndarray) -> np.ndarray:
    x[0] = 5
    return LINE


def refuse(text: str) -> None:
    raise ValueError(text)


OTHERWISE = {
    "a value": (lambda x: LINE, lambda x: with_one(0.5)),
    "NaN": (lambda x: LINE, lambda x: with_one(np.nan)),
    "no NaN": (lambda x: with_one(np.nan), lambda x: LINE),
    "infinity": (lambda x: with_one(np.inf), lambda x: with_one(1e300)),
    "its sign": (lambda x: with_one(np.inf), lambda x: with_one(-np.inf)),
    "dtype": (lambda x: LINE, lambda x: LINE.astype(np.float32)),
    "shape": (lambda x: LINE, lambda x: LINE[None]),
    "array for a scalar": (lambda x: LINE.sum(), lambda x: np.asarray(LINE.sum())),
    "list for a tuple": (lambda x: (LINE,), lambda x: [LINE]),
    "key": (lambda x: {"a": LINE}, lambda x: {"b": LINE}),
    "one result less": (lambda x: (LINE, LINE), lambda x: (LINE,)),
    "argument": (lambda x: LINE, write),
    "exception": (lambda x: refuse("a"), lambda x: LINE),
    "no exception": (lambda x: LINE, lambda x: refuse("a")),
    "its text": (lambda x: refuse("a"), lambda x: refuse("b")),
    "complex": (lambda x: LINE + 1j, lambda x: LINE - 1j),
    "whole number": (lambda x: np.arange(9), lambda x: np.arange(9) + 1),
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_judge_sees_what_is_not_numpys(what: str) -> None:
    expected, found = (outcome(function, (LINE,)) for function in OTHERWISE[what])
    assert difference(expected, found, (LINE,))
    assert not difference(expected, expected, (LINE,))
    assert not difference(found, found, (LINE,))


def test_judge_allows_for_rounding() -> None:
    expected, found = outcome(lambda x: x, (LINE,)), outcome(lambda x: x * (1 + 1e-12), (LINE,))
    assert not difference(expected, found, (LINE,))
