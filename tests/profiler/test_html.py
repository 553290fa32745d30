"""The HTML page without a browser: what it holds, how large it is, what hostile names do to it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections import Counter
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest

from gpuforge.profiler.breakdown import breakdown, total_ns
from gpuforge.profiler.formats import html
from gpuforge.profiler.model import LABELS, Placement, Profile, Series
from gpuforge.profiler.page import columns
from gpuforge.profiler.page.difference import render_difference
from tests.profiler.made import MS, Making
from tests.profiler.realistic import realistic

HOSTILE = (
    "</script><script>hit = 1</script>", "<img src=x onerror='hit = 1'>", "--><!-- <!--<script>",
    "\u202egnorw\u2069", "x" * 100_000, "a\x00b\x1b[31m\r\n", "\ud800 alone \udfff",
    "' onmouseover=hit=1 \"", "$data ${script} $$", "]]>&lt;", "Ünïcödé 计算 🧮",
)  # fmt: skip


class Elements(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.scripts: list[str] = []
        self.attributes: set[str] = set()
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        self.inside = tag

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            self.scripts.append(data)
            self.inside = ""


def unpacked(text: str) -> dict[str, Any]:
    """Return the columns of a page."""
    found = re.search(r'id="data">([^<]*)<', text)
    assert found
    return dict(json.loads(gzip.decompress(base64.b64decode(found[1]))))


def hostile(names: tuple[str, ...]) -> Profile:
    """Return a profile in which each text of the program is one of `names`."""
    making = Making(platform=names[0], gpuforge=names[1], python=names[2])
    for place, name in enumerate(names):
        lane = making.lane(f"{name}{place}")
        for inner in (name, "inner"):
            making.span(
                inner, place * MS, MS, lane=lane, file=name, line=3, backend=name, function=name,
                error=name,
            )  # fmt: skip
        making.profile.placements.append(Placement(0, name, name, name, 1, 1, {name: 0.5}, 0, name))
        making.profile.series.append(Series(name, name, name))
        making.profile.series[-1].times_ns.append(0)
        making.profile.series[-1].values.append(1.0)
        making.profile.notes.append(name)
    profile = making.profile
    profile.header |= {"program": list(names), "versions": dict(zip(names, names, strict=True))}
    return profile


def test_the_page_says_first_where_the_time_went() -> None:
    text = html.render(realistic())
    lead = re.search(r'<p class="lead" id="lead">(.*?)</p>', text)
    assert lead
    assert re.match(r"1\.22 s: \d+ % waiting for a device, \d+ % moving bytes, ", lead[1])
    assert "(train.py:" in lead[1]


def largest(profile: Profile) -> str:
    page = unescape(html.render(profile))
    found = re.search(r"The largest part of the threads' time, (.*?)</p>", page)
    assert found
    return found[1]


def test_the_first_line_names_the_span_with_the_most_time_of_its_own() -> None:
    making = Making()
    whole = making.span("program", 0, 10 * MS)
    making.span("read", 0, 4 * MS, inside=whole)
    assert largest(making.profile) == "60.0 %, was spent in code without a span of its own."
    call = making.span("solve", 4 * MS, 5 * MS, inside=whole, label="overhead", function="solve",
                       file="a.py", line=3)  # fmt: skip
    making.span("direct call", 4 * MS, 4 * MS, inside=call)
    assert largest(making.profile) == "50.0 %, was spent in solve (a.py:3) itself."
    making.span("matmul", 5 * MS, 3 * MS, inside=call, label="wait", file="a.py", line=9)
    making.span("read", 9 * MS, MS, inside=whole)
    assert largest(making.profile).endswith("was spent in read itself.")


def test_a_profile_without_spans_makes_a_page() -> None:
    text = html.render(Profile(complete=False, wall_ns=5 * MS))
    assert "5 ms: no spans were recorded." in text
    assert "incomplete: the recording ended early" in text


def test_only_the_script_of_the_page_may_run() -> None:
    text = html.render(realistic(3))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    assert policy[1].startswith("default-src 'none'; ")
    data, script = Elements(text).scripts
    assert base64.b64decode(data, validate=True)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy[1]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", text)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_change_no_element(name: str) -> None:
    text = html.render(hostile((name,) * 3))
    text.encode()
    found, plain = Elements(text), Elements(html.render(hostile(("plain",) * 3)))
    assert found.tags == plain.tags
    assert found.attributes == plain.attributes
    assert not re.search("[\x00-\x08\x0b-\x1f\u2028-\u202e\u2066-\u2069]", text)
    assert len(text) < len(html.render(hostile(("plain",) * 3))) + 30_000
    json.dumps(unpacked(text)).encode()
    render_difference(hostile((name,) * 3), hostile(("plain",) * 3)).encode()


@pytest.mark.parametrize(("most", "merged"), [(100_000, False), (40, True)])
def test_call_paths_keep_every_nanosecond(
    most: int, merged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "MOST_PATHS", most)
    profile = realistic(20)
    text = html.render(profile)
    data = unpacked(text)
    figures = data["figures"]
    times = tuple(sum(figures[f"own{label}"]) for label in range(len(LABELS)))
    parts = breakdown(profile)
    assert times == total_ns(parts)
    assert sum(figures["bytes"]) == sum(part.bytes for part in parts)
    assert sum(figures["count"]) == len(profile.spans)
    assert (columns.MERGED in data["texts"]) == merged == ("call paths are merged" in text)
    if merged:
        assert len(figures["count"]) < 200


def test_spans_stand_where_they_were() -> None:
    profile = realistic(2)
    spans = unpacked(html.render(profile))["spans"]
    assert spans["unit"] == 1
    assert spans["size"] == [sum(s.lane == lane for s in profile.spans) for lane in range(6)]
    found = []
    start = at = 0
    for lane, size in enumerate(spans["size"]):
        start = 0
        for _ in range(size):
            start += spans["gap"][at]
            found.append((lane, start, spans["duration"][at], spans["label"][at]))
            at += 1
    wanted = [(s.lane, s.start_ns, s.duration_ns, s.label) for s in profile.spans]
    assert sorted(found) == sorted(wanted)


def test_above_the_limit_the_longest_spans_are_kept_and_the_others_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columns, "MOST_SPANS", 2000)
    monkeypatch.setattr(columns, "KEPT_SPANS", 100)
    profile = realistic(20)
    text = html.render(profile)
    spans = unpacked(text)["spans"]
    assert len(spans["gap"]) <= 2000 + 100
    assert "longest spans individually" in text
    assert max(spans["duration"]) == max(profile.spans.duration)
    assert sum(spans["spans"]) <= len(profile.spans)
    if "are left out" not in text:
        assert sum(spans["spans"]) == len(profile.spans)
        assert sum(spans["duration"]) == sum(profile.spans.duration)


def test_a_hundred_thousand_spans_are_less_than_a_megabyte() -> None:
    profile = realistic(940)
    assert 95_000 < len(profile.spans) <= 100_000
    text = html.render(profile)
    assert len(text.encode()) < 1_000_000
    assert len(unpacked(text)["spans"]["gap"]) == len(profile.spans)
    assert "in steps of 100 ns" in text


def test_readings_are_thinned_to_their_extremes() -> None:
    series = Series("memory", "bytes", "cuda:0")
    for at in range(10_000):
        series.times_ns.append(at)
        series.values.append(float("nan") if at == 3 else 1e9 if at == 7777 else at % 10)
    notes: list[str] = []
    found = columns.series_columns(series, notes)
    assert len(found["time"]) == len(found["value"]) <= columns.MOST_POINTS
    assert max(found["value"]) == 1e9
    assert found["time"] == sorted(found["time"])
    assert notes


def test_the_difference_holds_both_runs() -> None:
    base, new = realistic(5), realistic(8, seed=3)
    text = render_difference(base, new, ["the driver changed"])
    data = unpacked(text)
    for name, profile in (("base", base), ("figures", new)):
        sums = tuple(sum(data[name][f"own{label}"]) for label in range(len(LABELS)))
        assert sums == total_ns(breakdown(profile))
    assert "<li>the driver changed</li>" in text
    assert "so the random variation is unknown" in text
