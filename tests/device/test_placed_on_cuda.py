"""Placed calls on a real CUDA device; `make gpu` runs them, elsewhere they skip with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.runtime.backends import is_on

from ..runtime.conftest import places, same, warnings_told
from ..runtime.test_meaning import CASES

__all__ = ["warnings_told"]
pytestmark = pytest.mark.gpu


@pytest.fixture
def cuda() -> str:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device that PyTorch can use")
    return "torch:cuda"


@pytest.mark.parametrize("name", CASES)
def test_answer_is_numpys_on_cuda(name: str, cuda: str) -> None:
    function, arguments = CASES[name]
    with gf.session(history=False), np.errstate(all="ignore"):
        placed = gf.offload(backend=cuda, fallback=True)(function)
        try:
            expected: Any = function(*arguments)
        except Exception as error:
            for _ in range(3):
                with pytest.raises(type(error)):
                    placed(*arguments)
            return
        for _ in range(4):
            same(expected, placed(*arguments))
        if not name.startswith("matmul"):  # their arguments share memory: called as written
            assert sum(places(placed).values()) == 4


def test_a_large_product_goes_there_by_itself(cuda: str) -> None:
    data = np.random.default_rng(0).random((3000, 3000), dtype=np.float32)
    with gf.session(history=False, explore_share=1):
        placed = gf.offload(lambda x: x @ x @ x)
        for _ in range(30):
            placed(data)
        counts = places(placed)
    assert sum(calls for name, calls in counts.items() if is_on(name, "gpu")) > 10, counts


def test_double_precision_products_use_no_tensor_float(cuda: str) -> None:
    data = np.random.default_rng(0).random((512, 512), dtype=np.float32)
    with gf.session(history=False):
        placed = gf.offload(backend=cuda)(lambda x: x @ x)
        for _ in range(3):
            found = placed(data)
    np.testing.assert_allclose(found, data @ data, rtol=2e-5)
