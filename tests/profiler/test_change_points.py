"""Changes over the runs of a benchmark: found where they are, and seldom where there are none."""

from __future__ import annotations

import random
from itertools import pairwise
from math import exp
from statistics import median

from hypothesis import given
from hypothesis import strategies as st

from gpuforge.profiler.compare.change_points import _costs, change_points


def runs(seed: int, *levels: float, noise: float = 0.01, each: int = 12) -> list[float]:
    values = random.Random(seed)
    return [exp(level + values.gauss(0, noise)) for level in levels for _ in range(each)]


def test_a_step_is_found_where_it_is() -> None:
    for seed in range(20):
        (change,) = change_points(runs(seed, 0.0, 0.1))
        assert abs(change.place - 12) <= 1 and 0.08 < change.ratio < 0.13 and change.p < 0.01


def test_up_and_down_are_two_changes() -> None:
    found = change_points(runs(1, 0.0, 0.2, 0.0))
    assert [change.place for change in found] == [12, 24]
    assert found[0].ratio > 0 > found[1].ratio


def test_one_odd_run_is_no_change() -> None:
    times = runs(2, 0.0, 0.0)
    times[10] *= 3
    assert change_points(times) == []


def test_steady_runs_seldom_show_a_change() -> None:
    alarms = sum(bool(change_points(runs(seed, 0.0, each=60, noise=0.05))) for seed in range(100))
    assert alarms <= 8


def test_small_changes_and_few_runs_are_none() -> None:
    assert change_points(runs(3, 0.0, 0.01, noise=0.0001)) == []
    assert change_points([1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]) == []
    assert change_points([]) == []


@given(st.lists(st.floats(1e-7, 1e3), max_size=60))
def test_changes_lie_apart_and_are_large_enough(times: list[float]) -> None:
    found = change_points(times)
    places = [0, *(change.place for change in found), len(times)]
    assert all(after - before >= 4 for before, after in pairwise(places)) or not found
    assert all(abs(change.ratio) >= 0.02 and change.p < 0.01 for change in found)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=30))
def test_costs_are_distances_from_the_median(values: list[int]) -> None:
    for end, cost in _costs(values, 0):
        middle = median(values[:end])
        assert cost == sum(abs(value - middle) for value in values[:end])
