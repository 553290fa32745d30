"""Medians, rank tests and their intervals: against SciPy, and by simulation with known truth."""

from __future__ import annotations

import random
from math import exp, isinf, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.profiler.compare.evidence import (
    mann_whitney,
    median_interval,
    paired_change,
    paired_test,
)

TIMES = st.lists(st.floats(1e-7, 10.0), min_size=2, max_size=60)
RATIOS = st.lists(st.sampled_from([n / 50 for n in range(-20, 21)]), min_size=1, max_size=40)


@given(TIMES, TIMES)
def test_mann_whitney_is_scipys(base: list[float], new: list[float]) -> None:
    stats = pytest.importorskip("scipy.stats")
    if len({*base, *new}) == 1:
        assert mann_whitney(base, new) == (1.0, 0.0)
        return
    theirs = stats.mannwhitneyu(new, base, method="asymptotic")
    found = mann_whitney(base, new)
    assert found.p == pytest.approx(min(1.0, theirs.pvalue), abs=1e-9)
    assert found.delta == pytest.approx(2 * theirs.statistic / len(base) / len(new) - 1)


def test_paired_test_is_exact_for_few_pairs() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = random.Random(3)
    for count in (1, 5, 10, 17, 40):
        logs = [values.gauss(0.3, 1) for _ in range(count)]
        assert paired_test(logs).p == pytest.approx(stats.wilcoxon(logs, method="exact").pvalue)


def test_paired_test_of_many_pairs_is_near_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = random.Random(3)
    logs = [values.gauss(0.1, 1) for _ in range(200)]
    theirs = stats.wilcoxon(logs, method="asymptotic", correction=True).pvalue
    assert paired_test(logs).p == pytest.approx(theirs, rel=1e-6)


@given(RATIOS)
def test_swapping_the_sides_turns_the_sign_alone(logs: list[float]) -> None:
    there, back = paired_test(logs), paired_test([-log_ for log_ in logs])
    assert there.p == pytest.approx(back.p) and 0 <= there.p <= 1
    assert there.delta == pytest.approx(-back.delta) and -1 <= there.delta <= 1
    change = paired_change(logs)
    assert change.low <= change.value <= change.high


def test_pairs_of_equal_values_are_evidence_of_nothing() -> None:
    assert paired_test([0.0] * 30) == (1.0, 0.0)
    assert paired_change([0.0] * 30) == (0.0, 0.0, 0.0)


def test_a_change_all_pairs_share_is_found_exactly() -> None:
    found = paired_change([log(1.05)] * 12)
    assert found == pytest.approx((0.05, 0.05, 0.05))
    assert paired_test([log(1.05)] * 12).delta == 1.0


def test_few_values_bound_nothing() -> None:
    assert isinf(median_interval([1.0] * 7).high)
    assert isinf(paired_change([0.1] * 3).high)
    assert median_interval(range(1, 9)) == (4.5, 1, 8)


@pytest.mark.parametrize("count", [8, 15, 60])
def test_intervals_hold_the_truth_as_often_as_they_say(count: int) -> None:
    values = random.Random(count)
    median_hits = change_hits = 0
    for _ in range(400):
        times = [exp(values.gauss(0, 0.5)) for _ in range(count)]
        logs = [log(1.03) + values.choice((0.02, 0.3)) * values.gauss(0, 1) for _ in range(count)]
        middle, change = median_interval(times), paired_change(logs)
        median_hits += middle.low <= 1 <= middle.high
        change_hits += change.low <= 0.03 <= change.high
    assert median_hits >= 388 and change_hits >= 388  # 99 % of 400, less three deviations
