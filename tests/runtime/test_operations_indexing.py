"""Values written at masks and at arrays of places end where NumPy has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.runtime.recording import compare


def written(index: Callable[[Any], Any], value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def body(x: Any) -> Any:
        x[index(x)] = value(x)
        return x * 2

    return body


NOTED = [
    written(lambda x: x > 3, lambda x: x[x > 3] * 10),
    written(lambda x: x > 3, lambda x: -x.ravel()[4:]),
    written(lambda x: x > 3, lambda x: x[0, :1]),
    written(lambda x: x > 99, lambda x: x[x > 99]),
    written(lambda x: x[:, 0] > 3, lambda x: x[0]),
    written(lambda x: x[:, 0] > 3, lambda x: x[:2] + 1),
    written(lambda x: [2, 0], lambda x: x[:2] + 100),
    written(lambda x: [2, 0], lambda x: x[1]),
    written(lambda x: [2, 2], lambda x: x[:2] + 100),
    written(lambda x: (slice(None), [3, -4]), lambda x: x[:, :2] + 100),
    written(lambda x: (np.arange(3), np.arange(3)), lambda x: x[0, 1:]),
    written(lambda x: ([0, -3], [1, 1]), lambda x: x[0, 2:]),
    written(lambda x: np.argmin(x * 0 - x, axis=1) * 0 + np.arange(3), lambda x: x[::-1]),
    written(lambda x: (0, [1, 2]), lambda x: x[1, :2]),
    written(lambda x: (x[:, 0] > 3, 1), lambda x: x[1:, 2]),
    written(lambda x: (x[:, 0] > 3, 1), lambda x: 7),
    written(lambda x: (slice(1, None), x[0] > 1), lambda x: x[:2, :2] + 100),
    written(lambda x: (slice(1, None), np.array([True, False, True, False])), lambda x: 5),
]
READ = [
    lambda x: x[x[:, 0] > 3, 1],
    lambda x: x[:, x[0] > 1],
    lambda x: x[..., x[0] > 1],
    lambda x: x[1, x[0] > 1],
    lambda x: x[x[:, 0] > 3, :2],
    lambda x: x[x[:, 0] > 3, None],
    lambda x: x[np.array([True, False, True]), ::-1],
    lambda x: x[x[:, 0] > 3][:, np.array([True, False, False, True])],
    lambda x: x[np.argmax(x[:, 0]), np.argmin(x[0])],
    lambda x: x[np.where(x > 3)],
    lambda x: np.where(x > 3),
]
LEFT = [
    lambda x: x[x > 3, 0],
    lambda x: x[None, x > 3],
    lambda x: x[:, x[:, 0] > 1],
    lambda x: x[True, 0],
]


@pytest.mark.parametrize("dtype", ["f8", "i4", "c8"])
@pytest.mark.parametrize("body", READ)
def test_read_values(body: Callable[[Any], Any], dtype: str) -> None:
    compare(body, np.arange(12).reshape(3, 4).astype(dtype))


@pytest.mark.parametrize("body", LEFT)
def test_left_to_numpy(body: Callable[[Any], Any]) -> None:
    compare(body, np.arange(12.0).reshape(3, 4), noted=False)


@pytest.mark.parametrize("dtype", ["f8", "i4", "c8"])
@pytest.mark.parametrize("body", NOTED)
def test_written_values(body: Callable[[Any], Any], dtype: str) -> None:
    compare(body, np.arange(12).reshape(3, 4).astype(dtype))


def test_values_that_do_not_fit_a_mask_are_an_error_and_write_nothing() -> None:
    def body(x: Any) -> Any:
        with pytest.raises(ValueError, match="cannot assign 2 input values"):
            x[x > 3] = x[0, :2]
        return x + 1

    compare(body, np.arange(12.0).reshape(3, 4))
