"""The GPU of each installed library that has one."""

from __future__ import annotations

import os
from typing import Any

import pytest

from gpuforge.runtime.backends import is_on
from gpuforge.runtime.evaluation.opening import open_library

from ..runtime.conftest import warnings_told

__all__ = ["warnings_told"]

DEVICE = "cpu" if os.environ.get("GPUFORGE_TEST_DEVICE") == "cpu" else "gpu"
"""``GPUFORGE_TEST_DEVICE=cpu`` tries these tests themselves where there is no GPU."""


@pytest.fixture(params=["torch", "cupy", "jax"])
def gpu(request: pytest.FixtureRequest) -> Any:
    """Return the first GPU of each library, opened."""
    pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    found = [one for one in open_library(request.param).devices if is_on(one.name, DEVICE)]
    if not found:
        pytest.skip(f"no GPU that {request.param} can use")
    return found[0]
