"""Everyday functions in plain NumPy code, and the same written by hand for PyTorch and for JAX.

A function's JAX version is its own code with `jax.numpy` under the name `np`, compiled by
`jax.jit`; `None` where it writes into arrays. PyTorch's versions stand beside it. Both take NumPy
arrays and return NumPy arrays, as a program on NumPy would need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

FLOATS = ("float32", "float64")
INTEGERS = ("int32", "int64")
Arrays = tuple[Any, ...]
Maker = Callable[[np.random.Generator, int, str], Arrays]


# ---------------------------------------------------------------- inputs


def flat(rng: np.random.Generator, n: int, dtype: str) -> Arrays:
    return (rng.random(n).astype(dtype),)


def pair(rng: np.random.Generator, n: int, dtype: str) -> Arrays:
    return (rng.random(n // 2).astype(dtype), rng.random(n // 2).astype(dtype))


def whole(rng: np.random.Generator, n: int, dtype: str) -> Arrays:
    return (rng.integers(0, 2**20, n).astype(dtype),)


def rows(width: int) -> Maker:
    def make(rng: np.random.Generator, n: int, dtype: str) -> Arrays:
        return (rng.random((n // width, width)).astype(dtype),)

    return make


def square(rng: np.random.Generator, n: int, dtype: str) -> Arrays:
    side = int(n**0.5)
    return ((rng.random((side, side)) / side).astype(dtype),)


def blocks(rng: np.random.Generator, n: int, dtype: str) -> Arrays:
    return (rng.random((n // 64, 8, 8)).astype(dtype),)


def points(rng: np.random.Generator, n: int, dtype: str) -> Arrays:
    return (rng.random((n // 64, 3)).astype(dtype), rng.random((64, 3)).astype(dtype))


# ---------------------------------------------------------------- NumPy


def affine(x: Any) -> Any:
    return x * 2.0 + 1.0


def blend(x: Any, y: Any) -> Any:
    return x * 0.3 + y * 0.7


def clipped(x: Any) -> Any:
    return np.clip(x, 0.2, 0.8) * 3.0


def folded(x: Any) -> Any:
    return np.where(x > 0.5, x, 1.0 - x)


def length(x: Any, y: Any) -> Any:
    return np.sqrt(x * x + y * y)


def wave(x: Any) -> Any:
    return np.exp(-x) * np.sin(x * 6.0)


def gelu(x: Any) -> Any:
    return 0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def logistic(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def angle(x: Any, y: Any) -> Any:
    return np.arctan2(y, x) + np.hypot(x, y)


def polynomial(x: Any) -> Any:
    y = 0.125 * x
    for factor in (0.5, -1.5, 2.0, 0.25, -3.0, 1.0):
        y = y * x + factor
    return y


def chaotic(x: Any) -> Any:
    for _ in range(25):
        x = 3.7 * x * (1.0 - x)
    return x


def entropy(x: Any) -> Any:
    return -np.sum(x * np.log(x + 1e-6))


def total(x: Any) -> Any:
    return np.sum(x)


def largest(x: Any) -> Any:
    return x.max()


def deviation(x: Any) -> Any:
    return x.std()


def row_means(x: Any) -> Any:
    return x.mean(axis=1)


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def log_sum_exp(x: Any) -> Any:
    top = x.max(axis=1)
    return top + np.log(np.sum(np.exp(x - top[:, None]), axis=1))


def standardised(x: Any) -> Any:
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-3)


def square_product(x: Any) -> Any:
    return x @ x


def gram(x: Any) -> Any:
    return x.T @ x


def layer(x: Any) -> Any:
    return np.maximum(x @ x[:16].T, 0.1)


def batched_product(x: Any) -> Any:
    return x @ x


def distances(x: Any, y: Any) -> Any:
    return np.sqrt(np.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1))


def ordered(x: Any) -> Any:
    return np.sort(x)


def spectrum(x: Any) -> Any:
    return np.abs(np.fft.rfft(x))


def running_sum(x: Any) -> Any:
    return np.cumsum(x)


def singular_values(x: Any) -> Any:
    return np.linalg.svd(x, full_matrices=False)[1]


def small_systems(x: Any) -> Any:
    return np.linalg.solve(x + 8.0 * np.eye(8, dtype=x.dtype), x)


def scrambled(x: Any) -> Any:
    x = x ^ (x << 5)
    return x ^ (x >> 3)


def laplacian(x: Any) -> Any:
    return x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1] - 4.0 * x[1:-1, 1:-1]


def rectified(x: Any) -> Any:
    y = x - 0.5
    y[y < 0.0] = 0.0
    return y


# ---------------------------------------------------------------- PyTorch


def torch_forms() -> dict[str, Callable[..., Any]]:
    """Return each function as written by hand for PyTorch; those not named share NumPy's code."""
    import torch

    def peak_exp(x: Any) -> Any:
        return torch.exp(x - torch.amax(x, dim=1, keepdim=True))

    def by_softmax(x: Any) -> Any:
        e = peak_exp(x)
        return e / torch.sum(e, dim=1, keepdim=True)

    return {
        "clipped": lambda x: torch.clip(x, 0.2, 0.8) * 3.0,
        "folded": lambda x: torch.where(x > 0.5, x, 1.0 - x),
        "length": lambda x, y: torch.sqrt(x * x + y * y),
        "wave": lambda x: torch.exp(-x) * torch.sin(x * 6.0),
        "gelu": lambda x: 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x))),
        "logistic": lambda x: 1.0 / (1.0 + torch.exp(-x)),
        "angle": lambda x, y: torch.arctan2(y, x) + torch.hypot(x, y),
        "entropy": lambda x: -torch.sum(x * torch.log(x + 1e-6)),
        "total": torch.sum,
        "deviation": lambda x: x.std(correction=0),
        "softmax": by_softmax,
        "log_sum_exp": lambda x: torch.logsumexp(x, dim=1),
        "standardised": lambda x: (x - x.mean(dim=0)) / (x.std(dim=0, correction=0) + 1e-3),
        "layer": lambda x: torch.clamp(x @ x[:16].T, min=0.1),
        "distances": lambda x, y: torch.sqrt(
            torch.sum((x[:, None, :] - y[None, :, :]) ** 2, dim=-1)
        ),
        "ordered": lambda x: torch.sort(x)[0],
        "spectrum": lambda x: torch.abs(torch.fft.rfft(x)),
        "running_sum": lambda x: torch.cumsum(x, dim=0),
        "singular_values": torch.linalg.svdvals,
        "small_systems": lambda x: torch.linalg.solve(x + 8.0 * torch.eye(8, dtype=x.dtype), x),
    }


# ---------------------------------------------------------------- the table


@dataclass(frozen=True)
class Work:
    """One function: its NumPy code, its inputs, its sizes in elements, whether JAX can take it."""

    function: Callable[..., Any]
    make: Maker
    sizes: tuple[int, ...]
    dtypes: tuple[str, str] = FLOATS
    jax: bool = True


LIGHT, MEDIUM, HEAVY = (1_000, 60_000, 2_000_000), (1_000, 30_000, 500_000), (1_000, 10_000, 80_000)
WORKS: dict[str, Work] = {
    work.function.__name__: work
    for work in (
        Work(affine, flat, LIGHT), Work(blend, pair, LIGHT), Work(clipped, flat, LIGHT),
        Work(folded, flat, LIGHT), Work(length, pair, LIGHT), Work(wave, flat, MEDIUM),
        Work(gelu, flat, MEDIUM), Work(logistic, flat, MEDIUM), Work(angle, pair, MEDIUM),
        Work(polynomial, flat, MEDIUM), Work(chaotic, flat, MEDIUM), Work(entropy, flat, MEDIUM),
        Work(total, flat, LIGHT), Work(largest, flat, LIGHT), Work(deviation, flat, LIGHT),
        Work(row_means, rows(32), LIGHT), Work(softmax, rows(10), MEDIUM),
        Work(log_sum_exp, rows(64), MEDIUM), Work(standardised, rows(32), MEDIUM),
        Work(square_product, square, MEDIUM), Work(gram, rows(32), LIGHT),
        Work(layer, rows(128), MEDIUM), Work(batched_product, blocks, MEDIUM),
        Work(distances, points, HEAVY), Work(ordered, flat, MEDIUM), Work(spectrum, flat, MEDIUM),
        Work(running_sum, flat, LIGHT), Work(singular_values, rows(16), HEAVY),
        Work(small_systems, blocks, HEAVY), Work(scrambled, whole, LIGHT, INTEGERS),
        Work(laplacian, square, LIGHT), Work(rectified, flat, LIGHT, jax=False),
    )
}  # fmt: skip


def by_hand(library: str) -> dict[str, Callable[..., Any]]:
    """Return every function on one library: NumPy arrays in, NumPy's kind of result out.

    A function that the library has no form of is absent.
    """
    if library == "numpy":
        return {name: work.function for name, work in WORKS.items()}
    return by_hand_torch() if library == "torch" else by_hand_jax()


def by_hand_torch() -> dict[str, Callable[..., Any]]:
    import torch

    forms = torch_forms()

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arrays: function(*map(torch.from_numpy, arrays)).numpy()

    return {name: wrap(forms.get(name, work.function)) for name, work in WORKS.items()}


def by_hand_jax() -> dict[str, Callable[..., Any]]:
    import jax

    jax.config.update("jax_enable_x64", True)

    def wrap(function: Any) -> Callable[..., Any]:
        same_code = FunctionType(function.__code__, {"np": jax.numpy}, function.__name__)
        compiled = jax.jit(same_code)
        return lambda *arrays: np.asarray(compiled(*arrays))

    return {name: wrap(work.function) for name, work in WORKS.items() if work.jax}
