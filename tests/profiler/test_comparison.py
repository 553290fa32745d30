"""Verdicts on two things: the order of measuring, false alarms and power on a noisy machine."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from types import CellType, FunctionType
from typing import Any

import pytest

from gpuforge.profiler.bench.worker import NotABenchmark
from gpuforge.profiler.compare import Comparison, compare, interleaved
from gpuforge.profiler.compare.comparison import judge
from gpuforge.profiler.compare.interleaved import Rounds


class NoisyMachine:
    """A processor that halves its speed at random for a while, and now and then takes a break."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.slow = 1.0

    def time(self, seconds: float) -> float:
        if self.random.random() < 0.02:
            self.slow = self.random.choice((1.0, 1.0, 1.5, 2.0))
        pause = 30.0 if self.random.random() < 0.01 else 1.0
        return seconds * self.slow * pause * (1 + abs(self.random.gauss(0, 0.05)))


def contest(seed: int, ratio: float, count: int = 60) -> Comparison:
    machine, rounds = NoisyMachine(seed), Rounds()
    while len(rounds.logs) < count:
        rounds.add(lambda side: [machine.time(ratio if side else 1.0)], turns=8)
    return rounds.verdict(0.02)


def test_a_thing_beside_itself_raises_no_alarm() -> None:
    verdicts = [contest(seed, 1.0).verdict for seed in range(200)]
    assert sum(verdict in ("faster", "slower") for verdict in verdicts) <= 2
    assert verdicts.count("same") > 150


@pytest.mark.parametrize(("ratio", "expected"), [(1.05, "slower"), (1 / 1.05, "faster")])
def test_five_percent_are_found(ratio: float, expected: str) -> None:
    verdicts = [contest(1000 + seed, ratio).verdict for seed in range(50)]
    assert verdicts.count(expected) >= 40


def test_the_sides_are_timed_in_the_order_abba_and_its_mirror_image() -> None:
    order: list[int] = []

    def time(side: int) -> list[float]:
        order.append(side)
        return [1.0]

    rounds = Rounds()
    rounds.add(time, turns=2)
    rounds.add(time, turns=1)
    assert order == [0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1]
    assert rounds.logs == [0.0, 0.0] and rounds.times == ([1.0, 1.0], [1.0, 1.0])


def verdict(logs: list[float]) -> tuple[str, str]:
    times = [1e-3] * len(logs)
    found = judge(logs, times, times)
    return found.verdict, found.reason


def test_verdicts() -> None:
    assert verdict([0.05] * 12) == ("slower", "")
    assert verdict([-0.05] * 12) == ("faster", "")
    assert verdict([0.001, -0.001] * 10) == ("same", "")
    assert verdict([0.01] * 12) == ("same", "")  # proven, and less than what counts
    assert verdict([0.05] * 9) == ("inconclusive", "9 of the 10 rounds that are needed")
    assert verdict([0.3, -0.3, 0.2, -0.2] * 5)[1] == "the times vary more than the change"
    assert verdict([0.022, 0.037] * 10)[0] == "inconclusive"


def test_enough_is_measured_once_the_change_is_known() -> None:
    rounds = Rounds()
    rounds.logs.extend([0.001, -0.001] * 4)
    assert not rounds.are_enough(0.02)
    rounds.logs.extend([0.001, -0.001])
    assert rounds.are_enough(0.02) and not rounds.are_enough(0.001)
    values = random.Random(1)
    rounds.logs.extend(values.gauss(0, 0.3) for _ in range(200))
    assert not rounds.are_enough(0.0001)
    rounds.logs.extend(values.gauss(0, 0.3) for _ in range(200))
    assert rounds.are_enough(0.0001)  # too many to go on


def steps(count: int) -> Callable[[], int]:
    def run() -> int:
        return sum(number * number for number in range(count))

    return run


def test_callables_of_this_process() -> None:
    found = compare(steps(100), steps(1000), seconds=20)
    assert found.verdict == "slower" and found.change.low > 2 and found.delta > 0.9
    assert str(found).startswith("slower  ")
    assert compare(steps(1000), steps(100), seconds=20).verdict == "faster"


def test_what_cannot_be_called_is_refused() -> None:
    async def later() -> None: ...

    with pytest.raises(NotABenchmark, match="does not run its body"):
        compare(later, later)
    with pytest.raises(NotABenchmark, match="missing a required argument: 'text'"):
        compare(lambda text: text, steps(1))  # type: ignore[arg-type,misc]


class Places:
    """A machine on which what is made first is 5 % slower than what is made after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        self.seconds: dict[int, float] = {}
        self.now = 0.0
        monkeypatch.setattr(interleaved, "block", self.block)
        monkeypatch.setattr(interleaved, "warm_up", lambda function: None)
        monkeypatch.setattr(interleaved, "plan", lambda function: (1, 1))
        monkeypatch.setattr(interleaved, "perf_counter", lambda: self.now)

    def maker(self, seconds: float) -> Callable[[], Callable[[], int]]:
        def make() -> Callable[[], int]:
            self.made += 1
            number = self.made
            self.seconds[number] = seconds * (1.05 if number % 2 else 1.0)
            return lambda: number

        return make

    def block(self, function: Callable[[], int], loops: int, samples: int) -> list[float]:
        self.now += self.seconds[function()]
        return [self.seconds[function()] * random.uniform(1, 1.002)] * samples


def test_where_data_lies_is_averaged_over_what_is_made_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = Places(monkeypatch)
    pair = [places.maker(1e-3)(), places.maker(1e-3)()]
    assert compare(*pair, seconds=1).verdict == "faster"  # what it is here, and is not elsewhere
    verdicts = {
        seconds: [
            compare(places.maker(1e-3), places.maker(seconds), seconds=8, remake=True).verdict
            for _ in range(40)
        ]
        for seconds in (1e-3, 1.1e-3)
    }
    assert verdicts[1e-3].count("same") >= 39
    assert verdicts[1.1e-3].count("slower") >= 39


class Holder:
    def __init__(self) -> None:
        self.values = list(range(100))

    def run(self) -> int:
        return sum(self.values)


SHARED = list(range(100))


def in_a_closure(values: list[int]) -> Callable[[], int]:
    return lambda: sum(values)


def by_a_name(values: list[int]) -> Callable[[], int]:
    function: Callable[[], int] = eval("lambda: sum(held)", {"held": values})
    return function


def deeper(values: list[int]) -> Callable[[], int]:
    held = in_a_closure(values)
    return lambda: held()


HOLDING: list[Callable[[list[int]], Callable[[], int]]] = [
    in_a_closure,
    by_a_name,
    deeper,
    lambda values: lambda data=values: sum(data),  # type: ignore[misc]
    lambda values: partial(sum, values),
    lambda values: values.copy,  # type: ignore[return-value]
]


@pytest.mark.parametrize("hold", HOLDING)
def test_data_of_its_own_is_no_proof_of_a_small_change(
    hold: Callable[[list[int]], Callable[[], int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(10**9))

    def block(function: Callable[[], Any], loops: int, samples: int) -> list[float]:
        return [float(len(list(function()) if hold is HOLDING[-1] else range(function())))]

    monkeypatch.setattr(interleaved, "block", block)
    monkeypatch.setattr(interleaved, "plan", lambda function: (1, 1))
    monkeypatch.setattr(interleaved, "perf_counter", lambda: next(now))
    more, twice = [*range(102), 0], list(range(200))
    for other in (SHARED[:], more):
        found = compare(hold(SHARED), hold(other), seconds=20)
        assert found.verdict == "inconclusive" and "see remake=" in found.reason
    assert compare(hold(SHARED), hold(SHARED), seconds=20).verdict == "same"
    assert compare(hold(SHARED), hold(twice), seconds=20).verdict == "slower"


def test_objects_hold_data_and_recursion_ends() -> None:
    held = interleaved._held_data
    assert held(Holder().run) != held(Holder().run)

    def again() -> Any:
        return again, SHARED

    assert held(again) == {id(SHARED)}
    assert held(FunctionType(in_a_closure(SHARED).__code__, {}, "f", None, (CellType(),))) == set()


def test_what_cannot_be_made_into_a_benchmark_is_refused() -> None:
    with pytest.raises(NotABenchmark, match="not a callable object"):
        compare(lambda: 1, lambda: 2, remake=True)
