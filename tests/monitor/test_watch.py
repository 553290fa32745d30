"""Samples become series: bounded, without what is unknown, without who has gone."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from gpuforge.facts import NOT_SHOWN
from gpuforge.monitor.anomaly import find_anomalies
from gpuforge.monitor.series import Series, Subject
from gpuforge.monitor.watch import KEPT_SECONDS, Watch
from tests.monitor import made
from tests.monitor.made_sample import GIB, sample


def watched(*seconds: int, programs: int = 2) -> Watch:
    watch = Watch()
    for n in seconds:
        watch.add(sample(n, taken_at=1e9 + n, programs=programs))
    return watch


def of(watch: Watch, name: str) -> dict[str, Series]:
    (found,) = [subject for subject in watch.subjects() if subject.name == name]
    return dict(found.series)


def test_a_subject_for_the_host_each_device_and_each_program() -> None:
    subjects = watched(1, 2).subjects()
    assert [(s.name, s.kind) for s in subjects] == [
        ("host", "host"), ("GPU 0", "gpu"), ("GPU 1", "gpu"),
        ("process 4711", "process"), ("process 4712", "process"),
    ]  # fmt: skip
    host, device, *_ = subjects
    assert host.series["memory_used_bytes"] == [(1e9 + 1, 38 * GIB), (1e9 + 2, 38 * GIB)]
    assert "cpu_pressure_ratio" not in host.series
    assert device.model == "NVIDIA H100 80GB"
    assert of(watched(5), "process 4711")["tasks_finished"] == [(1e9 + 5, 35.0)]
    uses = [[name for name in one.series if name.startswith("uses:")] for one in subjects]
    assert uses == [[], [], [], ["uses:GPU 0", "uses:GPU 1"], []]


def test_only_the_last_minutes_are_kept() -> None:
    watch = watched(*range(0, 2000, 10))
    assert watch.moments[-1] - watch.moments[0] == KEPT_SECONDS
    for subject in watch.subjects():
        for name, series in subject.series.items():
            assert len(series) <= len(watch.moments), name
            assert series[0][0] >= watch.moments[0], name


def test_who_is_gone_is_forgotten() -> None:
    watch = watched(1, 2)
    watch.add(sample(3, taken_at=1e9 + 3, programs=1))
    assert "process 4712" not in {subject.name for subject in watch.subjects()}
    watch.add(sample(4, taken_at=1e9 + 4))
    assert of(watch, "process 4712")["tasks_waiting"] == [(1e9 + 4, 4.0)]


def test_a_word_that_comes_up_was_not_there_before() -> None:
    watch = watched(299, 300, 301, 302)
    assert [v for _, v in of(watch, "GPU 1")["xids:79"]] == [0.0, 0.0, 1.0, 1.0]
    assert "xids:79" not in of(watch, "GPU 0")
    free = replace(sample(303).devices[1], throttle_reasons=())
    unknown = replace(free, throttle_reasons=NOT_SHOWN)
    for n, device in ((303, free), (304, unknown)):
        watch.add(replace(sample(n, taken_at=1e9 + n), devices=(sample(n).devices[0], device)))
    held = of(watch, "GPU 1")["throttle_reasons:temperature"]
    assert held == [(1e9 + n, 1.0) for n in (299, 300, 301, 302)] + [(1e9 + 303, 0.0)]
    assert watch.throttled_seconds == {("1", "temperature"): 3.0}


def test_the_newest_values_alone() -> None:
    watch = watched(1, 2, 3)
    for whole, last in zip(watch.subjects(), watch.subjects(newest=True), strict=True):
        assert isinstance(last, Subject)
        assert {n: [s[-1]] for n, s in whole.series.items()} == dict(last.series)


def test_a_number_that_is_none_leaves_a_hole() -> None:
    watch = watched(1)
    odd = replace(sample(2).devices[0], power_watts=float("nan"))
    watch.add(replace(sample(2, taken_at=1e9 + 2), devices=(odd, sample(2).devices[1])))
    assert len(of(watch, "GPU 0")["power_watts"]) == 1


def watched_queue(*finished: tuple[float, int]) -> Watch:
    """Return what was seen of a queue: when, and how many of its tasks had finished."""
    watch = Watch()
    for seconds, done in finished:
        seen = (made.process(done=done, queued=3),)
        device = made.gpu(throttle_reasons=("temperature",))
        watch.add(made.sample((device,), seen, at=1e9 + seconds))
    return watch


def stalls(watch: Watch) -> list[str]:
    return [
        one.reason
        for one in find_anomalies(watch.subjects(unbroken=True))
        if one.rule == "stalled_queue"
    ]


@pytest.mark.parametrize("slept", [180, 500])
def test_time_in_which_the_machine_slept_does_not_count(slept: int) -> None:
    before = [(n, n // 3) for n in range(60)]
    awake = [(n + slept, 59 // 3) for n in range(60, 140)]
    assert not stalls(watched_queue(*before, *awake[:3]))
    watch = watched_queue(*before, *awake)
    assert stalls(watch) == ["no task has finished for 82 s, with 3 waiting"]
    assert watch.throttled_seconds == {("0", "temperature"): 139.0}
    host = next(one for one in watch.subjects() if one.name == "host")
    gap = [b - a for (a, _), (b, _) in pairwise(host.series["utilization_ratio"])]
    assert max(gap) == slept + 1  # the charts show it


def test_readings_that_are_seldom_or_late_are_no_break() -> None:
    watch = watched_queue(*((60 * n, n) for n in range(5)), (500, 5))
    assert watch.subjects(unbroken=True) == watch.subjects()
    watch = watched_queue(*((n, n) for n in range(60)), (73, 60))
    assert watch.subjects(unbroken=True) == watch.subjects()


def test_a_small_step_back_of_the_clock_loses_nothing() -> None:
    watch = watched_queue(*((n, n) for n in range(60)), *((n - 3, n) for n in range(60, 90)))
    assert list(watch.moments) == [1e9 + n for n in range(87)]


def test_a_clock_that_is_set_back_begins_anew() -> None:
    watch = watched_queue(*((n, n) for n in range(60)), *((n - 3600, n) for n in range(60, 90)))
    assert list(watch.moments) == [1e9 + n - 3600 for n in range(60, 90)]
    assert watch.throttled_seconds == {("0", "temperature"): 59.0 + 29.0}
    assert not stalls(watch)
