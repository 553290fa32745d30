"""Calls so short that most of them are made without being looked at."""

from __future__ import annotations

import threading
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.runtime import record
from gpuforge.runtime.execution import pipeline
from gpuforge.runtime.function.numbers import VALUES
from gpuforge.runtime.offload import Offloaded
from gpuforge.runtime.placement.account import Account
from gpuforge.runtime.placement.policy import FEW_SIGNATURES
from gpuforge.runtime.record import LONG_SECONDS, MANY, WAIT_SECONDS
from gpuforge.runtime.short import INSPECT_EVERY, ShortCalls

CALLS = 5_000
SMALL = np.arange(4.0)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The shapes of calls that came to the way of calls that are considered."""
    seen: list[int] = []
    considered = Offloaded._considered

    def noted(self: Any, args: Any, kwargs: Any) -> Any:
        seen.append(args[0].size)
        return considered(self, args, kwargs)

    monkeypatch.setattr(Offloaded, "_considered", noted)
    return seen


def make_short(placed: Any) -> None:
    """Call until the calls are found short, which one that was held up ends for a time."""
    for _ in range(100):
        for _ in range(CALLS):
            placed(SMALL)
        if placed._short is not None:
            return
    pytest.fail("the calls were never found short")


def double(x: Any) -> Any:
    return x + x


def test_every_call_is_counted_and_few_are_considered(
    quiet_session: Any, looked_at: list[int]
) -> None:
    for _ in range(10):  # a call that is held up ends it for a time
        placed = gf.offload(double)
        looked_at.clear()
        for _ in range(CALLS):
            placed(SMALL)
        assert placed.stats().counts["numpy"].calls == CALLS
        if placed._short is not None:
            break
    assert placed._short is not None
    assert len(looked_at) < CALLS / INSPECT_EVERY
    placed(SMALL)
    assert placed.stats().counts["numpy"].calls == CALLS + 1


def test_calls_without_an_array_are_counted_and_few_are_considered(
    quiet_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    considered = Offloaded._considered
    monkeypatch.setattr(
        Offloaded, "_considered", lambda *call: seen.append(call) or considered(*call)
    )
    placed = gf.offload(double)
    for number in range(CALLS):
        assert placed(float(number)) == 2.0 * number
    assert len(seen) < CALLS / INSPECT_EVERY + 2
    assert placed.stats().as_written == {"no NumPy array among the arguments": CALLS}
    assert not placed.stats().counts
    assert placed("ab") == "abab"  # of another type
    assert np.array_equal(placed(SMALL), double(SMALL))
    assert placed.stats().counts["numpy"].calls == 1
    assert placed.stats().as_written == {"no NumPy array among the arguments": CALLS + 1}


def test_calls_without_an_array_are_seen_once_somebody_traces(quiet_session: Any) -> None:
    placed = gf.offload(double)
    for number in range(CALLS):
        placed(number)
    with gf.profile() as profile:
        for number in range(3):
            placed(number)
    assert sum(one.count for one in profile.bottlenecks(50) if "double" in one.path[-1]) == 3
    assert placed.stats().as_written == {"no NumPy array among the arguments": CALLS + 3}


def test_calls_without_an_array_of_functions_that_are_gone_are_counted(quiet_session: Any) -> None:
    for _ in range(200):
        placed = gf.offload(lambda x: x * 2.0)
        for number in range(130):
            placed(number)
        del placed
    every = quiet_session.functions.every()
    for one in every:
        one.count_held()
    assert sum(sum(one.as_written.values()) for one in every) == 200 * 130


def test_maps_over_a_few_short_calls_are_counted_and_few_are_considered(
    quiet_session: Any, looked_at: list[int]
) -> None:
    placed = gf.offload(double)
    for _ in range(CALLS):
        placed(SMALL)
    before = len(looked_at)
    for _ in range(CALLS):
        found = placed.map([SMALL, SMALL, SMALL])
    assert [one.tolist() for one in found] == 3 * [[0.0, 2.0, 4.0, 6.0]]
    assert placed.stats().counts["numpy"].calls == 4 * CALLS
    assert len(looked_at) - before < CALLS / INSPECT_EVERY
    placed.map([SMALL, np.arange(5.0), SMALL])
    assert looked_at[-1] == 5
    assert placed.map([]) == []


@pytest.mark.parametrize("ending", [ValueError, StopIteration, KeyboardInterrupt])
def test_a_map_over_a_few_short_calls_says_where_it_ended(
    ending: type[BaseException], quiet_session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = [False]

    def ending_function(x: Any) -> Any:
        if ends[0] and x[0]:
            raise ending
        return x + x

    placed = gf.offload(ending_function, pure=False)
    make_short(placed)
    ends[0] = True
    for _ in range(INSPECT_EVERY + 1):
        with pytest.raises(ending) as raised:
            placed.map([SMALL, SMALL + 1.0, SMALL])
        if ending is KeyboardInterrupt:
            assert "1 of 3" in capsys.readouterr().err
        else:
            assert raised.value.__notes__ == ["gpuforge: raised for item 1 of a map"]


@pytest.mark.parametrize(
    "other",
    [np.arange(5.0), np.arange(4.0, dtype=np.float32), np.ones((2, 2)), np.ma.arange(4.0)],
    ids=["length", "dtype", "axes", "type"],
)
def test_calls_of_another_kind_are_looked_at(
    other: Any, quiet_session: Any, looked_at: list[int]
) -> None:
    placed = gf.offload(double)
    for _ in range(CALLS):
        placed(SMALL)
    looked_at.clear()
    placed(other)
    assert looked_at == [other.size]


def test_calls_in_another_session_are_looked_at(quiet_session: Any, looked_at: list[int]) -> None:
    placed = gf.offload(double)
    for _ in range(CALLS):
        placed(SMALL)
    looked_at.clear()
    with gf.session(history=False):
        placed(SMALL)
        assert placed.stats().counts["numpy"].calls == 1
    assert looked_at == [4]


def test_calls_that_take_longer_from_some_time_on_are_soon_considered(
    quiet_session: Any, looked_at: list[int]
) -> None:
    rounds = [0]

    def work(x: Any) -> Any:
        return sum(range(rounds[0])) + x

    placed = gf.offload(work)
    for _ in range(CALLS):
        placed(SMALL)
    looked_at.clear()
    rounds[0] = 20_000
    for _ in range(2 * INSPECT_EVERY):
        placed(SMALL)
    assert placed._short is None
    for _ in range(pipeline.MAX_HELD):
        placed(SMALL)
    assert looked_at


def test_who_asks_after_each_call_takes_no_look(
    quiet_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = gf.offload(double)
    for _ in range(CALLS):
        placed(SMALL)
    seen: list[Any] = []
    timed = Offloaded._timed

    def noted(self: Any, *given: Any) -> Any:
        seen.append(given)
        return timed(self, *given)

    monkeypatch.setattr(Offloaded, "_timed", noted)
    for calls in range(1, 1 + 10 * INSPECT_EVERY):
        placed(SMALL)
        assert placed.stats().counts["numpy"].calls == CALLS + calls
    assert len(seen) >= 5


def test_calls_are_seen_once_somebody_traces(quiet_session: Any) -> None:
    placed = gf.offload(double)
    for _ in range(CALLS):
        placed(SMALL)
    with gf.profile() as profile:
        for _ in range(3):
            placed(SMALL)
    assert sum(one.count for one in profile.bottlenecks(50) if "double" in one.path[-1]) == 3


def test_a_choice_that_another_takes_the_place_of_is_not_followed(quiet_session: Any) -> None:
    """Two threads may consider calls of a kind at once: the last choice is the one that counts."""
    placed = gf.offload(double)
    make_short(placed)
    record = placed.stats()
    ((key, held),) = record.held.items()
    assert held.short is placed._short
    record.hold(key, type(held)(held.kind, "numpy", 1.0, 10))
    assert placed._short is None


def test_unseen_calls_are_counted_right_however_often_and_from_wherever() -> None:
    short = ShortCalls()
    seen = 0
    lock = threading.Lock()

    def call() -> None:
        nonlocal seen
        mine = sum(next(short.ticks) % INSPECT_EVERY == 0 for _ in range(CALLS))
        with lock:
            seen += mine

    taken = 0
    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        taken += short.take_skipped()
    for thread in threads:
        thread.join()
    taken += short.take_skipped()
    assert taken + seen == 4 * CALLS
    assert short.take_skipped() == 0


def test_held_calls_are_counted_at_what_they_took(quiet_session: Any) -> None:
    """Not at what the call took that was considered, in which more was done."""
    placed = gf.offload(double)
    for _ in range(CALLS):
        placed(SMALL)
    record = placed.stats()
    ((key, held),) = record.held.items()
    slow = type(held)(held.kind, "numpy", 1.0, 10)
    record.hold(key, slow)
    before = record.counts["numpy"].seconds
    slow.timed += [0.25, 0.75]
    slow.left -= 2
    record.count_held()
    assert record.counts["numpy"].seconds - before == pytest.approx(1.0)


def scaled(x: Any, by: Any, *, plus: Any = 0) -> Any:
    return x * by + plus


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((SMALL, 3), {}),
        ((SMALL, 2.0), {}),
        ((SMALL, SMALL), {}),
        ((SMALL, 2), {"plus": 1}),
        ((SMALL,), {"by": 2}),
        ((np.arange(5.0), 2), {}),
    ],
    ids=["value", "type", "array", "keyword more", "by keyword", "length"],
)
def test_other_arguments_beside_arrays_are_looked_at(
    args: Any, kwargs: Any, quiet_session: Any, looked_at: list[int]
) -> None:
    placed = gf.offload(scaled)
    for _ in range(CALLS):
        placed(SMALL, 2)
    looked_at.clear()
    np.testing.assert_array_equal(placed(*args, **kwargs), scaled(*args, **kwargs))
    assert len(looked_at) == 1


def test_calls_with_several_arguments_are_made_unseen(
    quiet_session: Any, looked_at: list[int]
) -> None:
    placed = gf.offload(scaled)
    for n in range(CALLS):
        placed(SMALL, 2.0, plus=float(n))  # numbers with a fraction count by their type
        placed(SMALL, SMALL)  # in turns with calls of another signature
    assert placed.stats().counts["numpy"].calls == 2 * CALLS
    assert len(looked_at) < 2 * CALLS / INSPECT_EVERY


def test_a_keyword_of_another_name_is_no_short_call() -> None:
    short = ShortCalls((SMALL,), {"by": 2})
    assert short.skip((SMALL,), {"by": 2}) is not False
    assert short.skip((SMALL,), {"plus": 2}) is False


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions of calls about which was decided."""
    found: list[str] = []
    place = pipeline.place

    def noted(call: Any) -> Any:
        found.append(call.function.name.rpartition(".")[2])
        return place(call)

    monkeypatch.setattr(pipeline, "place", noted)
    return found


@pytest.fixture
def never_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call is long, not even one that is held up."""
    monkeypatch.setattr(record, "LONG_SECONDS", 1e9)
    monkeypatch.setattr(record, "WAIT_SECONDS", 1e9)


class TestChangingShapes:
    """Deciding about a function costs no more than a share of its time, whatever its calls are."""

    @pytest.fixture(autouse=True)
    def at_once(self, quiet_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """What deciding may take in a session is used up."""
        monkeypatch.setattr(Account, "decides_too_long", True)

    def test_most_calls_run_as_written_and_are_counted(
        self, decided: list[str], looked_at: list[int], never_long: None
    ) -> None:
        placed = gf.offload(double)
        for n in range(CALLS):
            x = np.arange(1.0 + n % 500)
            assert np.array_equal(placed(x), x + x)
        found = placed.stats()
        assert found.counts["numpy"].calls == CALLS
        assert len(decided) < CALLS / 10 and len(looked_at) < CALLS / 4
        text = str(placed.explain(SMALL))
        assert not found.waits or "too large a share of their time" in text

    def test_one_that_gains_is_decided_about_again(self, decided: list[str]) -> None:
        pause = [0.0]

        @gf.offload
        def slept(x: Any) -> Any:
            sleep(pause[0])
            return x + 1

        for n in range(50):
            slept(np.arange(1.0 + n))
        assert slept.stats().waits_again
        pause[0] = 100 * LONG_SECONDS
        slept(np.arange(1e4))  # more elements than twice those of the calls before: inspected
        decided.clear()
        slept(np.arange(1e4))
        assert decided == ["slept"]

    def test_one_that_ran_elsewhere_does_not_wait(self, decided: list[str]) -> None:
        placed = gf.offload(double)
        placed.stats().add("elsewhere", 1, 1e-3)
        for n in range(100):
            placed(np.arange(1.0 + n))
        assert len(decided) == 100

    def test_long_calls_are_worth_their_decisions(self, decided: list[str]) -> None:
        @gf.offload
        def slept(x: Any) -> Any:
            sleep(0.05)
            return x + 1

        for n in range(FEW_SIGNATURES + 4):
            slept(np.arange(1.0 + n))
        assert len(decided) == FEW_SIGNATURES + 4

    def test_numbers_that_keep_changing_are_found_before(self) -> None:
        placed = gf.offload(lambda x, n: x + n)
        for n in range(2 * FEW_SIGNATURES):
            placed(SMALL, n)
        assert placed.stats().numbers.changing == {1}
        assert not placed.stats().waits and VALUES < FEW_SIGNATURES

    def test_few_signatures_are_worth_their_decisions(self, decided: list[str]) -> None:
        placed = gf.offload(double)
        for n in range(FEW_SIGNATURES):
            placed(np.arange(1.0 + n))
        assert len(decided) == FEW_SIGNATURES and not placed.stats().waits


def test_calls_alike_in_kind_and_size_are_covered() -> None:
    like = (SMALL, 2, 1.0)
    short = ShortCalls(like, {}, alike=False)
    for given in (like, (np.arange(8.0), 3, 2.0), (np.arange(0.0).reshape(0, 4), 0, -1.0)):
        assert short.fits(given, {})
        assert short.skip(given, {}) is not False
    for other in (
        (np.arange(9.0), 2, 1.0), (np.arange(4), 2, 1.0), (SMALL, True, 1.0), (SMALL, 2),
    ):  # fmt: skip
        assert not short.fits(other, {})
        assert short.skip(other, {}) is False
    assert not short.covers([SMALL])
    assert short.take_skipped() == 2


class TestManyFunctions:
    """In a program of many functions, short calls of the later ones wait for a decision."""

    def fill(self, decided: list[str]) -> list[Any]:
        made = [gf.offload(lambda x: x + 1) for _ in range(MANY + 1)]
        for one in made:
            one(SMALL)
        assert len(decided) in (MANY, MANY + 1)  # the last one of them waits itself
        decided.clear()
        return made

    def test_they_run_as_written_and_are_counted(
        self, quiet_session: Any, decided: list[str], never_long: None
    ) -> None:
        kept = self.fill(decided)
        placed = gf.offload(double)
        for _ in range(100):
            assert np.array_equal(placed(SMALL), SMALL + SMALL)
        assert placed.stats().counts["numpy"].calls == 100
        assert not decided and not placed.stats().kinds
        assert "too short so far" in str(placed.explain(SMALL)) and placed.stats().waits
        assert len(kept) > MANY

    def test_most_of_them_are_not_inspected(
        self, quiet_session: Any, decided: list[str], looked_at: list[int], never_long: None
    ) -> None:
        kept = self.fill(decided)
        placed = gf.offload(double)
        looked_at.clear()
        for _ in range(CALLS):
            placed(SMALL)
        assert placed.stats().counts["numpy"].calls == CALLS and placed.stats().waits
        assert len(looked_at) < CALLS / 4  # each call after one that is held up is inspected
        looked_at.clear()
        for _ in range(10):
            placed(np.arange(5.0))
        assert looked_at == [5] * 10
        assert placed.stats().counts["numpy"].calls == CALLS + 10
        assert not decided and len(kept) > MANY

    def test_all_are_decided_about_once_they_took_long(
        self, quiet_session: Any, decided: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(record, "LONG_SECONDS", 1e9)
        kept = self.fill(decided)
        placed = gf.offload(double)
        while placed.stats().waits:
            for _ in range(CALLS):
                placed(SMALL)
        waiting = placed.stats().waiting
        placed(SMALL)
        assert set(decided) == {"double"} and waiting is not None
        assert placed._short is not waiting
        assert len(kept) > MANY

    def test_one_long_call_or_many_short_ones_end_it(
        self, quiet_session: Any, decided: list[str]
    ) -> None:
        kept = self.fill(decided)

        @gf.offload
        def long(x: Any) -> Any:
            sleep(2 * LONG_SECONDS)
            return x

        @gf.offload
        def often(x: Any) -> Any:
            sleep(LONG_SECONDS / 4)
            return x

        for _ in range(3):
            long(SMALL)
        assert decided == ["long", "long"]
        for _ in range(int(5 * WAIT_SECONDS / LONG_SECONDS)):
            often(SMALL)
        assert "often" in decided
        assert long.stats().counts["numpy"].calls == 3
        assert len(kept) > MANY

    def test_a_pinned_function_and_one_that_was_measured_do_not_wait(
        self, tmp_path: Path, decided: list[str]
    ) -> None:
        pinned, known = gf.offload(backend="numpy")(double), gf.offload(double)
        with gf.session(cache_folder=str(tmp_path)):
            known(np.arange(5000.0))
        with gf.session(cache_folder=str(tmp_path)):
            decided.clear()
            kept = self.fill(decided)
            pinned(SMALL)
            known(SMALL)
            assert decided == ["double", "double"]
            assert len(kept) > MANY

    def test_calls_that_are_made_as_written_say_why(
        self, quiet_session: Any, decided: list[str]
    ) -> None:
        kept = self.fill(decided)
        placed = gf.offload(lambda x: x[0])
        placed([1.0])
        assert placed.stats().as_written == {"no NumPy array among the arguments": 1}
        assert not placed.stats().counts
        assert len(kept) > MANY

    def test_what_a_profile_decided_about_waits_no_longer(
        self, quiet_session: Any, decided: list[str], never_long: None
    ) -> None:
        kept = self.fill(decided)
        placed = gf.offload(double)
        placed(SMALL)
        assert not decided
        with gf.profile():
            placed(SMALL)
        placed(SMALL)
        assert decided == ["double", "double"] and not placed.stats().waits
        assert len(kept) > MANY

    def test_what_a_function_raises_is_raised_and_counted(
        self, quiet_session: Any, decided: list[str], never_long: None
    ) -> None:
        kept = self.fill(decided)
        placed = gf.offload(lambda x: x[99])
        for _ in range(2):
            with pytest.raises(IndexError):
                placed(SMALL)
        assert placed.stats().counts["numpy"].calls == 2 and not decided
        assert len(kept) > MANY

    def test_in_a_recorded_call_they_are_a_part_of_it(
        self, quiet_session: Any, decided: list[str], never_long: None
    ) -> None:
        kept = self.fill(decided)
        inner = gf.offload(double)
        outer = gf.offload(backend="blocks")(lambda x: inner(x) * 3)
        for calls in (0, 1):
            assert np.array_equal(outer(SMALL), SMALL * 6)
            assert sum(count.calls for count in inner.stats().counts.values()) == calls
            inner(SMALL)
        assert len(kept) > MANY
