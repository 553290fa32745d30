"""Sessions in which a call goes to a named backend as soon as its result was compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.runtime.evaluation import recording
from gpuforge.runtime.evaluation.opening import open_library

OTHERS = ["torch", "jax", *(["cupy"] if find_spec("cupy") else [])]
"""Libraries besides NumPy; CuPy needs a GPU."""


@pytest.fixture(autouse=True)
def warnings_told() -> Iterator[None]:
    """Tell warnings instead of raising them, as users have it; fail where one was not expected.

    Where they are errors, calls are made as written.
    """
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "Setting the shape on a NumPy array")  # dpnp 0.20 does
        yield
    assert not told, [str(one.message) for one in told]


@pytest.fixture(params=OTHERS)
def other(request: pytest.FixtureRequest) -> str:
    """Return the name of an installed backend besides NumPy, each in turn."""
    if find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    if request.param == "cupy" and not open_library("cupy").devices:
        pytest.skip("CuPy has no GPU here")
    return str(request.param)


@pytest.fixture
def quiet_session() -> Iterator[Any]:
    """Hold a session that learns for itself and keeps nothing."""
    with gf.session(history=False) as held:
        yield held


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often a body ran recorded: one entry each."""
    found: list[int] = []
    real = recording.record

    def record(*args: Any, **kwargs: Any) -> Any:
        found.append(1)
        return real(*args, **kwargs)

    monkeypatch.setattr(recording, "record", record)
    return found


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def jax() -> Any:
    return pytest.importorskip("jax", reason="jax is not installed")


def first_device(library: str) -> str:
    """Return where a function runs that is pinned to a library: its first device."""
    return open_library(library).devices[0].name


def places(function: Any) -> dict[str, int]:
    """Return how many calls of an offloaded function ran where, in the current session."""
    return {name: count.calls for name, count in function.stats().counts.items()}


def refusals(function: Any) -> dict[str, str]:
    """Return why backends were left out for an offloaded function, over all its kinds of call."""
    found: dict[str, str] = {}
    for record in function.stats().kinds.values():
        found.update({n: c.refused for n, c in record.kind.curves.items() if c.refused})
    return found


def same(expected: Any, found: Any, rtol: float = 1e-5) -> None:
    """Assert that a result has NumPy's type, dtype, shape and values."""
    assert type(found) is type(expected)
    if isinstance(expected, tuple | list):
        assert len(expected) == len(found)
        for left, right in zip(expected, found, strict=True):
            same(left, right, rtol)
    elif isinstance(expected, dict):
        assert list(expected) == list(found)
        for key in expected:
            same(expected[key], found[key], rtol)
    elif isinstance(expected, np.ndarray | np.generic):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-12)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=rtol, nan_ok=True)
    else:
        assert expected == found


def as_numpy(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a plain call gives: a value, or the exception it raises."""
    try:
        return function(*arguments)
    except Exception as error:
        return error
