"""What a body is, and the arguments it is called with: ordinary ones and special ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np

Arguments = tuple[Any, ...]
Maker = Callable[[int, np.random.Generator], Arguments]
Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Body:
    """One function as a user would write it.

    `make(size, rng)` returns arguments whose largest array, inside the function or outside, has
    about `size` elements. `specials` are makers too, by what is special about their values.
    """

    plain: Callable[..., Any]
    xp: Callable[..., Any]
    make: Maker
    specials: dict[str, Maker]

    @property
    def name(self) -> str:
        return self.plain.__name__

    def form(self, name: str) -> Callable[..., Any]:
        """Return the function in its `plain` or its `xp` form."""
        return {"plain": self.plain, "xp": self.xp}[name]


def body(
    plain: Callable[..., Any], xp: Callable[..., Any], make: Maker, *changes: Change, **own: Maker
) -> Body:
    """Return a body; `changes` make special arguments of ordinary ones, `own` are its own."""
    specials = {change.__name__: changed(make, change) for change in changes}
    return Body(plain, xp, make, specials | own)


def changed(make: Maker, change: Change) -> Maker:
    """Return a maker whose arrays went through `change`."""

    def made(size: int, rng: np.random.Generator) -> Arguments:
        return tuple(
            change(a.copy(), rng) if isinstance(a, np.ndarray) else a for a in make(size, rng)
        )

    return made


# ---------------------------------------------------------------- special values


def real(x: np.ndarray) -> bool:
    return x.dtype.kind in "fc" and x.size > 0


def nan(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """NaN in up to three places."""
    if real(x):
        x.reshape(-1)[rng.integers(0, x.size, 3)] = np.nan
    return x


def infinity(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Infinities of both signs."""
    if real(x):
        x.reshape(-1)[rng.integers(0, x.size, 2)] = np.inf, -np.inf
    return x


def zero(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Zeros only: what is divided by a sum, a norm or a width divides by zero."""
    return np.zeros_like(x) if real(x) else x


def some_zeros(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Every third number is zero, integers too."""
    x.reshape(-1)[::3] = 0
    return x


def constant(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One value everywhere, its sums exact: no variance, no range, ties only."""
    return np.full_like(x, 1.5 if real(x) else x.reshape(-1)[0]) if x.size else x


def negative(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Negative numbers where a logarithm or a root expects others."""
    return -x if real(x) else x


def huge(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers whose square is beyond the dtype."""
    if real(x):
        return x * x.dtype.type(float(np.finfo(x.dtype).max) ** 0.75)
    return x


def widest(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Integers at the ends of their dtype."""
    if x.dtype.kind in "iu" and x.size:
        ends = np.iinfo(x.dtype)
        x.reshape(-1)[rng.integers(0, x.size, 2)] = ends.max, ends.min
    return x


def singular(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A matrix whose last row is zero."""
    if real(x) and x.ndim >= 2:
        x[..., -1, :] = 0
    return x


def out_of_range(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One index beyond every array."""
    if x.dtype.kind == "i" and x.size:
        x.reshape(-1)[x.size // 2] = 2_000_000_000
    return x


def below_range(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One negative index: from the end, where that is allowed."""
    if x.dtype.kind == "i" and x.size:
        x.reshape(-1)[x.size // 2] = -1
    return x


def empty(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """No rows at all."""
    return x[:0]


# ---------------------------------------------------------------- ordinary arguments


def flat(size: int, rng: np.random.Generator) -> Arguments:
    return (rng.standard_normal(size),)


def flat32(size: int, rng: np.random.Generator) -> Arguments:
    return (rng.standard_normal(size, dtype=np.float32),)


def positive(size: int, rng: np.random.Generator) -> Arguments:
    return (rng.random(size) + 0.05,)


def two(size: int, rng: np.random.Generator) -> Arguments:
    return rng.standard_normal(size), rng.standard_normal(size)


def three(size: int, rng: np.random.Generator) -> Arguments:
    return rng.random(size), rng.random(size), rng.random(size)


def square(size: int, rng: np.random.Generator) -> Arguments:
    side = max(isqrt(size), 4)
    return (rng.random((side, side)),)


def picture(size: int, rng: np.random.Generator) -> Arguments:
    """A grey image of 8 bits."""
    side = max(isqrt(size), 4)
    return (rng.integers(0, 256, (side, side), dtype=np.uint8),)


def rows(width: int, dtype: Any = np.float64) -> Maker:
    """Return a maker of matrices of `width` columns."""

    def make(size: int, rng: np.random.Generator) -> Arguments:
        return (rng.standard_normal((max(size // width, width + 1), width)).astype(dtype),)

    return make


def whole(stop: int, dtype: Any = np.int64) -> Maker:
    """Return a maker of integers from 0 to `stop` - 1."""

    def make(size: int, rng: np.random.Generator) -> Arguments:
        return (rng.integers(0, stop, size, dtype=dtype),)

    return make


def sides(limit: int) -> Maker:
    """Return a maker of symmetric positive definite matrices of up to `limit` rows, with a vector.

    Factorisations take the cube of the rows: beyond `limit` they say nothing new.
    """

    def make(size: int, rng: np.random.Generator) -> Arguments:
        side = min(max(isqrt(size), 4), limit)
        a = rng.standard_normal((side, side))
        return a @ a.T / side + np.eye(side), rng.standard_normal(side)

    return make


def matrices(limit: int) -> Maker:
    """Return a maker of one matrix as in `sides`."""

    def make(size: int, rng: np.random.Generator) -> Arguments:
        return sides(limit)(size, rng)[:1]

    return make


def waves(size: int, rng: np.random.Generator) -> Arguments:
    return (rng.standard_normal(size) + 1j * rng.standard_normal(size),)
