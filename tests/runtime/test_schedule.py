"""The queue's rules, on a clock that the test sets."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.errors import DeviceOutOfMemory, InvalidSettings
from gpuforge.runtime.executor.arrivals import Arrivals
from gpuforge.runtime.executor.lane import Batch, Lane
from gpuforge.runtime.executor.queue import AGE_SECONDS
from gpuforge.runtime.executor.quota import Quota
from gpuforge.runtime.executor.schedule import Schedule
from gpuforge.runtime.executor.task import Task, Terms


def task(
    lane: str | tuple[str, ...] = "cpu", priority: int = 0, group: Any = None, memory: int = 0,
    kind: Any = "kind",
) -> Task:  # fmt: skip
    made = Task(print, (), {}, Terms(priority=priority, memory=memory))
    made.lanes = (lane,) if isinstance(lane, str) else lane
    made.group, made.kind = (group, priority) if group else None, kind
    return made


def run_all(schedule: Schedule, lane: Lane, seconds: float = 1.0, now: float = 0.0) -> list[Task]:
    order: list[Task] = []
    while isinstance(batch := schedule.take(lane, now), Batch):
        order += batch.tasks
        now += seconds
        schedule.finish(batch, seconds)
    return order


@given(st.lists(st.integers(-3, 3), max_size=40))
def test_higher_priority_first_and_first_in_first_out_within_one(priorities: list[int]) -> None:
    lane = Lane("cpu")
    schedule = Schedule([lane])
    tasks = [task(priority=priority) for priority in priorities]
    for each in tasks:
        schedule.add(each, 0.0)
    assert run_all(schedule, lane) == sorted(tasks, key=lambda one: -one.terms.priority)


def test_a_task_of_low_priority_does_not_wait_for_ever() -> None:
    lane = Lane("cpu")
    schedule = Schedule([lane])
    low = task(priority=0)
    schedule.add(low, 0.0)
    for second in range(1000):  # there is always one of higher priority, new each second
        schedule.add(task(priority=2), float(second))
        batch = schedule.take(lane, float(second))
        assert isinstance(batch, Batch)
        schedule.finish(batch, 1.0)
        if batch.tasks == [low]:
            break
    assert second == 2 * AGE_SECONDS


def test_no_task_overtakes_one_that_waits_for_memory() -> None:
    lane = Lane("cpu", width=2)
    lane.restrict(Quota(memory=100, concurrency=2))
    schedule = Schedule([lane])
    first, large, small = task(memory=60), task(memory=80, priority=1), task(memory=10)
    schedule.add(first, 0.0)
    batch = schedule.take(lane, 0.0)
    assert isinstance(batch, Batch)
    schedule.add(large, 1.0)
    schedule.add(small, 2.0)
    assert schedule.take(lane, 3.0) is None  # small would fit, and keep large waiting
    schedule.finish(batch, 4.0)
    assert run_all(schedule, lane) == [large, small]


def test_what_can_never_fit_is_refused() -> None:
    lane = Lane("cpu")
    lane.restrict(Quota(memory="1KiB"))
    schedule = Schedule([lane])
    with pytest.raises(DeviceOutOfMemory, match=r"needs 1\.17 KiB.*may use 1 KiB together"):
        schedule.check(task(memory=1200))
    schedule.check(task(memory=1024))


def test_concurrency_and_memory_are_never_exceeded() -> None:
    rng = random.Random(3)
    lane = Lane("cpu")
    lane.restrict(Quota(memory=1000, concurrency=3))
    schedule = Schedule([lane])
    running: list[Batch] = []
    now, ended = 0.0, 0
    for number in range(400):
        if number < 200:
            schedule.add(task(memory=rng.randrange(0, 1001), group="g"), now)
        while isinstance(batch := schedule.take(lane, now), Batch):
            running.append(batch)
        assert len(running) <= 3
        assert sum(one.need_bytes for batch in running for one in batch.tasks) <= 1000
        now += 1.0
        if running:
            done = running.pop(rng.randrange(len(running)))
            schedule.finish(done, 1.0)
            ended += len(done.tasks)
    assert ended == 200
    assert lane.used_bytes == 0


class TestCoalescing:
    def learned(self, fixed: float, each: float, gap: float = 1e-3) -> tuple[Schedule, Lane]:
        """Return a schedule that has seen batches of one signature at a fast pace."""
        lane = Lane("cpu")
        schedule = Schedule([lane], latency=10e-3)
        now = 0.0
        for size in (1, 1, 1, *range(2, 12), *range(2, 60)):
            for _ in range(size):
                now += gap
                schedule.add(task(group="g"), now)
            while schedule.waiting:
                batch = schedule.take(lane, now + 100.0)  # no gap was ever so long: none waits
                assert isinstance(batch, Batch)
                schedule.finish(batch, fixed + each * len(batch.tasks))
        return schedule, lane

    def test_calls_that_wait_together_are_made_together_once_that_gains(self) -> None:
        schedule, lane = self.learned(fixed=1e-3, each=1e-5)
        for _ in range(20):
            schedule.add(task(group="g"), 1e6)
        batch = schedule.take(lane, 1e6 + 100.0)
        assert isinstance(batch, Batch)
        assert len(batch.tasks) == 20

    def test_calls_are_made_alone_where_together_they_take_as_long(self) -> None:
        schedule, lane = self.learned(fixed=0.0, each=1e-3)
        for _ in range(20):
            schedule.add(task(group="g"), 1e6)
        sizes = []
        while isinstance(batch := schedule.take(lane, 1e6 + 100.0), Batch):
            sizes.append(len(batch.tasks))
            schedule.finish(batch, 1e-3 * len(batch.tasks))
        assert max(sizes) <= 2
        assert sizes.count(1) > 15

    def test_a_call_waits_for_others_that_come_fast_and_not_when_idle(self) -> None:
        schedule, lane = self.learned(fixed=1e-3, each=1e-6, gap=1e-5)
        schedule.add(task(group="g"), 1000.0)
        until = schedule.take(lane, 1000.0)
        assert isinstance(until, float)
        assert 1000.0 < until < 1000.0001
        assert isinstance(schedule.take(lane, until), Batch)  # nobody came
        idle = Arrivals()
        for second in range(20):
            idle.add(float(second))
        assert idle.wait_seconds(19.0, 1, fixed=0.5, each=0.0) == 0.0

    def test_no_call_waits_longer_than_the_latency(self) -> None:
        schedule, lane = self.learned(fixed=10e-3, each=0.0, gap=1e-3)
        schedule.latency = 0.25e-3
        schedule.add(task(group="g"), 1e6)
        assert schedule.take(lane, 1e6) == 1e6 + 0.25e-3

    def test_a_lane_that_has_something_else_to_do_waits_for_nobody(self) -> None:
        schedule, lane = self.learned(fixed=1e-3, each=1e-6, gap=1e-5)
        schedule.add(task(group="g"), 1000.0)
        schedule.add(task(), 1000.0)
        assert isinstance(schedule.take(lane, 1000.0), Batch)

    def test_a_batch_holds_one_priority_and_one_context(self) -> None:
        from contextvars import ContextVar, copy_context

        schedule, lane = self.learned(fixed=1e-3, each=1e-6)
        variable: ContextVar[int] = ContextVar("variable", default=0)
        same = [task(group="g") for _ in range(3)]
        for one in same:
            one.context = copy_context()
        variable.set(1)
        other, urgent = task(group="g"), task(group="g", priority=1)
        other.context, urgent.context = copy_context(), copy_context()
        for one in (*same, other, urgent):
            schedule.add(one, 1e6)
        made = [schedule.take(lane, 1e6 + 100.0)]
        assert isinstance(made[0], Batch)
        assert made[0].tasks == [urgent]
        schedule.finish(made[0], 1.0)
        second = schedule.take(lane, 1e6 + 100.0)
        assert isinstance(second, Batch)
        assert second.tasks == same


class TestSeveralDevices:
    def simulate(
        self, speeds: dict[str, float], shares: dict[str, float], tasks: int = 400,
        kinds: int = 3,
    ) -> tuple[dict[str, float], float, Schedule]:  # fmt: skip
        """Return the busy seconds of each lane, and when the last task ended."""
        lanes = [Lane(name) for name in speeds]
        for lane in lanes:
            lane.restrict(Quota(share=shares.get(lane.name, 1.0)))
        schedule = Schedule(lanes)
        names = tuple(speeds)
        for number in range(tasks):
            schedule.add(task(names, kind=number % kinds), 0.0)
        running: dict[str, tuple[float, Batch]] = {}
        now, last = 0.0, 0.0
        while schedule.waiting or running:
            asked = [end for end, _ in running.values()]
            for lane in lanes:
                got = None if lane.name in running else schedule.take(lane, now)
                if isinstance(got, Batch):
                    number = got.tasks[0].kind
                    running[lane.name] = now + (1 + number) * speeds[lane.name], got
                    asked.append(running[lane.name][0])
                elif got is not None:
                    asked.append(got)
            now = min(asked)
            for name, (end, batch) in list(running.items()):
                if end <= now:
                    schedule.finish(batch, end - batch.started_at)
                    del running[name]
                    last = end
        return {lane.name: lane.busy_seconds for lane in lanes}, last, schedule

    @pytest.mark.parametrize("slower", [1.0, 1.5, 4.0])
    def test_devices_are_busy_for_about_as_long(self, slower: float) -> None:
        busy, last, schedule = self.simulate({"a": 1.0, "b": slower}, {})
        assert abs(busy["a"] - busy["b"]) <= 0.1 * max(busy.values())
        work = 400 * 2 / (1 + 1 / slower)  # what both would take at their speeds, without a rest
        assert last <= 1.05 * work
        assert sum(lane.calls for lane in schedule.lanes.values()) == 400

    def test_a_device_that_never_pays_is_left_alone(self) -> None:
        _, _, schedule = self.simulate({"a": 1.0, "b": 1000.0}, {}, tasks=60)
        assert schedule.lanes["b"].calls <= 3  # it was tried once with each kind

    def test_a_share_of_a_device_holds(self) -> None:
        busy, last, _ = self.simulate({"a": 1.0, "b": 1.0}, {"a": 0.8})
        assert abs(busy["a"] / last - 0.8) <= 0.05
        assert busy["b"] / last >= 0.95

    def test_a_share_of_the_only_device_holds(self) -> None:
        busy, last, _ = self.simulate({"a": 0.001}, {"a": 0.8})
        assert abs(busy["a"] / last - 0.8) <= 0.05


@pytest.mark.parametrize(
    "bad", [{"memory": "5 bananas"}, {"concurrency": 0}, {"concurrency": 1.5}, {"share": 0},
            {"share": 80}, {"share": "much"}],
)  # fmt: skip
def test_a_quota_that_means_nothing_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings):
        Quota(**bad)


@given(st.lists(st.floats(1e-6, 1e3) | st.none(), min_size=2, max_size=2), st.floats(0, 1e3))
def test_of_two_idle_lanes_one_takes_what_waits(seconds: list[float | None], mean: float) -> None:
    lanes = [Lane("a"), Lane("b", mean_seconds=mean)]
    schedule = Schedule(lanes)
    waiting = task(("a", "b"))
    for lane, known in zip(lanes, seconds, strict=True):
        if known is not None:
            schedule.learn(waiting, lane, known)
    schedule.add(waiting, 0.0)
    taken = []
    for lane in lanes:
        found = schedule.take(lane, 0.0)
        taken.append(isinstance(found, Batch))
        left = schedule.left_to
        assert left == (set() if taken[-1] or any(taken) else {"b" if lane.name == "a" else "a"})
    assert sum(taken) == 1
