"""The part of the spans that is shown, and rows on which they are nested or follow each other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from gpuforge.profiler import timeline
from gpuforge.profiler.model import NO_PARENT, Profile
from gpuforge.profiler.timeline import longest, row_names, rows
from tests.profiler.any_profile import long_profile, profiles
from tests.profiler.made import MS, Making


@settings(max_examples=40)
@given(profiles())
def test_spans_of_a_row_are_nested_or_follow_each_other(profile: Profile) -> None:
    spans = profile.spans
    found = rows(spans, range(len(spans)))
    shown = [bar.span for row in found for bar in row.bars]
    assert sorted(shown) == list(range(len(spans)))
    for row in found:
        opened: list[timeline.Bar] = []
        for bar in row.bars:
            assert spans.lane[bar.span] == row.lane
            assert bar.start_ns == spans.start[bar.span]
            while opened and opened[-1].end_ns <= bar.start_ns:
                opened.pop()
            if opened:
                assert bar.end_ns <= opened[-1].end_ns
                assert spans.parent[bar.span] == opened[-1].span
            opened.append(bar)
            cut = spans.start[bar.span] + spans.duration[bar.span] - bar.end_ns
            assert 0 <= cut <= timeline.CLOCK_NS


def test_nested_calls_take_one_row_and_overlapping_tasks_several() -> None:
    making = Making()
    a = making.span("task", 0, 10 * MS)
    b = making.span("task", 2 * MS, 10 * MS)
    making.span("inner", 3 * MS, 2 * MS, inside=b)
    making.span("inner", 4 * MS, 2 * MS, inside=a)
    making.span("late", 20 * MS, MS)
    found = rows(making.profile.spans, range(5))
    assert [[bar.span for bar in row.bars] for row in found] == [[0, 3, 4], [1, 2]]
    assert row_names(making.profile, found) == ["MainThread", "MainThread (2)"]


def test_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_ROWS", 3)
    making = Making()
    for start in range(10):
        making.span("task", start, MS)
    found = rows(making.profile.spans, range(10))
    assert [len(row.bars) for row in found] == [1, 1, 1]


@pytest.mark.parametrize("limit", [0, 1, 7, 100])
def test_the_longest_are_shown_with_those_around_them(limit: int) -> None:
    spans = long_profile(300).spans
    found = longest(spans, limit)
    assert found == sorted(set(found))
    assert limit <= len(found) <= 2 * limit
    for index in found:
        assert spans.parent[index] == NO_PARENT or spans.parent[index] in found
    shortest = sorted(spans.duration, reverse=True)[limit]
    assert all(spans.duration[i] <= shortest for i in range(300) if i not in found)
