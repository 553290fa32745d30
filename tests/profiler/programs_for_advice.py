"""Programs that do something slow, each beside the same program as it should be.

`PROGRAMS` has for each rule that a CPU can show the two, and the library they need. They are run
under the profiler by `test_suggestions_recorded`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

import gpuforge as gf

Program = Callable[[], object]


class Pair(NamedTuple):
    """A program that a rule must speak about, and one that it must not; `library` runs it."""

    slow: Program
    mended: Program
    library: str = "numpy"


PROGRAMS: dict[str, Pair] = {}
RANDOM = np.random.default_rng(0)


def of(rule: str, library: str = "numpy") -> Callable[[Callable[[Any], Pair]], Callable[..., Any]]:
    """Enter the pair that a function makes of a decorator that pins functions to `library`."""

    def enter(make: Callable[[Any], Pair]) -> Callable[[Any], Pair]:
        pinned = gf.offload(backend=library, isolate=False)
        PROGRAMS[rule] = make(pinned)._replace(library=library)
        return make

    return enter


@of("calls_in_loop")
def rows(offload: Any) -> Pair:
    data = RANDOM.random((20_000, 16))

    @offload
    def lengths(x: Any) -> Any:
        return np.sqrt((x * x).sum(axis=-1))

    return Pair(lambda: [lengths(row) for row in data], lambda: [lengths(data) for _ in range(40)])


@of("first_calls", "jax")
def warm_up(offload: Any) -> Pair:
    x = RANDOM.random(100_000)

    def again() -> Any:
        @offload
        def wave(x: Any) -> Any:
            return np.tanh(np.sin(x) + np.cos(x) * x) / (1 + x * x)

        return [wave(x) for _ in range(60)]

    def steady(x: Any) -> Any:
        return np.sort(x)

    as_written = gf.offload(pure=False)(steady)
    return Pair(again, lambda: [as_written(x) for _ in range(60)])


@of("changing_shapes", "jax")
def growing(offload: Any) -> Pair:
    x = RANDOM.random(2000)

    @offload
    def spread(x: Any) -> Any:
        return np.sqrt(((x - x.mean()) ** 2).sum()) + np.abs(x).max()

    @offload
    def padded(x: Any, size: Any) -> Any:
        mean = x.sum() / size
        return np.sqrt((x * x).sum() - size * mean * mean) + np.abs(x).max()

    def mended() -> Any:
        for size in range(1000, 1010):
            row = np.zeros(2048)
            row[:size] = x[:size]
            padded(row, size)

    return Pair(lambda: [spread(x[:size]) for size in range(1000, 1010)], mended)


@of("repeated_transfer", "opencl")
def weights(offload: Any) -> Pair:
    table, scales = RANDOM.random(400_000), np.arange(40.0)

    @offload
    def scaled(table: Any, scale: Any) -> Any:
        return (table * scale).sum()

    @offload
    def all_scaled(table: Any) -> Any:
        return [(table * scale).sum() for scale in scales]

    return Pair(lambda: [scaled(table, scale) for scale in scales], lambda: all_scaled(table))


@of("round_trip", "opencl")
def two_steps(offload: Any) -> Pair:
    tables = [RANDOM.random(200_000) for _ in range(40)]

    @offload
    def first(x: Any) -> Any:
        return x * 2 + 1

    @offload
    def second(x: Any) -> Any:
        return (x * x).sum()

    @offload
    def both(x: Any) -> Any:
        y = x * 2 + 1
        return (y * y).sum()

    return Pair(lambda: [second(first(x)) for x in tables], lambda: [both(x) for x in tables])


@of("small_reads", "torch")
def conditions(offload: Any) -> Pair:
    x = RANDOM.random(20_000)

    @offload
    def halved(x: Any) -> Any:
        for _ in range(8):
            if x.max() > 1e-9:
                x = x / 2
        return x

    @offload
    def chosen(x: Any) -> Any:
        for _ in range(8):
            x = np.where(x.max() > 1e-9, x / 2, x)
        return x

    return Pair(lambda: [halved(x) for _ in range(60)], lambda: [chosen(x) for _ in range(60)])


@of("better_elsewhere", "torch")
def better_as_written(offload: Any) -> Pair:
    x = RANDOM.random(100)

    @offload
    def norm(x: Any) -> Any:
        return np.sqrt((x * x).sum())

    @gf.offload(backend="numpy")
    def plain(x: Any) -> Any:
        return np.sqrt((x * x).sum())

    def slow() -> Any:
        gf.would_benefit(norm, x)  # NumPy is timed too
        return [norm(x) for _ in range(400)]

    return Pair(slow, lambda: [plain(x) for _ in range(200)])


@of("settled_by_numpy", "torch")
def not_finite(offload: Any) -> Pair:
    x = RANDOM.integers(1, 1000, 20_000)
    divisors = np.arange(20_000) % 7

    @offload
    def shares(x: Any, divisors: Any) -> Any:
        return x // divisors

    def call(first: Any) -> None:
        with np.errstate(divide="ignore"):
            for number in range(80):
                shares(x, first if number % 2 else divisors + 1)

    return Pair(lambda: call(divisors), lambda: call(divisors + 2))


@of("numpy_steps", "torch")
def missing(offload: Any) -> Pair:
    x = RANDOM.random(20_000)

    @offload
    def by_pieces(x: Any) -> Any:
        return np.piecewise(x * 2, [x > 0.5], [np.sqrt, np.negative]) + x

    @offload
    def chosen(x: Any) -> Any:
        return np.where(x > 0.5, np.sqrt(x * 2), -2 * x) + x

    return Pair(lambda: [by_pieces(x) for _ in range(60)], lambda: [chosen(x) for _ in range(60)])


@of("separate_steps", "torch")
def chain(offload: Any) -> Pair:
    x = RANDOM.random(640_000)

    @offload
    def activate(x: Any) -> Any:
        return np.tanh(np.exp(-x * x) + 2 * x) / (1 + x)

    @offload
    def product(x: Any) -> Any:
        return x.reshape(800, 800) @ x[:800]

    return Pair(lambda: [activate(x) for _ in range(31)], lambda: [product(x) for _ in range(31)])


@of("strided_access")
def columns(offload: Any) -> Pair:
    table = RANDOM.random((300_000, 8))
    column = np.ascontiguousarray(table[:, 3])

    @offload
    def spread(x: Any) -> Any:
        return x.max() - x.min()

    return Pair(
        lambda: [spread(table[:, 3]) for _ in range(60)],
        lambda: [spread(column) for _ in range(60)],
    )


@of("strided_transfer", "opencl")
def gathered(offload: Any) -> Pair:
    table = RANDOM.random((200_000, 4))
    column, whole = np.ascontiguousarray(table[:, 1]), RANDOM.random(200_000)

    @offload
    def total(x: Any, y: Any) -> Any:
        return (x * y).sum()

    def both(given: Any) -> None:
        for _ in range(40):
            total(given, whole[::1])
            total(whole, whole)

    return Pair(lambda: both(table[:, 1]), lambda: both(column))


@of("uneven_workers")
def tiles(offload: Any) -> Pair:
    def work(pieces: int) -> None:
        for _ in range(pieces):
            with gf.span("tile"):
                time.sleep(0.02)  # long beside what a busy machine adds

    def shared(shares: tuple[int, ...]) -> None:
        with ThreadPoolExecutor(len(shares)) as pool:
            list(pool.map(work, shares))

    return Pair(lambda: shared((5, 5, 25)), lambda: shared((12, 12, 12)))


@of("input_wait")
def by_turns(offload: Any) -> Pair:
    x = RANDOM.random(100_000)

    @offload
    def order(x: Any) -> Any:
        return np.sort(x)

    def load() -> Any:
        with gf.span("load"):
            time.sleep(0.005)
        return x

    def ahead() -> None:
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(load)
            for _ in range(40):
                given, coming = coming.result(), pool.submit(load)
                order(given)

    return Pair(lambda: [order(load()) for _ in range(40)], ahead)


@of("profiler_cost")
def spans_within(offload: Any) -> Pair:
    def count(spans: bool) -> int:
        total = 0
        for number in range(60_000):
            if spans:
                with gf.span("one number"):
                    total += number
            else:
                total += number
        return total

    def outside() -> None:
        for _ in range(40):
            with gf.span("all numbers"):
                count(False)

    return Pair(lambda: count(True), outside)
