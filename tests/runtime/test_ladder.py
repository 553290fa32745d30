"""The size of a batch: found from what batches took, bounded by memory."""

from __future__ import annotations

from collections.abc import Callable
from math import log2

import pytest

from gpuforge.runtime.executor.ladder import SAMPLES, SMALLEST, Ladder, below


def run(ladder: Ladder, each: Callable[[int], float], available: int = 1000, turns: int = 200,
        fixed: int = 0) -> list[int]:  # fmt: skip
    """Choose sizes of batches that take `each(size)` for an item."""
    chosen = []
    for _ in range(turns):
        size = ladder.choose(available, fixed)
        ladder.add(size, each(size))
        chosen.append(size)
    return chosen


@pytest.mark.parametrize("start", [1, 8, 64, 512])
@pytest.mark.parametrize("best", [8, 32, 256])
def test_the_best_size_is_found_from_any_start(start: int, best: int) -> None:
    ladder = Ladder(start, 4096)
    chosen = run(ladder, lambda size: 20.0 if size == 1 else 1 + abs(log2(size / best)))
    assert ladder.best == best
    assert chosen[-20:].count(best) >= 17


def test_single_calls_stay_where_batches_gain_nothing() -> None:
    ladder = Ladder(32, 4096)
    chosen = run(ladder, lambda size: 1.0)
    assert ladder.best == 1
    assert sum(size > 1 for size in chosen[50:]) <= len(chosen[50:]) / 4


def test_little_is_tried_where_batches_take_much_longer() -> None:
    chosen = run(Ladder(32, 4096), lambda size: 1.0 if size == 1 else 5.0)
    assert sum(size > 1 for size in chosen) == SAMPLES


def test_small_batches_that_take_long_for_their_fixed_cost_are_not_the_end() -> None:
    ladder = Ladder(8, 4096)
    run(ladder, lambda size: 3.7e-6 if size == 1 else 2.2e-6 + 40e-6 / size)
    assert ladder.best >= 128
    ladder = Ladder(8, 4096)
    chosen = run(ladder, lambda size: 3.7e-6 if size == 1 else 5e-6 + 40e-6 / size)
    assert ladder.best == 1
    assert max(chosen) <= 64


def test_what_runs_out_of_memory_is_halved_and_grows_back() -> None:
    ladder = Ladder(64, 256)
    run(ladder, lambda size: 10.0 / size, turns=40)
    assert ladder.best == 256
    ladder.exhausted(256)
    assert max(run(ladder, lambda size: 10.0 / size, turns=20)) == 128
    run(ladder, lambda size: 10.0 / size, turns=200)
    assert ladder.cap == 256
    ladder.exhausted(1)
    assert ladder.choose(100) == 1


def test_a_fixed_size_is_taken_unless_single_calls_are_faster() -> None:
    assert set(run(Ladder(1, 4096), lambda size: 10.0 / size, fixed=100)[-50:]) == {100}
    assert set(run(Ladder(1, 4096), lambda size: size * 1.0, fixed=100)[-50:]) == {1}
    ladder = Ladder(1, 4096)
    run(ladder, lambda size: 10.0 / size, fixed=100)
    assert ladder.choose(30, 100) == 30


def test_what_is_left_at_the_end_is_one_batch() -> None:
    ladder = Ladder(64, 64)
    run(ladder, lambda size: 10.0 / size, turns=39)
    assert ladder.best == 64
    run(ladder, lambda size: 10.0 / size, available=40, turns=20)
    assert [ladder.choose(40) for _ in range(8)].count(40) >= 6
    assert ladder.choose(1) == 1
    assert ladder.choose(SMALLEST - 1) == 1


def test_what_is_little_more_than_the_best_size_is_one_batch() -> None:
    ladder = Ladder(64, 4096)
    run(ladder, lambda size: 10.0 / size, turns=39)
    assert ladder.best == 512
    assert ladder.choose(1000) == 1000
    assert ladder.choose(2000) == 1024  # that is looked at first


def test_another_backend_is_measured_anew() -> None:
    ladder = Ladder(16, 64)
    for size in (1, 8, 16, 32):
        for _ in range(SAMPLES):
            ladder.add(size, 1.0 / size, "numpy")
    ladder.add(32, 1e-3, "torch:cpu")
    assert ladder.each(32) == 1e-3
    assert ladder.each(16) is None


def test_powers_of_two() -> None:
    assert [below(number) for number in (0, 1, 2, 3, 1000, 1024)] == [1, 1, 2, 2, 512, 1024]
