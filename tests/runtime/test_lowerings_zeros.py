"""The sign of a zero that a quotient or a remainder leaves, which code at branch cuts looks at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuforge as gf

VALUES = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.3, -7.0])


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("function", [np.floor_divide, np.remainder])
def test_zeros_have_numpys_sign(function: Any, dtype: str, other: str, quiet_session: Any) -> None:
    left, right = (x.ravel().astype(dtype) for x in np.meshgrid(VALUES, VALUES[2:]))

    @gf.offload(backend=other)
    def divide(x: Any, y: Any) -> Any:
        return function(x, y)

    expected, found = function(left, right), divide(left, right)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
