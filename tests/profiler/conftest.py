"""Pages are looked at in a browser; OpenCL is used where its runtime works."""

import pytest

from tests.chromium import axe, chromium
from tests.contract.conftest import opened

__all__ = ["axe", "chromium"]


@pytest.fixture
def opencl() -> None:
    """Skip by name where PyOpenCL is not installed, or has no runtime that works here."""
    pytest.importorskip("pyopencl")
    device = opened("opencl")
    if not hasattr(device, "put"):
        pytest.skip(f"pyopencl does not work here: {device.reason}")
