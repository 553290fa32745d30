"""Every format: any profile is rendered, and what is written parses back."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings

from gpuforge.errors import UnknownName, WorkloadError
from gpuforge.profiler import formats, sections
from gpuforge.profiler.advise import Suggestion
from gpuforge.profiler.model import LABELS, Placement, Profile
from tests.profiler.any_profile import long_profile, profiles
from tests.profiler.made import MS, Making
from tests.profiler.test_passes import example


def parsed(text: str | bytes) -> Any:
    assert isinstance(text, str)
    text.encode("utf-8")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("name", formats.names())
def test_a_format_says_what_it_is(name: str) -> None:
    module = formats.module(name)
    assert 10 < len(module.SUMMARY) <= 80
    assert module.SUFFIX.startswith(".")


def test_the_ends_of_file_names_differ() -> None:
    ends = [formats.module(name).SUFFIX for name in formats.names()]
    assert len(set(ends)) == len(ends)


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        formats.render(Profile(), "speedscop")
    assert caught.value.hint == "did you mean 'speedscope'?"


@settings(max_examples=30)
@given(profiles())
def test_any_profile_is_rendered_in_every_format(profile: Profile) -> None:
    for name in formats.names():
        try:
            found = formats.render(profile, name)
        except WorkloadError:
            assert name == "pyperf"
            assert profile.wall_ns == 0
            continue
        assert isinstance(found, str | bytes)


@settings(max_examples=30)
@given(profiles())
def test_json_holds_every_span(profile: Profile) -> None:
    found = parsed(formats.render(profile, "json"))
    spans = found["spans"]
    assert found["schema_version"] == 1
    assert found["complete"] == profile.complete
    assert spans["parent"] == list(profile.spans.parent)
    assert [round(t * 1e9) for t in spans["start_seconds"]] == list(profile.spans.start)
    assert [round(t * 1e9) for t in spans["duration_seconds"]] == list(profile.spans.duration)
    assert spans["bytes"] == list(profile.spans.bytes)
    assert sum(path["count"] for path in found["paths"]) == sum(profile.spans.count)
    assert all(path["parent"] < place for place, path in enumerate(found["paths"]))
    for name in ("program", "started"):
        assert (found[name] is None) <= (name in found["unknown"]), name


@settings(max_examples=30)
@given(profiles())
def test_folded_stacks_hold_every_own_time(profile: Profile) -> None:
    text = formats.render(profile, "folded")
    assert isinstance(text, str)
    total = 0
    for line in text.splitlines():
        stack, _, value = line.rpartition(" ")
        assert re.fullmatch(r"(thread|device)(;[^;\n]*)+", stack)
        total += int(value)
    paths = parsed(formats.render(profile, "json"))["paths"]
    for path in paths:
        busy = path["label_seconds"]["device"] if path["lane_kind"] == "thread" else 0.0
        used = min(busy / path["total_seconds"], 1.0) if busy and path["total_seconds"] else None
        assert path["utilisation"] == pytest.approx(used)
    own = sum(sum(path["own_label_seconds"].values()) for path in paths)
    assert total == pytest.approx(own * 1e9, rel=1e-9, abs=0.5)


def test_folded_stacks_are_told_by_label() -> None:
    assert formats.render(example(), "folded") == (
        "thread;step 7000000\n"
        "thread;step;solve;run;[wait] 4000000\n"
        "device;step;solve;kernel 3000000\n"
        "thread;step;solve;put;[transfer] 3000000\n"
        "thread;step;solve;[overhead] 1000000\n"
    )


def test_folded_stacks_of_endless_paths_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats.module("folded"), "MOST_PATHS", 10)
    monkeypatch.setattr(formats.module("folded"), "MOST_FRAMES", 4)
    making, inside = Making(), -1
    for depth in range(10):
        inside = making.span(f"d{depth}", depth, 40 * MS - 2 * depth, inside=inside)
    making.span("short", 40 * MS, 1)
    making.span("shorter", 41 * MS, 1)
    text = formats.render(making.profile, "folded")
    assert isinstance(text, str)
    assert "thread;d0;d1;d2;d3;(deeper) " in text
    assert "thread;(other paths) " in text
    assert sum(int(line.split()[-1]) for line in text.splitlines()) == 40 * MS + 2


def test_json_of_many_spans_says_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    module = formats.module("json")
    monkeypatch.setattr(module, "MOST_SPANS", 10)
    monkeypatch.setattr(module, "MOST_PATHS", 2)
    found = parsed(formats.render(long_profile(3000), "json"))
    shown = len(found["spans"]["start_seconds"])
    assert 10 <= shown <= 20
    assert found["left_out"] == {"spans": 3000 - shown, "paths": 1}
    assert found["wall_seconds"] == pytest.approx(300.5e-6)
    thread = found["lanes"][0]
    assert set(thread["label_seconds"]) == set(LABELS)


@pytest.mark.parametrize("name", formats.names())
def test_endless_recursion_is_rendered(name: str) -> None:
    making, depth, inside = Making(), 20_000, -1
    for level in range(depth):
        inside = making.span("again", level, 2 * depth - 2 * level, inside=inside)
    assert len(formats.render(making.profile, name)) < 20_000_000


@pytest.mark.parametrize("name", ["json", "chrome-trace", "speedscope", "text", "markdown"])
def test_ten_times_the_spans_make_no_larger_report(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats.module(name), "MOST_SPANS", 500, raising=False)
    few, many = (len(formats.render(long_profile(n), name)) for n in (2000, 20_000))
    assert many < 1.5 * few


def test_json_holds_the_suggestions(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Suggestion("copies", "copied twice", ["4 MB"], 0.1, float("nan"), file="a.py", line=3)
    monkeypatch.setattr(sections, "suggestions", lambda _: [one])
    (found,) = parsed(formats.render(example(), "json"))["suggestions"]
    assert (found["rule"], found["line"], found["bound_share"]) == ("copies", 3, None)


def test_json_says_why_something_is_not_known() -> None:
    profile = example()
    profile.header["unknown"] = {"driver": "no device"}
    profile.placements.append(Placement(5, "f", "(8,)", "torch", float("nan")))
    found = parsed(formats.render(profile, "json"))
    assert found["unknown"]["driver"] == "no device"
    assert found["started"] is None
    assert found["unknown"]["started"]
    assert found["placements"][0]["seconds"] is None
    assert found["placements"][0]["at_seconds"] == 5e-9


@settings(max_examples=30)
@given(profiles())
def test_pyperf_values_are_durations(profile: Profile) -> None:
    if profile.wall_ns == 0 and not any(profile.spans.duration):
        with pytest.raises(WorkloadError, match="without values"):
            formats.render(profile, "pyperf")
        return
    found = parsed(formats.render(profile, "pyperf"))
    listed = [benchmark["metadata"]["name"] for benchmark in found["benchmarks"]]
    assert max(Counter(listed).values()) == 1
    values = [v for b in found["benchmarks"] for run in b["runs"] for v in run["values"]]
    assert all(value > 0 for value in values)
    positive = sum(duration > 0 for duration in profile.spans.duration)
    assert len(values) == positive + (profile.wall_ns > 0)


def test_pyperf_takes_every_nth_of_many_values() -> None:
    found = parsed(formats.render(long_profile(30_000), "pyperf"))
    step = next(b for b in found["benchmarks"] if b["metadata"]["name"] == "step")
    assert step["metadata"]["gpuforge_values_of"] == 10_000
    assert len(step["runs"][0]["values"]) == 1000
