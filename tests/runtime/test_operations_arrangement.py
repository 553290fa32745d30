"""Arrangements of recorded arrays are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.runtime.recording import compare

windows = np.lib.stride_tricks.sliding_window_view
Body = Callable[[Any], Any]

NOTED: list[Body] = [
    lambda x: np.roll(x, 1),
    lambda x: np.roll(x, -5, 0),
    lambda x: np.roll(x, (1, 2), (0, 1)),
    lambda x: np.roll(x, 1, (0, 1)),
    lambda x: np.rot90(x),
    lambda x: np.rot90(x, 3, (1, 0)),
    lambda x: np.repeat(x, 2),
    lambda x: x.repeat(3, axis=1),
    lambda x: np.repeat(x, [1, 0, 2], axis=0),
    lambda x: np.tile(x, 2),
    lambda x: np.tile(x, (2, 1, 2)),
    lambda x: np.tile(x, 1),
    lambda x: np.pad(x, 1),
    lambda x: np.pad(x, ((1, 2), (0, 3)), constant_values=7),
    lambda x: np.pad(x, ((1, 2), (0, 3)), constant_values=((1, 2), (3.7, 4))),
    lambda x: np.pad(x, 2, mode="edge"),
    lambda x: np.pad(x, (1, 2), "reflect"),
    lambda x: np.pad(x, 5, "symmetric"),
    lambda x: np.pad(x, 3, "wrap"),
    lambda x: np.split(x, 3),
    lambda x: np.split(x, [1, 3], axis=1),
    lambda x: np.array_split(x, 2),
    lambda x: np.hsplit(x, 2),
    lambda x: np.vsplit(x, 3),
    lambda x: np.dsplit(x[..., None], [1]),
    lambda x: np.dstack([x, x]),
    lambda x: np.dstack((x[0], x[1])),
    lambda x: np.append(x, 5.0),
    lambda x: np.append(x, x, axis=0),
    lambda x: np.insert(x, 1, 5.0),
    lambda x: np.insert(x, 1, 5.0, axis=1),
    lambda x: np.insert(x, -1, x[0], axis=0),
    lambda x: np.insert(x[0], 2, [7, 8]),
    lambda x: np.delete(x, 1),
    lambda x: np.delete(x, [0, 2], axis=1),
    lambda x: np.delete(x, slice(1, None), 0),
    lambda x: np.delete(x, np.argmax(np.abs(x))),
    lambda x: np.delete(x, np.argmax(np.abs(x), axis=1), axis=1),
    lambda x: np.insert(x[0], np.argmax(np.abs(x[0])), 0),
    lambda x: np.roll(x, np.argmax(np.abs(x)), axis=1),
    lambda x: np.roll(x, np.argmax(np.abs(x), axis=0)[:2], axis=(0, 1)),
    lambda x: np.repeat(x[0], np.argmax(np.abs(x), axis=0)),
    lambda x: np.meshgrid(x[0], x[:, 1]),
    lambda x: np.meshgrid(x[0], x[:, 1], indexing="ij"),
    lambda x: np.meshgrid(x[0], x[:, 1], x[1], sparse=True),
    lambda x: np.tril(x),
    lambda x: np.tril(x, -1),
    lambda x: np.tril(np.stack([x, x]), 2),
    lambda x: np.triu(x),
    lambda x: np.triu(x, 1),
    lambda x: np.triu(x, -2),
    lambda x: np.rollaxis(x, 1),
    lambda x: np.resize(x, (2, 9)),
    lambda x: np.block([[x, x], [x, x]]),
    lambda x: np.block([[x, np.ones((3, 1))], [np.zeros((1, 5))]]),
    lambda x: windows(x, 2, axis=1),
    lambda x: windows(x, (2, 2)),
    lambda x: windows(x[0], 3).mean(axis=-1),
    lambda x: np.unstack(x),
    lambda x: np.unstack(x, axis=1),
    lambda x: np.broadcast_arrays(x, x[0]),
    lambda x: x[np.ix_([0, 2], [1, 3])],
    lambda x: x.reshape(2, 6, order="F"),
    lambda x: np.reshape(x[:, ::2], (2, -1), order="F"),
    lambda x: np.reshape(x.T, 12, order="F"),
    lambda x: x.ravel("F"),
    lambda x: np.ravel(x[0], order="F"),
    lambda x: x.flatten("F"),
]
NOT_NOTED: list[Body] = [
    lambda x: np.roll(x, 1, 5),
    lambda x: np.repeat(x, -1),
    lambda x: np.pad(x, 1, "mean"),
    lambda x: np.pad(x, {1: (1, 2)}),
    lambda x: np.pad(x, -1),
    lambda x: np.split(x, 5),
    lambda x: np.insert(x, [0, 2], 1),
    lambda x: np.delete(x, 9, 0),
    lambda x: np.insert(x, 99, 0.0),
    lambda x: windows(x, 9, axis=0),
    lambda x: windows(x, 2, axis=0).__setitem__(0, 1),
    lambda x: np.broadcast_arrays(x, x[:2]),
]


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "?", "c16"])
@pytest.mark.parametrize("body", NOTED)
def test_noted(body: Body, dtype: str) -> None:
    compare(body, np.arange(12).reshape(3, 4).astype(dtype))


@pytest.mark.parametrize("body", NOT_NOTED)
def test_left_to_numpy(body: Body) -> None:
    compare(body, np.arange(12.0).reshape(3, 4), noted=False)


def test_a_reshape_in_fortran_order_is_a_view_where_it_is_one_in_numpy() -> None:
    def body(x: Any) -> Any:
        turned = x.T.reshape((6, 2), order="F")
        turned[0] = -1
        x.reshape(12, order="F")[0] = 50
        return x, turned, x.ravel("F")

    compare(body, np.arange(12.0).reshape(3, 4))


def test_parts_of_a_split_are_views() -> None:
    def body(x: Any) -> Any:
        left, right = np.hsplit(x, 2)
        left += 10
        right[0] = -1
        return x.sum()

    compare(body, np.arange(12.0).reshape(3, 4))
