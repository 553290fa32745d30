"""Which call returned the arrays that another one is given."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge import flow
from gpuforge.profiler.feeds import Feed, feeds
from tests.profiler.test_passes import Making


@gf.profiled
def load(rows: int) -> tuple[Any, dict[str, int]]:
    return np.ones((rows, 4)), {"rows": rows}


@gf.offload
def scale(x: Any) -> Any:
    return x * 2.0


@gf.offload
def fill(x: Any) -> Any:
    x[:] = 1.0
    return x


@gf.profiled
async def save(given: dict[str, Any]) -> None:
    await asyncio.sleep(0)


def passed(profile: Any) -> dict[tuple[str, str], tuple[int, int]]:
    return {(one.first, one.then): (one.times, one.passed) for one in feeds(profile, 20)}


def test_arrays_tell_which_call_feeds_which() -> None:
    with gf.profile() as p:
        for _ in range(5):
            table, _ = load(100)
            scaled = scale(table[50:])
            asyncio.run(save({"scaled": fill(scaled)}))
    assert passed(p.profile) == {
        ("load", "scale"): (5, 5 * 50 * 4 * 8),
        ("scale", "fill"): (5, 5 * 50 * 4 * 8),
        ("fill", "save"): (5, 5 * 50 * 4 * 8),
    }


def test_work_in_between_leaves_the_order() -> None:
    with gf.profile() as p:
        for _ in range(3):
            scale(load(10)[0] + 1.0)
    assert passed(p.profile) == {("load", "scale"): (3, 0)}


def test_a_view_of_something_else_says_nothing_of_its_owner() -> None:
    table = np.arange(20.0)
    flow.returned("half", table[5:])
    assert flow.sources([table]) == flow.sources([table[6:]]) == {}
    view = np.arange(20.0).reshape(10, 2)[5:]
    flow.returned("make", view)
    assert flow.sources([view[1:], 3, "x"]) == {"from": [["make", 64]]}


def test_an_array_in_the_place_of_a_result_is_not_the_result() -> None:
    array, other = np.ones(3), np.zeros(3)
    flow.returned("make", [array])
    assert flow.sources([array])
    flow._results[id(other)] = flow._results[id(array)]
    assert flow.sources([other]) == {}


def test_results_can_be_resized_and_die_as_without_a_profile() -> None:
    with gf.profile():
        table, _ = load(3)
        scaled = scale(table)
        known = weakref.ref(table)
        del table
        scaled.resize(6, 4)
    assert known() is None


def test_a_recording_knows_nothing_of_the_last_one() -> None:
    with gf.profile():
        table, _ = load(3)
    with gf.profile() as p:
        scale(table)
    assert passed(p.profile) == {}


def test_objects_are_not_compared() -> None:
    array = np.array([object(), None])
    flow.returned("make", array)
    assert flow.sources([array]) == {}


def test_the_number_of_results_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "_results", {})
    monkeypatch.setattr(flow, "MOST_RESULTS", 6)
    arrays = [np.ones(3) for _ in range(8)]
    for array in arrays:
        flow.returned("make", array)
    assert [bool(flow.sources([array])) for array in arrays] == [False] * 3 + [True] * 5


@pytest.mark.parametrize("told", [3, "a", [["a"]], [[1, 2]], [["a", "b"]], [["a", -1]], [None]])
def test_an_odd_origin_in_a_file_is_ignored(told: object) -> None:
    making = Making()
    making.span("step", 0, 10, **{"from": told})
    assert feeds(making.profile, 5) == []


def test_the_way_back_of_a_loop_is_no_flow() -> None:
    making = Making()
    for at in range(0, 30, 10):
        making.span("load", at, 2)
        making.span("solve", at + 2, 2, **{"from": [["load", 8]]})
        making.span("save", at + 4, 2, **{"from": [["solve", 8]]})
    assert feeds(making.profile, 5) == [
        Feed("load", "solve", 3, 24, 0), Feed("solve", "save", 3, 24, 0)
    ]  # fmt: skip


def test_a_long_chain_takes_no_longer_than_its_length() -> None:
    making = Making()
    for at in range(2_000):
        making.span(f"s{at}", at, 1, **{"from": [[f"s{at - 1}", 8]]} if at % 2 else {})
    assert len(feeds(making.profile, 5_000)) == 1_999
