"""Calls with a whole number that keeps changing share one signature and one cached decision."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.runtime.evaluation.opening import open_library
from gpuforge.runtime.evaluation.replay import Replay
from gpuforge.runtime.execution import considered
from gpuforge.runtime.execution.pipeline import TRIED_EVERY
from gpuforge.runtime.function.dependence import dependence_of
from gpuforge.runtime.function.numbers import CALLS_EACH, MANY_VALUES, VALUES, Numbers
from gpuforge.runtime.record import MAX_NEW_GRAPHS
from tests.runtime.conftest import first_device, places

CALLS = 600
X = np.random.default_rng(3).random(2_000)


def shifted(step: int, x: Any) -> Any:
    return np.tanh(x * 0.5)[step % 5 :] + step


def decayed(x: Any, *, step: int) -> Any:
    return x * step - x.sum()


def lagged(x: Any, lag: int) -> Any:
    return np.exp(x[lag:]) * x[:-lag]


def damped(x: Any, by: float) -> Any:
    return np.exp(-x * by) + x * 0.5


def derivative(t: float, x: Any) -> Any:
    return np.tanh(x) * 0.5 - x


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls for which a decision was made."""
    found: list[Any] = []
    real = considered.pipeline.place

    def place(call: Any) -> Any:
        found.append(call.key)
        return real(call)

    monkeypatch.setattr(considered.pipeline, "place", place)
    return found


@pytest.mark.parametrize("size", [8, 20_000], ids=["short", "long"])
@pytest.mark.parametrize("times", [1, 8])
def test_few_calls_are_decided(size: int, times: int, quiet_session: Any, decided: Any) -> None:
    x = np.linspace(0.0, 1.0, size)
    first, second = gf.offload(shifted), gf.offload(decayed)
    for step in range(CALLS):
        for _ in range(times):
            np.testing.assert_allclose(first(step, x), shifted(step, x), rtol=1e-12)
            np.testing.assert_allclose(second(x, step=step), decayed(x, step=step), rtol=1e-12)
    for function, place in ((first, 0), (second, "step")):
        assert function.stats().numbers.changing == {place}
        assert sum(places(function).values()) == CALLS * times
    # Each of the first values is decided on a few times, and then about one call in a hundred.
    assert len(decided) < 2 * (VALUES * CALLS_EACH + CALLS * times / 8)
    assert len(set(decided)) <= 2 * (VALUES + 1)


def test_results_depend_on_the_number(other: str) -> None:
    with gf.session(history=False):
        first, second = (gf.offload(one, backend=other) for one in (shifted, decayed))
        for step in range(3 * VALUES):
            np.testing.assert_allclose(first(step, X), shifted(step, X), rtol=1e-12)
            np.testing.assert_allclose(second(X, step=step), decayed(X, step=step), rtol=1e-12)
        assert first.stats().numbers.changing == {0}
        for step in (5, True, 10**30, -1, 2.5):
            expected = decayed(X, step=step)  # type: ignore[arg-type]
            found = second(X, step=step)  # type: ignore[arg-type]
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_an_unused_number_is_no_reason_to_record(other: str, recorded: list[int]) -> None:
    with gf.session(history=False):
        placed = gf.offload(derivative, backend=other)
        for step in range(8):
            placed(0.1 * step, X)
        recorded.clear()
        for step in range(50):
            np.testing.assert_allclose(placed(0.1 * step, X), derivative(0, X), rtol=1e-12)
            np.testing.assert_allclose(placed(step, X), derivative(0, X), rtol=1e-12)
        assert len(recorded) <= VALUES + 4


def test_a_float_that_changes_is_recorded_and_few_calls_are_decided(
    other: str, recorded: list[int], decided: Any
) -> None:
    with gf.session(history=False):
        placed = gf.offload(damped, backend=other)
        durations = []
        for call in range(CALLS):
            start = perf_counter()
            found = placed(X, call / 8)
            durations.append(perf_counter() - start)
            np.testing.assert_allclose(found, damped(X, call / 8), rtol=1e-12)
        assert len(recorded) == CALLS
        assert len(decided) < CALLS / 4
        (kind,) = placed.stats().kinds.values()
        (key,) = kind.signatures.values()
        known = kind.kind.curve(first_device(other)).cell(key)
        assert known.typical > min(durations) / 2  # with the time to record


def test_a_replay_that_does_not_fit_once_stays(other: str, recorded: list[int]) -> None:
    with gf.session(history=False):
        placed = gf.offload(damped, backend=other)
        for _ in range(3):
            for step in (0.5, 0.5, 0.5, 0.5, 0.25):
                np.testing.assert_allclose(placed(X, step), damped(X, step), rtol=1e-12)
        for _ in range(2):
            placed(X, 0.5)
        recorded.clear()
        for _ in range(10):
            placed(X, 0.5)
        assert not recorded


def test_another_thread_may_drop_a_replay_at_the_same_time(
    other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(considered.pipeline, "calls_to_hold", lambda *_: 0)
    with gf.session(history=False):
        placed = gf.offload(damped, backend=other)
        placed(X, 0.5)
        (kind,) = placed.stats().kinds.values()
        assert kind.replays

        def dropped(*_: Any) -> bool:
            kind.replays.clear()
            return False

        monkeypatch.setattr(Replay, "fits", dropped)
        np.testing.assert_allclose(placed(X, 0.25), damped(X, 0.25), rtol=1e-12)


def test_numbers_that_stop_changing_are_replayed_again(
    other: str, recorded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(considered.pipeline, "calls_to_hold", lambda *_: 0)
    on_host = open_library(other).devices[0].on_host
    with gf.session(history=False):
        placed = gf.offload(damped, backend=other)
        for call in range(30):
            placed(X, call / 8)
        for _ in range(2 * TRIED_EVERY):
            placed(X, 0.5)
        recorded.clear()
        for _ in range(10):
            np.testing.assert_allclose(placed(X, 0.5), damped(X, 0.5), rtol=1e-12)
        if on_host:  # on a device, only calls under a held choice are replayed
            assert not recorded


def test_nothing_is_compiled_for_calls_that_all_have_another_graph(jax: Any) -> None:
    with gf.session(history=False):
        gf.offload(derivative, backend="jax")(0.0, X)
        parts, whole = (gf.offload(one, backend="blocks") for one in (lagged, decayed))
        for step in range(3 * VALUES):
            parts(X, step + 1)
            whole(X, step=step)
        for function, varies in ((parts, True), (whole, False)):
            kinds = function.stats().kinds.values()
            assert any(kind.varies(key) for kind in kinds for key in kind.new_graphs) is varies
        placed = gf.offload(shifted)
        placed(1, X)
        (kind,) = placed.stats().kinds.values()
        kind.new_graphs = dict.fromkeys(kind.signatures.values(), MAX_NEW_GRAPHS)
        assert "each call has another graph to compile" in str(placed.explain(1, X))


def test_an_import_in_the_background_is_no_loss_of_the_calls(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gf.session(history=False) as held:
        placed = gf.offload(derivative, backend="torch")
        for number, importing in enumerate((False, True)):
            monkeypatch.setattr(type(held.background), "is_importing", importing)
            before = sum(held.account.gained_seconds.values())
            for _ in range(50):
                placed(0.0, X)
            gained = sum(held.account.gained_seconds.values()) - before
            assert (gained == 0) is bool(number)


def test_a_number_with_few_values_is_told_apart(quiet_session: Any, decided: Any) -> None:
    placed = gf.offload(shifted)
    for call in range(CALLS):
        placed(call % (VALUES - 1), X)
    assert not placed.stats().numbers.changing
    assert len(set(decided)) == VALUES - 1


def test_what_keeps_changing_is_remembered(tmp_path: Path, decided: Any) -> None:
    for _ in range(2):
        decided.clear()
        with gf.session(cache_folder=str(tmp_path)):
            placed = gf.offload(decayed)
            for step in range(CALLS):
                placed(X, step=step)
    assert len(set(decided)) == 1


def test_a_recorded_plan_tells_all_numbers_apart(tmp_path: Path) -> None:
    """Also if another process found out that they keep changing."""
    for plan in ({}, {"deterministic": True, "plan": str(tmp_path / "plan.json")}):
        with gf.session(cache_folder=str(tmp_path), **plan):
            placed = gf.offload(shifted)
            for step in range(2 * VALUES):
                placed(step, X)
            assert bool(placed.stats().numbers.changing) is not bool(plan)


def test_calls_are_explained_by_what_was_learned(quiet_session: Any) -> None:
    placed = gf.offload(shifted)
    for step in range(CALLS):
        placed(step, X)
    assert "learned: median of" in str(placed.explain(10 * CALLS, X))


class TestNumbers:
    def test_other_types_are_not_counted(self) -> None:
        numbers = Numbers()
        for step in range(10 * VALUES):
            numbers.note((float(step), str(step), bool(step % 2), np.int64(step)), {"x": (step,)})
        assert not numbers.changing

    def test_values_that_come_back_are_no_change(self) -> None:
        numbers = Numbers()
        for _ in range(CALLS_EACH + 1):
            for step in range(VALUES - 1):
                assert not numbers.note((step,), {})
        assert not numbers.note((VALUES,), {})

    def test_so_many_values_are_no_reason_to_tell_them_apart(self) -> None:
        numbers = Numbers()
        for step in range(10 * (CALLS_EACH + 1) * MANY_VALUES):
            if numbers.note((step // (CALLS_EACH + 2),), {}):
                assert step // (CALLS_EACH + 2) == MANY_VALUES - 1
                break
        assert numbers.changing == {0}

    def test_arguments_are_counted_one_by_one(self) -> None:
        numbers = Numbers()
        told = [numbers.note((7, step), {"n": step // 2}) for step in range(2 * VALUES)]
        assert told.count(True) == 2
        assert numbers.changing == {1, "n"}
        again = Numbers()
        again.recall(numbers.text())
        assert again.changing == numbers.changing


def nested(a: Any, b: float, c: int, /, d: int, e: int = 3, *rest: Any, f: int, g: int = 1) -> Any:
    def inner(y: Any) -> Any:
        return y + c

    return inner(a) * g + d


def test_unused_arguments_are_read_from_the_code() -> None:
    found = dependence_of(nested)
    assert found is not None
    assert found.unused == {1, 4, "e", "f"}
