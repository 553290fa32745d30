"""CuPy's lowering with NumPy in CuPy's place: the arguments, the guards and the refusals.

What CuPy itself computes is tested by `test_operations` on a machine with a GPU.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gpuforge.runtime.array.table import OPERATIONS
from gpuforge.runtime.backends import Array, Backend
from gpuforge.runtime.backends.cupy import lowering

from .test_operations import differences


class Stand(ModuleType):
    """NumPy with CuPy's sorts, which are stable."""

    sort = staticmethod(partial(np.sort, kind="stable"))
    argsort = staticmethod(partial(np.argsort, kind="stable"))

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


class StandBackend(Backend):
    """The lowering to CuPy, on the host."""

    name, version = "cupy:stand:0", "0"

    def __init__(self) -> None:
        self.lowering = lowering(Stand("cupy"))

    def put(self, array: Array) -> Array:
        return array.copy(order="K")

    def get(self, array: Any) -> Array:
        return np.asarray(array)

    def scope(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def wait(self, value: Any) -> None:
        """Nothing runs beside the host."""


BACKEND = StandBackend()
ROWS = [name for name in OPERATIONS if name in BACKEND.lowering.functions]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_numpys(name: str) -> None:
    assert not differences(BACKEND, OPERATIONS[name], few=True)


def test_floor_quotients_are_not_rounded_quotients() -> None:
    divide = BACKEND.lowering.functions["floor_divide"]
    assert divide(np.array([0.5]), np.array([0.1])) == np.array([0.5]) // np.array([0.1]) == 4


@pytest.mark.parametrize("dtype", ["e", "f", "d"])
def test_quotients_and_remainders_are_numpys(dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = ((rng.normal(size=2000) * scale).astype(dtype) for scale in (300, 0.5))
    functions = BACKEND.lowering.functions
    with np.errstate(all="ignore"):
        assert np.array_equal(functions["floor_divide"](a, b), a // b)
        assert np.array_equal(functions["remainder"](a, b), a % b)


def test_a_failed_cholesky_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuSOLVER may leave the negative pivot on the diagonal."""
    left = np.array([[1.0, 0.0], [2.0, -3.0]])
    monkeypatch.setattr(np.linalg, "cholesky", lambda x: left)
    made = BACKEND.lowering.functions["cholesky"](np.array([[1.0, 2.0], [2.0, 1.0]]), False)
    assert np.isnan(made).all()


def test_a_transform_of_several_axes_is_one_of_each() -> None:
    spectrum = np.asfortranarray(np.fft.rfft2(np.arange(20.0).reshape(4, 5)) * (1 + 2j))
    given = (spectrum, (4, 5), (0, 1), None)
    found = BACKEND.lowering.functions["irfftn"](*given)
    np.testing.assert_allclose(found, np.fft.irfftn(*given))
