"""Each rule speaks where it must and is silent where it must; each says why and what to do."""

from __future__ import annotations

import math
from random import Random
from types import ModuleType
from typing import Any

import pytest
from benchmarks.anomalies import bursts
from benchmarks.made_series import GIB, HARD, SCENES, TOTAL, gpu, process
from hypothesis import given
from hypothesis import strategies as st

from gpuforge import registry
from gpuforge.monitor.anomaly import RULES, Anomaly, find_anomalies
from gpuforge.monitor.series import Drift, Subject, drift

NUMBER = st.floats(allow_nan=False, allow_infinity=False, width=32)


@pytest.mark.parametrize("name", SCENES)
def test_what_is_found_in_a_scene(name: str) -> None:
    make, expected = SCENES[name]
    found = find_anomalies(make(Random(7)))
    assert {anomaly.rule for anomaly in found} == expected, [a.reason for a in found]
    for anomaly in found:
        assert anomaly.subject
        assert any(character.isdigit() for character in anomaly.reason), "a reason has figures"
        assert anomaly.step


# Noise as large as the whole rise, and a throttle of six seconds: some of these are missed.
SOMETIMES = {"a_small_leak_under_much_noise", "throttled_for_a_while"}


@pytest.mark.parametrize("name", [name for name in HARD if name not in SOMETIMES])
@pytest.mark.parametrize("seed", [11, 12])
def test_what_is_found_near_the_limits(name: str, seed: int) -> None:
    make, expected = HARD[name]
    found = find_anomalies(make(Random(f"{name} {seed}")))
    assert {anomaly.rule for anomaly in found} == expected, [a.reason for a in found]


def rules(*subjects: Subject) -> set[str]:
    return {anomaly.rule for anomaly in find_anomalies(subjects)}


def test_growth_that_paused_as_often_before_goes_on_and_one_that_ended_does_not() -> None:
    r = Random(1)
    ended = [20 * GIB + min(n, 570) * 0.05 * GIB for n in range(600)]
    assert rules(gpu(r, memory_used_bytes=ended)) == set()
    paused = [20 * GIB + (n // 45 * 45) * 0.05 * GIB for n in range(600)]
    assert rules(gpu(r, memory_used_bytes=paused)) == {"memory_growth"}


def test_growth_that_ended_minutes_ago_has_ended_whatever_the_noise() -> None:
    r = Random(3)
    used = [
        (10 + min(n // 9 * 9, 430) / 11) * GIB + abs(r.gauss(0, 0.05 * GIB)) for n in range(600)
    ]
    assert rules(gpu(r, memory_used_bytes=used)) == set()


def test_three_loads_are_no_growth() -> None:
    used = [(5 + 12 * ((n > 130) + (n > 300) + (n > 490))) * GIB for n in range(600)]
    assert rules(gpu(Random(1), memory_used_bytes=used)) == set()


def test_an_idle_gpu_at_a_low_clock_is_not_held_down_by_its_power_limit() -> None:
    low: dict[str, float] = {"throttle_reasons__power_cap": 1.0, "core_clock_hertz": 2.1e8}
    assert rules(gpu(Random(1), utilization_ratio=0.0, **low)) == set()
    assert rules(gpu(Random(1), **low)) == {"throttling"}


def test_a_link_of_no_lanes_is_no_narrow_one() -> None:
    assert rules(gpu(Random(1), link_width=0.0)) == set()


def test_corrected_errors_that_began_in_the_last_minute() -> None:
    errors = [3.0 + max(0, n - 560) for n in range(600)]
    (found,) = find_anomalies([gpu(Random(1), ecc_corrected=errors)])
    assert found.reason == "39 memory errors were corrected within 1 min"


def test_a_gpu_that_the_waiting_program_does_not_use_is_not_starved() -> None:
    r, fallen = Random(1), [0.95 if n < 450 else 0.0 for n in range(600)]
    tasks: dict[str, Any] = {"tasks_waiting": 50.0, "tasks_finished": [2.0 * n for n in range(600)]}
    others = [gpu(r), gpu(r, 1, utilization_ratio=fallen)]
    assert rules(*others, process(**tasks, uses__GPU_0=1.0)) == set()
    assert rules(*others, process(**tasks, uses__GPU_1=1.0)) == {"starved_device"}


def test_a_spike_hides_no_leak() -> None:
    used = [20 * GIB + n * 0.02 * GIB + (30 * GIB if n == 50 else 0) for n in range(600)]
    assert rules(gpu(Random(1), memory_used_bytes=used)) == {"memory_growth"}


def test_a_queue_with_a_steady_beat_is_stalled_sooner() -> None:
    beat = [float(min(n, 500) // 40) for n in range(600)]  # still for 119 s
    assert rules(process(tasks_waiting=5.0, tasks_finished=beat)) == {"stalled_queue"}
    r, uneven, done = Random(2), [], 0.0
    for n in range(600):
        done += n < 500 and (r.random() < 0.1 or n == 40) and not 40 < n < 100
        uneven.append(done)
    assert rules(process(tasks_waiting=5.0, tasks_finished=uneven)) == set()


def test_a_device_is_slow_only_beyond_what_its_equals_differ_by() -> None:
    r = Random(3)

    def clocks(*ratios: float) -> set[str]:
        return rules(*(gpu(r, n, core_clock_hertz=1.7e9 * x) for n, x in enumerate(ratios)))

    assert clocks(0.93, 1.0, 1.001, 0.999) == {"slow_device"}
    assert clocks(0.93, 0.96, 1.0, 1.02) == set()
    assert clocks(0.93, 1.0) == set()
    assert clocks(0.88, 0.96, 1.0, 1.02) == {"slow_device"}


def test_each_rule_has_a_scene_for_it_and_one_against_it() -> None:
    spoken = {rule for _, expected in SCENES.values() for rule in expected}
    assert spoken == set(registry.names(RULES))
    assert any(not expected for _, expected in SCENES.values())


@given(st.dictionaries(st.sampled_from([
    "memory_used_bytes", "memory_total_bytes", "temperature_celsius", "utilization_ratio",
    "link_width", "link_width_max", "tasks_waiting", "tasks_finished", "ecc_corrected",
    "core_clock_hertz", "core_clock_max_hertz", "throttle_reasons:temperature", "xids:79",
]), st.lists(NUMBER, max_size=40)), st.sampled_from([1, 15, 60]))  # fmt: skip
def test_no_rule_fails_whatever_is_read(series: dict[str, list[float]], every: int) -> None:
    timed = {name: [(n * every, v) for n, v in enumerate(found)] for name, found in series.items()}
    for anomaly in find_anomalies([Subject("GPU 0", "gpu", "X", timed)] * 2):
        assert "the rule failed" not in anomaly.reason


@given(st.lists(st.floats(0, 1), min_size=20, max_size=20), st.integers(0, 2**40))
def test_memory_that_returns_to_its_floor_does_not_grow(noise: list[float], floor: int) -> None:
    used = [(n, floor + (0 if n % 10 == 0 else 2**30 * noise[n % 20])) for n in range(600)]
    series = {"memory_used_bytes": used, "memory_total_bytes": [(0, TOTAL)]}
    assert not find_anomalies([Subject("GPU 0", "gpu", "", series)])


def test_a_rule_that_fails_is_shown_and_hides_no_other() -> None:
    broken = ModuleType("rules.broken")
    broken.find = lambda subjects: 1 / 0  # type: ignore[attr-defined]
    rules = [broken, *registry.load(RULES).modules.values()]
    found = find_anomalies(SCENES["a_steady_leak"][0](Random(1)), rules)
    assert {anomaly.rule for anomaly in found} == {"broken", "memory_growth"}
    assert "ZeroDivisionError" in next(a.reason for a in found if a.rule == "broken")


def test_errors_come_first() -> None:
    subjects = SCENES["a_steady_leak"][0](Random(1))
    lost = SCENES["a_gpu_that_fell_off_the_bus"][0](Random(1))
    assert [a.state for a in find_anomalies([*subjects, *lost])] == ["error", "warning"]


def leak(rate_per_minute: float, *, noise: float = 0.0, seed: int = 3) -> Anomaly:
    r = Random(seed)
    used = [20 * GIB + n * rate_per_minute / 60 + r.gauss(0, noise) for n in range(600)]
    (found,) = find_anomalies([gpu(r, memory_used_bytes=used)])
    return found


def test_the_forecast_says_when_memory_is_full() -> None:
    found = leak(4 * GIB)  # 20 GiB left after ten minutes: five more
    assert found.forecast is not None
    assert found.forecast.seconds == pytest.approx(300, rel=0.02)
    assert "memory full in about 5 minutes (between 5 and 5)" in found.reason
    noisy = leak(4 * GIB, noise=0.5 * GIB).forecast
    assert noisy is not None
    assert noisy.earliest_seconds < 300 < noisy.latest_seconds
    assert noisy.latest_seconds - noisy.earliest_seconds > 10


def test_memory_that_is_full_next_week_has_no_forecast() -> None:
    slow = leak(0.1 * GIB)
    assert slow.forecast is not None  # ten hours
    used = [(n * 60.0, TOTAL / 2 + n * 0.001 * GIB) for n in range(3000)]
    series = {"memory_used_bytes": used, "memory_total_bytes": [(0, TOTAL)]}
    (found,) = find_anomalies([Subject("GPU 0", "gpu", "", series)])
    assert found.forecast is None
    assert "full" not in found.reason


def test_a_forecast_holds_for_growth_in_bursts() -> None:
    """Nine times in ten is meant; from scatter without its memory it was eight."""
    held = told = 0
    for seed in range(100):
        used = []
        for level in bursts(Random(f"a test {seed}")):
            if level >= TOTAL:
                break
            used.append(level)
        truth = len(used) - 600
        if truth < 30:
            continue
        found = drift([(float(n), v) for n, v in enumerate(used[:600])], at_least_seconds=300)
        if found is not None and found.surely and found.continuing:
            forecast = found.until(TOTAL)
            told += 1
            held += forecast.earliest_seconds <= truth <= forecast.latest_seconds
    assert told > 80
    assert held >= 0.88 * told, (held, told)


def moved(values: list[float]) -> Drift:
    found = drift([(n * 10.0, v) for n, v in enumerate(values)], at_least_seconds=100)
    assert found is not None
    return found


def test_a_forecast_may_be_never() -> None:
    flat = moved([5.0] * 40).until(9.0)
    assert flat.seconds == flat.latest_seconds == math.inf
    assert moved([9.0] * 40).until(9.0).seconds == 0
    assert "never" in str(flat)


def test_a_series_with_a_hole_says_nothing() -> None:
    early, late = [(n, float(n)) for n in range(50)], [(n, float(n)) for n in range(500, 550)]
    assert drift(early + late, at_least_seconds=100) is None
    assert drift([], at_least_seconds=0) is None
