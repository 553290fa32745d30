"""Spans of one thread that overlap get lanes beside each other; whatever portions they come in."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpuforge.profiler.lanes import Lanes
from gpuforge.trace import DEVICE, HOST, Span


def span(number: int, start: int, end: int, parent: int = 0, label: int = HOST) -> Span:
    return Span("s", label, number, parent, start, end, -1 if label == DEVICE else 7, 0, None)


def test_spans_that_nest_stay_on_the_lane_of_their_thread() -> None:
    spans = [span(2, 1, 4, 1), span(3, 5, 8, 1), span(1, 0, 10), span(4, 10, 12)]
    assert Lanes(1).place(spans, []) == {}


def test_tasks_that_overlap_are_put_side_by_side() -> None:
    spans = [span(1, 0, 10), span(2, 1, 5, 1), span(3, 2, 7, 1), span(4, 3, 4, 3), span(5, 8, 9, 1)]
    lanes = Lanes(1)
    found = lanes.place(spans, [])
    assert set(found) == {3, 4} and found[3] == found[4]
    assert lanes.named({7: "MainThread"})[found[3]].name == "MainThread (2)"


def test_devices_are_left_alone() -> None:
    assert Lanes(1).place([span(1, 0, 10, 0, DEVICE), span(2, 5, 12, 0, DEVICE)], []) == {}


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), max_size=20), st.integers(0, 60))
def test_no_lane_holds_spans_that_overlap(drawn: list[tuple[int, int]], cut: int) -> None:
    rows = sorted(drawn)
    spans = [span(n, start, start + length) for n, (start, length) in enumerate(rows, 1)]
    begun = [one for one in spans if one.start_ns <= cut]
    lanes = Lanes(1)
    ended = [one for one in begun if one.end_ns <= cut]
    standing = [one._replace(end_ns=0) for one in begun if one.end_ns > cut]
    found = lanes.place(ended, standing)
    late = [one for one in spans if one not in ended]
    again = lanes.place(late, [])
    assert all(again.get(one.number, 7) == found.get(one.number, 7) for one in standing)
    found |= again
    by_lane: dict[int, list[Span]] = {}
    for one in spans:
        by_lane.setdefault(found.get(one.number, 7), []).append(one)
    for held in by_lane.values():
        for before, after in pairwise(held):
            assert before.end_ns <= after.start_ns
