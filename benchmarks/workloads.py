"""The functions that placement is measured on, plain NumPy: one per kind of array work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

FLOATS = ("float32", "float64")
INTEGERS = ("int32", "int64")


def affine(x: Any) -> Any:
    return x * 2.0 + 1.0


def blend(x: Any, y: Any) -> Any:
    return x * 0.3 + y * 0.7


def clipped(x: Any) -> Any:
    return np.where(x > 0.5, x, -x)


def root(x: Any) -> Any:
    return np.sqrt(x * x + 1.0)


def wave(x: Any) -> Any:
    return np.exp(-x) * np.sin(x * 6.0)


def logistic(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def entropy(x: Any) -> Any:
    return -np.sum(x * np.log(x + 1e-6))


def total(x: Any) -> Any:
    return np.sum(x)


def largest(x: Any) -> Any:
    return np.max(x)


def spread(x: Any) -> Any:
    return np.std(x)


def row_means(x: Any) -> Any:
    return np.mean(x, axis=1)


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def square_product(x: Any) -> Any:
    return x @ x


def gram(x: Any) -> Any:
    return x.T @ x


def row_cosine(x: Any) -> Any:
    unit = x / np.sqrt(np.sum(x * x, axis=1, keepdims=True))
    return unit[:8, :] @ unit.T


def batched_product(x: Any) -> Any:
    return x @ x


def ordered(x: Any) -> Any:
    return np.sort(x)


def spectrum(x: Any) -> Any:
    return np.fft.rfft(x)


def smoothed(x: Any) -> Any:
    return np.fft.irfft(np.fft.rfft(x) * 0.5, n=x.shape[0])


def running_sum(x: Any) -> Any:
    return np.cumsum(x)


def singular_values(x: Any) -> Any:
    return np.linalg.svd(x, full_matrices=False)[1]


def small_systems(x: Any) -> Any:
    return np.linalg.solve(x + 8.0 * np.eye(8, dtype=x.dtype), x)


def picked(x: Any) -> Any:
    return np.take(x, np.arange(0, x.shape[0], 3))


def scrambled(x: Any) -> Any:
    x = x ^ (x << 5)
    return x ^ (x >> 3)


def laplacian(x: Any) -> Any:
    return x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1] - 4.0 * x[1:-1, 1:-1]


def chaotic(x: Any) -> Any:
    for _ in range(25):
        x = 3.7 * x * (1.0 - x)
    return x


def flat(rng: np.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
    return (rng.random(n).astype(dtype),)


def pair(rng: np.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
    return (rng.random(n // 2 or 1).astype(dtype), rng.random(n // 2 or 1).astype(dtype))


def whole(rng: np.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
    return (rng.integers(0, 2**20, n).astype(dtype),)


def rows(width: int) -> Callable[..., tuple[Any, ...]]:
    def make(rng: np.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
        return (rng.random((max(n // width, 9), width)).astype(dtype),)

    return make


def square(rng: np.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
    side = max(int(n**0.5), 3)
    return ((rng.random((side, side)) / side).astype(dtype),)


def blocks(rng: np.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
    return (rng.random((max(n // 64, 1), 8, 8)).astype(dtype),)


WORKLOADS: dict[str, tuple[Callable[..., Any], Callable[..., tuple[Any, ...]], tuple[str, str]]] = {
    f.__name__: (f, make, dtypes)
    for f, make, dtypes in (
        (affine, flat, FLOATS), (blend, pair, FLOATS), (clipped, flat, FLOATS),
        (root, flat, FLOATS), (wave, flat, FLOATS), (logistic, flat, FLOATS),
        (entropy, flat, FLOATS), (total, flat, FLOATS), (largest, flat, FLOATS),
        (spread, flat, FLOATS), (row_means, rows(32), FLOATS), (softmax, rows(10), FLOATS),
        (square_product, square, FLOATS), (gram, rows(32), FLOATS), (row_cosine, rows(64), FLOATS),
        (batched_product, blocks, FLOATS), (ordered, flat, FLOATS), (spectrum, flat, FLOATS),
        (smoothed, flat, FLOATS), (running_sum, flat, FLOATS), (singular_values, rows(16), FLOATS),
        (small_systems, blocks, FLOATS), (picked, flat, FLOATS), (scrambled, whole, INTEGERS),
        (laplacian, square, FLOATS), (chaotic, flat, FLOATS),
    )
}  # fmt: skip
SIZES = tuple(round(10 * 2 ** (step / 2)) for step in range(41))
